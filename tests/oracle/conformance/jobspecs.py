"""A small language for jobspecs: ``spec(slot(2, want("core", 4)), duration=10)``."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def want(kind: str, count: Any, *below: Json, **more: Any) -> Json:
    """Return an entry that asks for ``count`` of a type; other keywords are further members (``exclusive=True``)."""
    entry: Json = {"type": kind, "count": count}
    if below:
        entry["with"] = list(below)
    return entry | more


def slot(count: Any, *below: Json, **more: Any) -> Json:
    """Return a slot, with the label that RFC 14 requires."""
    return want("slot", count, *below, **({"label": "task"} | more))


def cores(count: Any) -> Json:
    return want("core", count)


def between(least: int, most: int, operator: str = "+", operand: int = 1) -> Json:
    """Return a moldable count."""
    return {"min": least, "max": most, "operator": operator, "operand": operand}


def spec(*resources: Json, duration: Any = None, constraints: Any = None, **system: Any) -> Json:
    """Return a whole jobspec of these resources; without ``duration`` the job never ends."""
    if duration is not None:
        system["duration"] = duration
    if constraints is not None:
        system["constraints"] = constraints
    return {
        "version": 1,
        "resources": list(resources),
        "attributes": {"system": system},
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
    }
