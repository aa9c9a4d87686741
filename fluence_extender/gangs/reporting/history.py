"""What happened to each gang, so that users can look it up later.

A history is a short list of plain entries in the order of the events. An event that happens to many members in a row,
or to one member repeatedly, is one entry with a count. So the history of 5,000 members is as short as that of 5.

Invariants: memory is bounded in each gang. Noting an entry never fails, and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from operator import attrgetter
from sys import intern

import msgspec

from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.wording import WithNames

Clock = Callable[[], float]

KEPT_FIRST = 8
KEPT = 64
"""The entries that a gang keeps: the first few, then the newest."""

FEW_MEMBERS = 8
"""In a gang of up to this many members, each member has entries of its own."""

LONGEST_DETAIL = 300


NEW_PHASES = frozenset(
    {
        HistoryKind.PLANNED,
        HistoryKind.WITHDRAWN,
        HistoryKind.COMPLETE,
        HistoryKind.FINISHED,
        HistoryKind.GONE,
    }
)
"""The entries that begin a new phase, as waits do. Later events aren't counted in entries of earlier phases."""

SENT_BACK = frozenset({HistoryKind.EVICTED, HistoryKind.REQUEUED})
ENDS_OR_BEGINS = SENT_BACK | {HistoryKind.SEEN, HistoryKind.PLANNED, HistoryKind.BOUND, HistoryKind.COMPLETE}
"""The last of these entries says whether the gang was sent back in line."""


WAITS = frozenset(
    {
        HistoryKind.WHOLE,
        HistoryKind.WAITING,
        HistoryKind.WITHDRAWN,
        HistoryKind.REQUEUED,
        HistoryKind.PLANNED,
        HistoryKind.COMMITTED,
    }
)
"""The entries that begin a wait for places or end one."""


# Neither class can be part of a reference cycle, so both save the memory that the garbage collector takes.
class HistoryEntry(msgspec.Struct, gc=False):
    """One entry: ``count`` times between ``at`` and ``until`` (seconds since the epoch).

    ``pod`` and ``detail`` are those of all events, "" if they differ or there is none. ``with_names`` is the detail
    with the names of other namespaces, None if there are none. ``why`` is the kind of reason of a wait.
    """

    at: float
    kind: HistoryKind
    pod: str = ""
    detail: str = ""
    count: int = 1
    until: float = 0.0
    why: str = ""
    with_names: WithNames | None = None

    def again(self, now: float, pod: str, detail: str, with_names: WithNames | None) -> None:
        """Count another event of the same kind."""
        self.count += 1
        self.until = now
        self.pod = self.pod if self.pod == pod else ""
        self.detail = self.detail if self.detail == detail else ""
        self.with_names = self.with_names if self.with_names == with_names else None


class History(msgspec.Struct, gc=False):
    """One gang's entries. ``noted`` counts every change of them, ``forgotten`` the dropped entries.

    The gang was preempted ``preemptions`` times, at last at ``preempted`` (seconds since the epoch, 0 for never).
    """

    clock: Clock = time.time
    entries: list[HistoryEntry] = msgspec.field(default_factory=list)
    noted: int = 0
    forgotten: int = 0
    preemptions: int = 0
    preempted: float = 0.0

    def preempt(self) -> None:
        """Count a preemption of the gang."""
        self.preemptions += 1
        self.preempted = self.clock()
        self.noted += 1

    @property
    def sent_back(self) -> float:
        """When the gang was evicted or sent back in line, 0 if it has had its places since, or never was."""
        last = next((entry for entry in reversed(self.entries) if entry.kind in ENDS_OR_BEGINS), None)
        return last.at if last is not None and last.kind in SENT_BACK else 0.0

    def replaces(self, before: History) -> bool:
        """Return whether this may be the history of a gang that replaces one with the history ``before``."""
        own, since = self.entries, before.sent_back
        return (
            bool(own and since)
            and own[0].at >= since
            and HistoryKind.GONE not in [entry.kind for entry in own]
        )

    def follow(self, before: History) -> None:
        """Go on with the history of a gang that this one replaces."""
        entries = [copy(entry) for entry in before.entries] + self.entries
        self.entries = sorted(entries, key=attrgetter("at"))
        self.noted += before.noted
        self.forgotten += before.forgotten
        self.preemptions += before.preemptions
        self.preempted = max(self.preempted, before.preempted)
        self._shorten()

    def note(
        self,
        kind: HistoryKind,
        pod: str = "",
        detail: str = "",
        members: int = 1,
        with_names: WithNames | None = None,
    ) -> None:
        """Note that ``kind`` happened, to ``pod`` if it is named; ``members`` is the number of the gang's members."""
        now = self.clock()
        self.noted += 1
        detail, with_names = _shortened(detail, with_names)
        is_shared = bool(pod) and members > FEW_MEMBERS
        same = self._same(kind, None if is_shared else (pod, detail, with_names))
        if same is not None:
            same.again(now, pod, detail, with_names)
        else:
            self._append(HistoryEntry(now, kind, pod, detail, 1, now, "", with_names))

    def _same(
        self, kind: HistoryKind, event: tuple[str, str, WithNames | None] | None
    ) -> HistoryEntry | None:
        """Return the entry of this phase that counts such events; if ``event`` is None, the one of the same kind."""
        for entry in reversed(self.entries):
            if entry.kind is HistoryKind.WAITING:
                return None
            if entry.kind is kind and event in (None, (entry.pod, entry.detail, entry.with_names)):
                return entry
            if entry.kind in NEW_PHASES:
                return None
        return None

    def wait(self, why: str, detail: str, with_names: WithNames | None = None) -> None:
        """Note why the gang waits. A new text of the same kind of reason replaces the last one."""
        now = self.clock()
        detail, with_names = _shortened(detail, with_names)
        self.noted += 1
        last = self.entries[-1] if self.entries else None
        if last is not None and last.kind is HistoryKind.WAITING and last.why == why:
            last.count += (last.detail, last.with_names) != (detail, with_names)
            last.detail, last.with_names, last.until = detail, with_names, now
            return
        self._append(HistoryEntry(now, HistoryKind.WAITING, "", detail, 1, now, why, with_names))

    def waits(self) -> list[tuple[str, float]]:
        """Return the reason and the seconds of each wait for places of a gang that has just become complete.

        There are no waits if no member was bound since the gang was last complete, as after a restart.
        """
        completes = [
            number for number, entry in enumerate(self.entries) if entry.kind is HistoryKind.COMPLETE
        ]
        # The last of these entries is for the present completion. The waits begin after the one before it.
        entries = self.entries if len(completes) < 2 else self.entries[completes[-2] + 1 :]
        end = max((entry.until for entry in entries if entry.kind is HistoryKind.BOUND), default=None)
        if end is None:
            return []
        begins = [("", end)]
        for entry in entries:
            if entry.kind in WAITS and entry.why != begins[-1][0]:
                begins.append((entry.why, min(entry.at, end)))
        ends = [*(at for _, at in begins[1:]), end]
        return [
            (why, until - at) for (why, at), until in zip(begins, ends, strict=True) if why and until > at
        ]

    def _append(self, entry: HistoryEntry) -> None:
        self.entries.append(entry)
        self._shorten()

    def _shorten(self) -> None:
        excess = len(self.entries) - KEPT
        if excess > 0:
            del self.entries[KEPT_FIRST : KEPT_FIRST + excess]
            self.forgotten += excess


def _shortened(detail: str, with_names: WithNames | None) -> tuple[str, WithNames | None]:
    """Return both forms of a detail, of bounded length."""
    if with_names is not None and len(with_names.text) > LONGEST_DETAIL:
        with_names = replace(with_names, text=with_names.text[:LONGEST_DETAIL])
    return intern(detail[:LONGEST_DETAIL]), with_names
