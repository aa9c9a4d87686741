"""Past work in the state API: the values of the account in the shapes and units of ``/v1``.

Callers see the work of namespaces whose pods they may list, and their own work in all namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from fluence_extender.api.past import DeviceSeconds, UsageRow, in_units, is_device
from fluence_extender.model.access import Caller, CallerSight
from fluence_extender.model.accounting import Reader, UsedAmount
from fluence_extender.model.notation import parse_duration

WITHOUT_A_NAME = "namespace "
"""The prefix of the names that stand for unrecorded users; no caller has such a name."""

SINCE_FORM = "a day such as 2026-11-01, a time such as 2026-11-01T12:00:00Z, or how long ago, such as 30d"


class BadSince(ValueError):
    """A time that can't be read."""

    def __init__(self) -> None:
        super().__init__(f"since: write {SINCE_FORM}")


def since_time(text: str, now: datetime) -> datetime:
    """Return the time that ``text`` names, the beginning of the month for "". Raises `BadSince`."""
    if not text:
        return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    try:
        ago = parse_duration(text)
        found = datetime.fromisoformat(text) if ago is None else now - timedelta(seconds=ago)
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        found.timestamp()
    except (ValueError, OverflowError):
        raise BadSince from None
    return found


def reader_of(caller: Caller | None, sight: CallerSight) -> Reader:
    """Return the reader that a caller is for the account."""
    name = caller.name if caller is not None else ""
    return Reader(sight, "" if name.startswith(WITHOUT_A_NAME) else name)


def usage_rows(found: Iterable[UsedAmount]) -> list[UsageRow]:
    """Return the used amounts, by name."""
    seconds: dict[str, dict[str, float]] = {}
    devices: dict[str, list[DeviceSeconds]] = {}
    for one in found:
        resources = seconds.setdefault(one.name, {})
        if is_device(one.resource):
            used = DeviceSeconds(one.resource, one.backend, one.unit_seconds)
            devices.setdefault(one.name, []).append(used)
        else:
            resources[one.resource] = in_units(one.resource, one.unit_seconds)
    return [
        UsageRow(name, resources, tuple(devices.get(name, ()))) for name, resources in sorted(seconds.items())
    ]
