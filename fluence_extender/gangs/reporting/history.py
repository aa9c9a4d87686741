"""What happened to each gang, so that users can look it up later.

A history is a short list of plain entries in the order of the events. An event that happens to many members in a row,
or to one member repeatedly, is one entry with a count. So the history of 5,000 members is as short as that of 5. Gangs
that are gone are remembered for a while.

Invariants: memory is bounded in each gang and over all gangs that are gone. Noting an entry never fails, and decides
nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from operator import attrgetter
from sys import intern
from typing import Generic, TypeVar

import msgspec

from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.wording import WithNames

__all__ = ["History", "HistoryEntry", "Memory", "PastGang"]

G = TypeVar("G")
Clock = Callable[[], float]

KEPT_FIRST = 8
KEPT = 64
"""The entries that a gang keeps: the first few, then the newest."""

FEW_MEMBERS = 8
"""In a gang of up to this many members, each member has entries of its own."""

REMEMBERED = 1000
"""The most gangs that are remembered after they have gone."""

REMEMBERED_FOR = 3600.0
"""Seconds for which a gang is remembered after it has gone."""

LONGEST_DETAIL = 300


TURNS = frozenset(
    {
        HistoryKind.PLANNED,
        HistoryKind.WITHDRAWN,
        HistoryKind.COMPLETE,
        HistoryKind.FINISHED,
        HistoryKind.GONE,
    }
)
"""The entries that begin a new phase, as a wait does. Later events aren't added to the count of an earlier entry."""

SENT_BACK = frozenset({HistoryKind.EVICTED, HistoryKind.REQUEUED})
ENDS_OR_BEGINS = SENT_BACK | {HistoryKind.SEEN, HistoryKind.PLANNED, HistoryKind.BOUND, HistoryKind.COMPLETE}
"""The last of these entries says whether the gang was sent back."""


# Neither of these can be part of a reference cycle, so they save the memory that the garbage collector takes.
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
        """When the gang was evicted or sent back in line after it had its place last, 0 if it wasn't."""
        last = next((one for one in reversed(self.entries) if one.kind in ENDS_OR_BEGINS), None)
        return last.at if last is not None and last.kind in SENT_BACK else 0.0

    def replaces(self, before: History) -> bool:
        """Return whether this may be the next life of a gang that was sent back ``before`` this one was seen."""
        own, since = self.entries, before.sent_back
        return (
            bool(own and since) and own[0].at >= since and HistoryKind.GONE not in [one.kind for one in own]
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
        of_any = bool(pod) and members > FEW_MEMBERS
        same = self._same(kind, None if of_any else (pod, detail, with_names))
        if same is not None:
            same.again(now, pod, detail, with_names)
        else:
            self._append(HistoryEntry(now, kind, pod, detail, 1, now, "", with_names))

    def _same(
        self, kind: HistoryKind, event: tuple[str, str, WithNames | None] | None
    ) -> HistoryEntry | None:
        """Return the entry of this phase that counts events of the kind, None for those of all pods and details."""
        for entry in reversed(self.entries):
            if entry.kind is HistoryKind.WAITING:
                return None
            if entry.kind is kind and event in (None, (entry.pod, entry.detail, entry.with_names)):
                return entry
            if entry.kind in TURNS:
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


@dataclass(frozen=True, slots=True)
class PastGang(Generic[G]):
    """A gang that is gone, as it was last seen, and when it went (seconds since the epoch).

    ``heir`` is what it has in common with the gang that replaces it, None if none does.
    """

    gang: G
    at: float
    heir: Hashable = None


class Memory(Generic[G]):
    """Gangs that are gone, by key, the oldest first; bounded in number and time.

    A gang that replaces one of them goes on with its history. No other does then, not even one that has its key.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self.clock = clock
        self._gone: OrderedDict[Hashable, PastGang[G]] = OrderedDict()
        self._left: dict[Hashable, dict[Hashable, None]] = {}
        """By heir, the keys of the gangs that it may replace, the oldest first."""

    def keep(self, key: Hashable, gang: G, heir: Hashable = None) -> None:
        """Remember a gang that is gone from now on, and may be replaced by ``heir``."""
        self._forget(key)
        self._gone[key] = PastGang(gang, self.clock(), heir)
        if heir is not None:
            self._left.setdefault(heir, {})[key] = None
        self._forget_outlived()

    def take(self, key: Hashable) -> G | None:
        """Return a remembered gang that comes back under its key, and forget it.

        Return None if it isn't known, or was replaced.
        """
        past = self._gone.get(key)
        replaced = past is not None and past.heir is not None and key not in self._left.get(past.heir, ())
        self._forget(key)
        return None if past is None or replaced else past.gang

    def left_to(self, heir: Hashable) -> Sequence[Hashable]:
        """Return the keys of the gangs that ``heir`` may replace, the oldest first."""
        self._forget_outlived()
        return tuple(self._left.get(heir, ()))

    def replace(self, key: Hashable) -> G:
        """Return a gang that another one replaces from now on."""
        past = self._gone[key]
        self._unlink(key, past.heir)
        return past.gang

    def get(self, key: Hashable) -> PastGang[G] | None:
        """Return the gang of that key, or None if it isn't remembered."""
        self._forget_outlived()
        return self._gone.get(key)

    def __iter__(self) -> Iterator[PastGang[G]]:
        """Iterate over the remembered gangs, the oldest first."""
        self._forget_outlived()
        return iter(list(self._gone.values()))

    def _forget_outlived(self) -> None:
        oldest = self.clock() - REMEMBERED_FOR
        while self._gone:
            key, past = next(iter(self._gone.items()))
            if len(self._gone) <= REMEMBERED and past.at > oldest:
                return
            self._forget(key)

    def _forget(self, key: Hashable) -> None:
        past = self._gone.pop(key, None)
        if past is not None:
            self._unlink(key, past.heir)

    def _unlink(self, key: Hashable, heir: Hashable) -> None:
        keys = self._left.get(heir, {})
        keys.pop(key, None)
        if not keys:
            self._left.pop(heir, None)
