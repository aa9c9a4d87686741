"""Jobspecs (RFC 14), checked as libreapi_cli's parser checks them.

What passes here is a request that the walk can follow; anything else is an `InvalidJobspec` that names the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.errors import InvalidJobspec
from tests.oracle.walker.constraint import Constraint, read_constraint
from tests.oracle.walker.planner import GRAPH_END, whole_seconds
from tests.oracle.walker.scalars import (
    MAX_DEPTH,
    integer_of,
    mapping_of,
    member,
    members_of,
    number_of,
    sequence_of,
    text_of,
    text_or_null,
)

UNSIGNED_MAX = 2**32 - 1
_INT_MAX = 2**31 - 1
_LEAST_OPERAND = {"+": 1, "*": 2, "^": 2}


@dataclass(frozen=True, slots=True)
class Count:
    """How many of a resource are asked for (RFC 14).

    ``minimum`` up to ``maximum`` by steps: ``+`` adds the operand, ``*`` multiplies, ``^`` raises to its power.
    """

    minimum: int
    maximum: int
    operator: str = "+"
    operand: int = 1

    def within(self, available: int) -> int:
        """Return the most that the rule allows of what is available, 0 if that is less than the minimum."""
        if self.minimum > self.maximum or self.minimum > available:
            return 0
        limit = min(available, self.maximum)
        if self.operator == "+":
            return limit - (limit - self.minimum) % self.operand
        best = value = self.minimum
        while value <= limit:
            best = value
            value = value * self.operand if self.operator == "*" else _power(value, self.operand, limit)
        return best

    @property
    def most(self) -> int:
        """The most that the rule ever allows."""
        return self.within(UNSIGNED_MAX)


def _power(value: int, exponent: int, limit: int) -> int:
    """Return ``value ** exponent``, or any number above ``limit`` where the power is above it."""
    if value >= 2 and exponent > limit.bit_length():
        return limit + 1
    return int(value**exponent)


def read_count(value: Any, where: str) -> Count:
    """Read a count. Raises `InvalidJobspec`."""
    if not isinstance(value, Mapping):
        number = integer_of(value, where, 0, UNSIGNED_MAX)
        return Count(number, number)
    fields = mapping_of(value, where)
    minimum = integer_of(member(fields, "min", where), f"{where}.min", 0, UNSIGNED_MAX)
    given = [key for key in ("max", "operator", "operand") if key in fields]
    if not given:
        count = Count(minimum, UNSIGNED_MAX)
    elif len(given) == 3:
        count = Count(
            minimum,
            integer_of(fields["max"], f"{where}.max", 0, UNSIGNED_MAX),
            text_of(fields["operator"], f"{where}.operator"),
            integer_of(fields["operand"], f"{where}.operand", -_INT_MAX - 1, _INT_MAX),
        )
    else:
        raise InvalidJobspec(f"{where}: 'max', 'operator' and 'operand' go together")
    _check(count, where)
    return count


def _check(count: Count, where: str) -> None:
    if count.minimum < 1:
        raise InvalidJobspec(f"{where}: 'min' must be greater than zero")
    if count.maximum < count.minimum:
        raise InvalidJobspec(f"{where}: 'max' must be greater than or equal to 'min'")
    least = _LEAST_OPERAND.get(count.operator)
    if least is None:
        raise InvalidJobspec(f"{where}: {count.operator!r} isn't a count operator")
    if count.operand < least:
        raise InvalidJobspec(f"{where}: the operand of {count.operator!r} must be at least {least}")
    if count.operator == "^" and count.minimum < 2:
        raise InvalidJobspec(f"{where}: 'min' must be greater than one for '^'")


SLOT = "slot"

_TOP_KEYS = ("version", "resources", "tasks", "attributes")
_RESOURCE_KEYS = frozenset({"type", "count", "unit", "exclusive", "with", "label", "id"})


@dataclass(slots=True)
class Resource:
    """One entry of ``resources`` or of a ``with``. ``exclusive`` is None if the jobspec leaves it open."""

    type: str
    count: Count
    exclusive: bool | None
    label: str
    with_: list[Resource] = field(default_factory=list)


@dataclass(slots=True)
class Jobspec:
    """What the matcher needs of a jobspec. ``duration`` is in seconds; 0 means without an end."""

    resources: list[Resource]
    duration: float = 0.0
    constraint: Constraint | None = None


def read_jobspec(value: Any, knows_type: Callable[[str], bool]) -> Jobspec:
    """Read a jobspec (parsed JSON) that asks for something; ``knows_type`` says which resource types exist.

    Raises `InvalidJobspec`.
    """
    top = mapping_of(value, "jobspec")
    for key in _TOP_KEYS:
        member(top, key, "jobspec")
    if len(top) != len(_TOP_KEYS):
        raise InvalidJobspec(f"jobspec: must hold exactly the keys {', '.join(_TOP_KEYS)}")
    integer_of(top["version"], "version", 1, 9999)
    jobspec = Jobspec(resources=[])
    if top["attributes"] is not None:
        _read_attributes(top["attributes"], jobspec)
    jobspec.resources = _read_resources(top["resources"], "resources", knows_type, 0)
    for index, task in enumerate(sequence_of(top["tasks"], "tasks")):
        _check_task(task, f"tasks[{index}]")
    if not jobspec.resources:
        raise InvalidJobspec("resources: must not be empty")
    return jobspec


def _read_resources(value: Any, where: str, knows_type: Callable[[str], bool], depth: int) -> list[Resource]:
    if depth > MAX_DEPTH:
        raise InvalidJobspec(f"resources: more than {MAX_DEPTH} levels deep")
    return [
        _read_resource(item, f"{where}[{index}]", knows_type, depth)
        for index, item in enumerate(sequence_of(value, where))
    ]


def _read_resource(value: Any, where: str, knows_type: Callable[[str], bool], depth: int) -> Resource:
    fields = mapping_of(value, where)
    kind = text_of(member(fields, "type", where), f"{where}.type")
    if not knows_type(kind):
        raise InvalidJobspec(f"{where}: no resource of type {kind!r} is known")
    count = read_count(member(fields, "count", where), f"{where}.count")
    for key in ("unit", "id"):
        if key in fields:
            text_of(fields[key], f"{where}.{key}")
    resource = Resource(kind, count, _exclusive(fields, where), _label(fields, kind, where))
    if "with" in fields:
        below = f"{where}.with" if depth < 3 else where
        resource.with_ = _read_resources(fields["with"], below, knows_type, depth + 1)
    unknown = fields.keys() - _RESOURCE_KEYS
    if unknown:
        raise InvalidJobspec(f"{where}: unrecognized key {min(unknown)!r}")
    return resource


def _exclusive(fields: Mapping[str, Any], where: str) -> bool | None:
    if "exclusive" not in fields:
        return None
    text = text_of(fields["exclusive"], f"{where}.exclusive")
    if text not in ("true", "false"):
        raise InvalidJobspec(f"{where}: 'exclusive' must be true or false, and is {text!r}")
    return text == "true"


def _label(fields: Mapping[str, Any], kind: str, where: str) -> str:
    if "label" in fields:
        return text_of(fields["label"], f"{where}.label")
    if kind == SLOT:
        raise InvalidJobspec(f"{where}: a slot must have a label")
    return ""


def _check_task(value: Any, where: str) -> None:
    task = mapping_of(value, where)
    for item in sequence_of(member(task, "command", where), f"{where}.command"):
        text_or_null(item, f"{where}.command")
    text_of(member(task, "slot", where), f"{where}.slot")
    if "count" in task:
        counts = mapping_of(task["count"], f"{where}.count")
        if len(counts) != 1:
            raise InvalidJobspec(f"{where}.count: must have exactly one entry")
        _check_texts(counts, f"{where}.count")
    if "distribution" in task:
        text_of(task["distribution"], f"{where}.distribution")
    if "attributes" in task:
        _check_texts(mapping_of(task["attributes"], f"{where}.attributes"), f"{where}.attributes")
    if not 3 <= len(task) <= 5:
        raise InvalidJobspec(f"{where}: must have from three to five entries, and has {len(task)}")


def _check_texts(values: Mapping[str, Any], where: str) -> None:
    for key, value in values.items():
        text_or_null(value, f"{where}.{key}")


def _read_attributes(value: Any, jobspec: Jobspec) -> None:
    attributes = mapping_of(value, "attributes")
    unknown = attributes.keys() - {"user", "system"}
    if unknown:
        raise InvalidJobspec(f"attributes: unknown key {min(unknown)!r}")
    for key, item in members_of(attributes.get("system"), "attributes.system").items():
        where = f"attributes.system.{key}"
        if key == "duration":
            jobspec.duration = number_of(item, where)
        elif key in ("queue", "cwd"):
            text_or_null(item, where)
        elif key == "environment":
            _check_texts(members_of(item, where), where)
        elif key == "constraints":
            jobspec.constraint = read_constraint(item, where)


def duration_of(jobspec: Jobspec) -> int:
    """Return the duration in whole seconds. Raises `InvalidJobspec`."""
    duration = whole_seconds(jobspec.duration, GRAPH_END)
    if duration is None:
        raise InvalidJobspec(
            f"attributes.system.duration: must be from 0 to {GRAPH_END} seconds, and is {jobspec.duration}"
        )
    return duration
