"""Constraints on nodes (RFC 31), read from a jobspec and asked vertex by vertex.

They are asked of vertices of type ``node`` and ``storage_node`` only. Where libreapi_cli departs from the RFC, so
do we: ``{"or": []}`` holds nowhere (fluxion reference 3.4). Reading hosts or ranks clears the errno of earlier calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fluence_extender.matcher.embedded.graph import Vertex
from fluence_extender.matcher.embedded.hostlist import Hostlist
from fluence_extender.matcher.embedded.idset import Idset
from fluence_extender.matcher.embedded.last_errno import LAST_ERRNO
from fluence_extender.matcher.embedded.scalars import (
    MAX_DEPTH,
    kind_of,
    mapping_of,
    sequence_of,
    text_or_null,
)
from fluence_extender.matcher.errors import InvalidJobspec

Constraint = Callable[[Vertex], bool]

_FORBIDDEN = frozenset("!&'\"^`|()")


def read_constraint(value: Any, where: str = "constraints", depth: int = 0) -> Constraint:
    """Read ``attributes.system.constraints``. Raises InvalidJobspec."""
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


def _anywhere(vertex: Vertex) -> bool:
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

    def holds(vertex: Vertex) -> bool:
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
