"""For which reasons a gang that has become whole waited for places, and for how long, from its history."""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.reporting.history import HistoryEntry
from fluence_extender.model.gang import HistoryKind

TURNS = frozenset(
    {
        HistoryKind.WHOLE,
        HistoryKind.WAITING,
        HistoryKind.WITHDRAWN,
        HistoryKind.REQUEUED,
        HistoryKind.PLANNED,
        HistoryKind.COMMITTED,
    }
)
"""The entries that begin a wait or end one."""


def waits(gang: Gang) -> list[tuple[str, float]]:
    """Return the reason and the seconds of each wait of a gang that has just become whole.

    There is none if none of its members was bound since it was last whole, as after a restart.
    """
    entries = _since_complete(gang.history.entries)
    bound = [one.until for one in entries if one.kind is HistoryKind.BOUND]
    if not bound:
        return []
    end = max(bound)
    begins = [("", end)]
    for one in entries:
        if one.kind in TURNS and one.why != begins[-1][0]:
            begins.append((one.why, min(one.at, end)))
    ends = [*(at for _, at in begins[1:]), end]
    return [(why, until - at) for (why, at), until in zip(begins, ends, strict=True) if why and until > at]


def _since_complete(entries: Sequence[HistoryEntry]) -> Sequence[HistoryEntry]:
    """Return the entries since the gang was last whole."""
    completes = [number for number, one in enumerate(entries) if one.kind is HistoryKind.COMPLETE]
    # The last one is the present one.
    return entries if len(completes) < 2 else entries[completes[-2] + 1 :]
