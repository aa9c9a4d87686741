"""Hostlists (RFC 29): which host names a compact list such as ``node[00-15,20],login1`` holds.

Ranges are kept as ranges, so that a list of a million hosts costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SEPARATORS = re.compile(r"[\t, ]+")
_RANGE = re.compile(r"(\d+)(?:-(\d*))?")
_LONGEST_RANGE = 2**20


@dataclass(frozen=True, slots=True)
class _Range:
    prefix: str
    suffix: str
    low: int
    high: int
    width: int

    def holds(self, name: str) -> bool:
        if not (name.startswith(self.prefix) and name.endswith(self.suffix)):
            return False
        digits = name[len(self.prefix) : len(name) - len(self.suffix)]
        if not (digits.isascii() and digits.isdigit()):
            return False
        number = int(digits)
        return self.low <= number <= self.high and digits == f"{number:0{self.width}d}"


class Hostlist:
    """A set of host names read from hostlist strings; ``name in hostlist`` asks for membership."""

    __slots__ = ("_names", "_ranges")

    def __init__(self, texts: Iterable[str]) -> None:
        """Read ``texts``. Raises ValueError where one isn't a hostlist."""
        self._names: set[str] = set()
        self._ranges: list[_Range] = []
        for text in texts:
            for token in _tokens(text):
                self._add(token)

    def __contains__(self, name: str) -> bool:
        return name in self._names or any(part.holds(name) for part in self._ranges)

    def _add(self, token: str) -> None:
        prefix, bracket, rest = token.partition("[")
        if not bracket:
            if "]" in token:
                raise ValueError(f"unbalanced brackets in {token!r}")
            self._names.add(token)
            return
        inner, bracket, suffix = rest.partition("]")
        if not bracket:
            raise ValueError(f"unbalanced brackets in {token!r}")
        for text in inner.split(","):
            self._ranges.append(_range(prefix, suffix, text, token))


def expand_hosts(texts: Iterable[str]) -> list[str]:
    """All host names of the lists, in order. Raises ValueError where one isn't a hostlist, or they are too many."""
    names: list[str] = []
    for text in texts:
        for token in _tokens(text):
            if "[" not in token:
                Hostlist([token])
                names.append(token)
                continue
            for part in Hostlist([token])._ranges:
                if len(names) + part.high - part.low >= _LONGEST_RANGE:
                    raise ValueError("a hostlist of too many names")
                names += [
                    f"{part.prefix}{n:0{part.width}d}{part.suffix}" for n in range(part.low, part.high + 1)
                ]
    return names


def _range(prefix: str, suffix: str, text: str, token: str) -> _Range:
    match = _RANGE.fullmatch(text)
    if match is None or not text.isascii():
        raise ValueError(f"{text!r} isn't a range in {token!r}")
    low = int(match[1])
    high = int(match[2]) if match[2] else low
    if not low <= high < low + _LONGEST_RANGE:
        raise ValueError(f"{text!r} is out of range in {token!r}")
    return _Range(prefix, suffix, low, high, len(match[1]))


def _tokens(text: str) -> list[str]:
    """Split at commas and blanks outside of brackets."""
    tokens: list[str] = []
    start = depth = 0
    for index, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif depth == 0 and _SEPARATORS.match(char):
            tokens.append(text[start:index])
            start = index + 1
    tokens.append(text[start:])
    return [token for token in tokens if token]
