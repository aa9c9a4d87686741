"""Constraints on nodes (RFC 31), with the hostlists (RFC 29) and idsets (RFC 22) that they name nodes by.

They are read from a jobspec and tested on vertices of type ``node`` and ``storage_node`` only. Where libreapi_cli
departs from the RFC, so does this reader: ``{"or": []}`` holds nowhere. Reading hosts or ranks
clears the errno that earlier calls left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.oracle.errors import InvalidJobspec
from tests.oracle.walker.graph import GraphVertex
from tests.oracle.walker.last_errno import LAST_ERRNO
from tests.oracle.walker.scalars import (
    MAX_DEPTH,
    kind_of,
    mapping_of,
    sequence_of,
    text_or_null,
)

Constraint = Callable[[GraphVertex], bool]

_FORBIDDEN = frozenset("!&'\"^`|()")

_ID_OR_RANGE = re.compile(r"(0|[1-9]\d*)(?:-(0|[1-9]\d*))?", re.ASCII)
_LARGEST_ID = 2**32 - 2
_HOST_SEPARATORS = re.compile(r"[\t, ]+")
_HOST_RANGE = re.compile(r"(\d+)(?:-(\d*))?")
_LONGEST_HOST_RANGE = 2**20


def read_constraint(value: Any, where: str = "constraints", depth: int = 0) -> Constraint:
    """Read ``attributes.system.constraints``. Raises `InvalidJobspec`."""
    if depth > MAX_DEPTH:
        raise InvalidJobspec(f"{where}: more than {MAX_DEPTH} levels deep")
    operation = mapping_of(value, where)
    if len(operation) > 1:
        raise InvalidJobspec(f"{where}: a constraint may not hold more than one operation")
    for name, operands in operation.items():
        return _read_operation(name, sequence_of(operands, f"{where}.{name}"), f"{where}.{name}", depth)
    return _anywhere


def _read_operation(name: str, operands: list[Any], where: str, depth: int) -> Constraint:
    if name == "properties":
        return _properties(operands, where)
    if name == "hostlist":
        return _hostlist(operands, where)
    if name == "ranks":
        return _ranks(operands, where)
    if name not in ("and", "or", "not"):
        raise InvalidJobspec(f"{where}: unknown constraint operator")
    parts = [
        read_constraint(operand, f"{where}[{index}]" if depth < 3 else where, depth + 1)
        for index, operand in enumerate(operands)
    ]
    if name == "or":
        return lambda vertex: any(part(vertex) for part in parts)
    if name == "and":
        return lambda vertex: all(part(vertex) for part in parts)
    return lambda vertex: not all(part(vertex) for part in parts)


def _anywhere(vertex: GraphVertex) -> bool:
    return True


def _properties(operands: list[Any], where: str) -> Constraint:
    present: list[str] = []
    absent: list[str] = []
    for operand in operands:
        if not isinstance(operand, str):
            raise InvalidJobspec(f"{where}: a property must be a string, not {kind_of(operand)}")
        negated = operand.startswith("^")
        name = operand[1:] if negated else operand
        if not _FORBIDDEN.isdisjoint(name):
            raise InvalidJobspec(f"{where}: the property {operand!r} is invalid")
        (absent if negated else present).append(name)

    def holds(vertex: GraphVertex) -> bool:
        properties = vertex.properties
        return all(name in properties for name in present) and not any(name in properties for name in absent)

    return holds


def _hostlist(operands: list[Any], where: str) -> Constraint:
    try:
        hosts = Hostlist([text_or_null(operand, where) for operand in operands])
    except ValueError as error:
        raise InvalidJobspec(f"{where}: {error}") from None
    if operands:
        LAST_ERRNO.value = 0
    return lambda vertex: vertex.name in hosts


def _ranks(operands: list[Any], where: str) -> Constraint:
    texts = [text_or_null(operand, where) for operand in operands]
    try:
        ranks = Idset(texts)
    except ValueError as error:
        raise InvalidJobspec(f"{where}: {error}") from None
    if any(texts):
        LAST_ERRNO.value = 0
    return lambda vertex: vertex.rank in ranks


class Idset:
    """A set of non-negative ids, read from texts such as ``0-3,7`` or ``[2,5-9]``."""

    __slots__ = ("_ranges",)

    def __init__(self, texts: Iterable[str]) -> None:
        """Read ``texts``. Raises ValueError where one isn't an idset."""
        self._ranges: list[tuple[int, int]] = []
        for text in texts:
            self._ranges.extend(_id_ranges(text))

    def __contains__(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self._ranges)


def _id_ranges(text: str) -> list[tuple[int, int]]:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") and len(text) > 1 else text
    ranges: list[tuple[int, int]] = []
    last = -1
    for element in inner.split(","):
        if not element:
            continue
        match = _ID_OR_RANGE.fullmatch(element)
        if match is None:
            raise ValueError(f"{element!r} isn't an id or a range of ids")
        low = int(match[1])
        high = int(match[2]) if match[2] else low
        if low <= last or (match[2] and high <= low) or high > _LARGEST_ID:
            raise ValueError(f"{element!r} is out of order or out of range")
        ranges.append((low, high))
        last = high
    return ranges


@dataclass(frozen=True, slots=True)
class _HostRange:
    """The hosts ``prefix`` + a number from ``low`` to ``high``, ``width`` digits wide + ``suffix``."""

    prefix: str
    suffix: str
    low: int
    high: int
    width: int

    def holds(self, name: str) -> bool:
        """Whether a host of that name is in the range."""
        if not (name.startswith(self.prefix) and name.endswith(self.suffix)):
            return False
        digits = name[len(self.prefix) : len(name) - len(self.suffix)]
        if not (digits.isascii() and digits.isdigit()):
            return False
        number = int(digits)
        return self.low <= number <= self.high and digits == f"{number:0{self.width}d}"


class Hostlist:
    """A set of host names, read from texts such as ``node[00-15,20],login1``; ranges are kept as ranges."""

    __slots__ = ("_names", "_ranges")

    def __init__(self, texts: Iterable[str]) -> None:
        """Read ``texts``. Raises ValueError where one isn't a hostlist."""
        self._names: set[str] = set()
        self._ranges: list[_HostRange] = []
        for text in texts:
            for token in _host_tokens(text):
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
            self._ranges.append(_host_range(prefix, suffix, text, token))


def _host_range(prefix: str, suffix: str, text: str, token: str) -> _HostRange:
    match = _HOST_RANGE.fullmatch(text)
    if match is None or not text.isascii():
        raise ValueError(f"{text!r} isn't a range in {token!r}")
    low = int(match[1])
    high = int(match[2]) if match[2] else low
    if not low <= high < low + _LONGEST_HOST_RANGE:
        raise ValueError(f"{text!r} is out of range in {token!r}")
    return _HostRange(prefix, suffix, low, high, len(match[1]))


def _host_tokens(text: str) -> list[str]:
    """Split at commas and blanks outside of brackets."""
    tokens: list[str] = []
    start = depth = 0
    for index, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif depth == 0 and _HOST_SEPARATORS.match(char):
            tokens.append(text[start:index])
            start = index + 1
    tokens.append(text[start:])
    return [token for token in tokens if token]
