"""The trace of a gang that has become whole, from its history.

Invariant: the parts of a trace follow each other without gaps, and they end with the last binding.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.reporting.history import HistoryEntry
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.tracing import NAMESPACE, PRIORITY, REASON, GangTrace, TraceEvent, TraceSpan

GANG = "gang"

PARTS = {
    HistoryKind.WHOLE: "wait for places",
    HistoryKind.WAITING: "wait for places",
    HistoryKind.WITHDRAWN: "wait for places",
    HistoryKind.REQUEUED: "wait for places",
    HistoryKind.PLANNED: "get places",
    HistoryKind.COMMITTED: "bind",
}
"""The entries that begin a part, and the names of the parts. A trace begins with `ASSEMBLE`."""

ASSEMBLE = "wait for members"


def gang_trace(gang: Gang, queue: str) -> GangTrace | None:
    """Return the trace of a gang of this queue that has just become whole.

    Return None if none of its members was bound since it was last whole, as after a restart.
    """
    again, entries = _since_complete(gang.history.entries)
    bound = [one.until for one in entries if one.kind is HistoryKind.BOUND]
    if not bound:
        return None
    end = max(bound)
    start = min(entries[0].at if again else gang.created[0] or entries[0].at, end)
    nodes = {member.pod.node for member in gang.members.values() if member.pod.node}
    attributes: dict[str, str | int] = {
        NAMESPACE: gang.key.namespace,
        "fluence.gang": str(gang.key),
        "fluence.convention": gang.key.convention.value,
        "fluence.queue": queue,
        PRIORITY: gang.priority,
        "fluence.pods": len(gang.members),
        "fluence.nodes": len(nodes),
    }
    return GangTrace(
        TraceSpan(GANG, start, end, attributes), _parts(entries, start, end), tuple(map(_event, entries))
    )


def _since_complete(entries: Sequence[HistoryEntry]) -> tuple[bool, Sequence[HistoryEntry]]:
    """Return the entries since the gang was last whole, and whether it ever was."""
    completes = [number for number, one in enumerate(entries) if one.kind is HistoryKind.COMPLETE]
    # The last one is the present one.
    if len(completes) < 2:
        return False, entries
    return True, entries[completes[-2] + 1 :]


def _parts(entries: Sequence[HistoryEntry], start: float, end: float) -> tuple[TraceSpan, ...]:
    begins: list[tuple[float, str, str]] = [(start, ASSEMBLE, "")]
    for one in entries:
        name = PARTS.get(one.kind)
        if name is not None and (name, one.why) != begins[-1][1:]:
            begins.append((min(max(one.at, start), end), name, one.why))
    ends = [*(at for at, *_ in begins[1:]), end]
    return tuple(
        TraceSpan(name, at, until, {REASON: why} if why else {})
        for (at, name, why), until in zip(begins, ends, strict=True)
        if until > at
    )


def _event(entry: HistoryEntry) -> TraceEvent:
    attributes: dict[str, str | int] = {"fluence.count": entry.count}
    for key, text in (("k8s.pod.name", entry.pod), ("fluence.detail", entry.detail)):
        if text:
            attributes[key] = text
    return TraceEvent(entry.at, entry.kind.value, attributes)
