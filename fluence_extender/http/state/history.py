"""Past work in the state API: the values of the account in the shapes and units of ``/v1``.

Callers see the work of namespaces whose pods they may list, and their own work in all namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from fluence_extender.api.past import DeviceSeconds, HeldDevice, StartMove, UsageRow, WorkRecord
from fluence_extender.model.access import Caller, CallerSight
from fluence_extender.model.accounting import HeldAmount, PastRun, Reader, UsedAmount
from fluence_extender.model.notation import parse_duration
from fluence_extender.model.resources import CPU, MEMORY

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
        if _is_device(one.resource):
            used = DeviceSeconds(one.resource, one.backend, one.unit_seconds)
            devices.setdefault(one.name, []).append(used)
        else:
            resources[one.resource] = _in_units(one.resource, one.unit_seconds)
    return [
        UsageRow(name, resources, tuple(devices.get(name, ()))) for name, resources in sorted(seconds.items())
    ]


def record(run: PastRun) -> WorkRecord:
    """Return one life of a gang."""
    return WorkRecord(
        run=run.run,
        namespace=run.namespace,
        name=run.gang,
        convention=run.convention,
        workload=run.workload,
        queue=run.queue,
        user=run.user,
        account=run.account,
        created=_time(run.submitted),
        started=_time(run.started),
        ended=None if run.ended is None else _time(run.ended),
        waited=max(run.started - run.submitted, 0),
        outcome=run.outcome,  # type: ignore[arg-type]
        promised=None if run.promised is None else _time(run.promised),
        moves=tuple(
            StartMove(_time(one.at), _time(one.promised), None if one.start is None else _time(one.start))
            for one in run.moves
        ),
        pods=run.pods,
        nodes=run.nodes,
        requests={one.resource: _in_units(one.resource, one.quantity) for one in _plain(run.amounts)},
        devices=tuple(
            HeldDevice(one.resource, one.backend, one.quantity)
            for one in run.amounts
            if _is_device(one.resource)
        ),
    )


def _is_device(resource: str) -> bool:
    """Return whether it is the type of a virtual device. All other resources but cpu and memory have a slash."""
    return resource not in (CPU, MEMORY) and "/" not in resource


def _plain(amounts: Iterable[HeldAmount]) -> Iterable[HeldAmount]:
    return (one for one in amounts if not _is_device(one.resource))


def _in_units(resource: str, amount: int) -> float:
    """Return an amount in the units of ``/v1``."""
    if resource == CPU:
        return amount / 1000
    return amount * 2**20 if resource == MEMORY else amount


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
