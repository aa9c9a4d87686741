"""Gangs that are gone, and the gangs that go on with their histories.

A gang that comes back under its key goes on with its own history. If a pod that is a gang by itself was sent back, its
Job creates another pod with another name. That pod's gang is its *heir*, and goes on with its history: the next one of
the same index, or of the same Job where its pods have no indexes. A history is handed over once, and then not even a
gang that has the old key goes on with it.

Invariant: what is remembered is bounded in number and time.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.reporting.history import History
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COMPLETION_INDEX
from fluence_extender.model.pod import Pod

REMEMBERED = 1000
"""The most gangs that are remembered after they have gone."""

REMEMBERED_FOR = 3600.0
"""Seconds for which a gang is remembered after it has gone."""

Line = tuple[str, str, str]
"""What pods that may replace each other have in common: the namespace, the Job's uid, and the index, "" for none."""


def line_of(key: GangKey, pod: Pod) -> Line | None:
    """Return the line of a Job's pod that is a gang by itself, None for any other pod."""
    owner = pod.owner
    if key.convention is not Convention.ALONE or owner is None or not owner.is_a("Job", "batch"):
        return None
    return pod.namespace, owner.uid, pod.annotations.get(COMPLETION_INDEX, "")


def line_left(gang: Gang, pod: Pod) -> Line | None:
    """Return the line in which an heir goes on with the history of a gang whose last pod is gone, None for none."""
    replaced = pod.expected or gang.history.sent_back or gang.history.preemptions
    return line_of(gang.key, pod) if replaced and pod.phase != "Succeeded" else None


@dataclass(frozen=True, slots=True)
class PastGang:
    """A gang as it was last seen, when it went (seconds since the epoch), and the line in which it may have an heir."""

    gang: Gang
    at: float
    line: Line | None = None


class PastGangs:
    """Gangs that are gone, by key, the oldest first."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._gone: OrderedDict[GangKey, PastGang] = OrderedDict()
        self._heirless: dict[GangKey, Line] = {}
        """The lines of the gangs that may have an heir and have none yet, the oldest first."""

    def keep(self, gang: Gang, line: Line | None = None) -> None:
        """Remember a gang that is gone from now on."""
        self._forget(gang.key)
        self._gone[gang.key] = PastGang(gang, self.clock(), line)
        if line is not None:
            self._heirless[gang.key] = line
        self._forget_outlived()

    def history_of(self, key: GangKey, first: Pod) -> History:
        """Return the history with which a new gang begins, whose ``first`` pod has come."""
        past, line, history = self._gone.get(key), line_of(key, first), History(self.clock)
        if past is not None and (past.line is None or key in self._heirless):
            history = past.gang.history
        self._forget(key)
        self._forget_outlived()
        # Of pods without an index, each replaces one; one that comes back has its own history.
        if line is not None and (line[2] or not history.entries):
            same_line = [other for other, left in self._heirless.items() if left == line]
            for other in same_line if line[2] else same_line[:1]:
                self.hand_over(other, history)
        return history

    def hand_over(self, key: GangKey, heir: History) -> None:
        """Let an heir go on with the history of a gang."""
        heir.follow(self._gone[key].gang.history)
        del self._heirless[key]

    def get(self, key: GangKey) -> PastGang | None:
        """Return the gang of that key, or None if it isn't remembered."""
        self._forget_outlived()
        return self._gone.get(key)

    def __iter__(self) -> Iterator[PastGang]:
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

    def _forget(self, key: GangKey) -> None:
        self._gone.pop(key, None)
        self._heirless.pop(key, None)
