"""Writing host names as one hostlist (RFC 29): ``node[8-11,20],login``, in the order given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBERED = re.compile(r"(.*?)(\d*)", re.ASCII | re.DOTALL)
_SEPARATORS = frozenset(",[]\t ")
_LARGEST = 2**64 - 1


@dataclass(slots=True)
class _Run:
    """Hosts of one prefix with consecutive numbers; ``low`` is None for a host without a number."""

    prefix: str
    low: int | None
    high: int
    width: int

    def take(self, other: _Run) -> bool:
        """Add the hosts of ``other`` at the end, if they follow directly and are written alike."""
        if self.low is None or other.low is None or self.prefix != other.prefix or self.high + 1 != other.low:
            return False
        alone, joined = _padding(self.low, self.width), _padding(self.low, other.width)
        added, adapted = _padding(other.low, other.width), _padding(other.low, self.width)
        if alone != joined and added != adapted:
            return False
        if alone == joined:
            self.width = other.width
        self.high = other.high
        return True

    def numbers(self) -> str:
        """The part of the run that stands in brackets."""
        if self.low is None:
            return ""
        first = f"{self.low:0{self.width}d}"
        return first if self.low == self.high else f"{first}-{self.high:0{self.width}d}"


def encode_hosts(names: Iterable[str]) -> str:
    """Write ``names``. Raises ValueError for a name that no hostlist can hold."""
    runs: list[_Run] = []
    for name in names:
        run = _run(name)
        if not runs or not runs[-1].take(run):
            runs.append(run)
    texts: list[str] = []
    start = 0
    while start < len(runs):
        end = start + 1
        while end < len(runs) and _share_brackets(runs[end - 1], runs[end]):
            end += 1
        texts.append(_bracketed(runs[start:end]))
        start = end
    return ",".join(texts)


def _bracketed(runs: list[_Run]) -> str:
    numbers = ",".join(run.numbers() for run in runs)
    if len(runs) > 1 or runs[0].low not in (None, runs[0].high):
        numbers = f"[{numbers}]"
    return runs[0].prefix + numbers


def _share_brackets(one: _Run, other: _Run) -> bool:
    return one.prefix == other.prefix and one.low is not None and other.low is not None


def _run(name: str) -> _Run:
    match = _NUMBERED.fullmatch(name)
    digits = match[2] if match else ""
    if not name or not _SEPARATORS.isdisjoint(name) or (digits and int(digits[:30]) > _LARGEST):
        raise ValueError(f"a hostlist can't hold the name {name!r}")
    if not digits:
        return _Run(name, None, 0, 0)
    return _Run(name[: -len(digits)], int(digits), int(digits), len(digits))


def _padding(number: int, width: int) -> int:
    """How many zeros stand before the number when it is written with this width."""
    return max(0, width - len(str(number)))
