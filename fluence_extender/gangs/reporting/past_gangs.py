"""Gangs that are gone, and the gangs that go on with their histories.

A gang that comes back under its key goes on with its own history. If a pod that is a gang by itself was sent back, its
Job creates another pod with another name. The gang of that pod is its *heir*, and goes on with its history. The heir
has the same index, or is the next pod of the same Job if its pods have no indexes. A history is handed over once. After
that not even a gang with the old key goes on with it.

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

Lineage = tuple[str, str, str]
"""What a pod and its heirs have in common: the namespace, the Job's uid, and the pod's index, "" for none."""


def lineage_of(key: GangKey, pod: Pod) -> Lineage | None:
    """Return the lineage of a Job's pod that is a gang by itself, None for any other pod."""
    owner = pod.owner
    if key.convention is not Convention.ALONE or owner is None or not owner.is_a("Job", "batch"):
        return None
    return pod.namespace, owner.uid, pod.annotations.get(COMPLETION_INDEX, "")


def lineage_left(gang: Gang, pod: Pod) -> Lineage | None:
    """Return the lineage of the heir of a gang whose last pod, ``pod``, is gone; None if it may have no heir."""
    replaced = pod.expected or gang.history.sent_back or gang.history.preemptions
    return lineage_of(gang.key, pod) if replaced and pod.phase != "Succeeded" else None


@dataclass(frozen=True, slots=True)
class PastGang:
    """A gang as it was last seen, when it went (seconds since the epoch), and its lineage if it may have an heir."""

    gang: Gang
    at: float
    lineage: Lineage | None = None


class PastGangs:
    """Gangs that are gone, by key, the oldest first."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._gone: OrderedDict[GangKey, PastGang] = OrderedDict()
        self._heirless: dict[GangKey, Lineage] = {}
        """The lineages of the gangs that may have an heir and have none yet, the oldest first."""

    def keep(self, gang: Gang, lineage: Lineage | None = None) -> None:
        """Remember a gang that is gone from now on. An heir of ``lineage`` may go on with its history."""
        self._forget(gang.key)
        self._gone[gang.key] = PastGang(gang, self.clock(), lineage)
        if lineage is not None:
            self._heirless[gang.key] = lineage
        self._forget_old()

    def history_of(self, key: GangKey, first: Pod) -> History:
        """Return the history with which a new gang begins; ``first`` is its first pod."""
        past, lineage, history = self._gone.get(key), lineage_of(key, first), History(self.clock)
        if past is not None and (past.lineage is None or key in self._heirless):
            history = past.gang.history
        self._forget(key)
        self._forget_old()
        # A pod without an index replaces one pod. A pod that comes back under its own key has its own history.
        if lineage is not None and (lineage[2] or not history.entries):
            replaced = [other for other, left in self._heirless.items() if left == lineage]
            for other in replaced if lineage[2] else replaced[:1]:
                self.hand_over(other, history)
        return history

    def hand_over(self, key: GangKey, heir: History) -> None:
        """Let an heir go on with the history of a gang."""
        heir.follow(self._gone[key].gang.history)
        del self._heirless[key]

    def get(self, key: GangKey) -> PastGang | None:
        """Return the gang of that key, or None if it isn't remembered."""
        self._forget_old()
        return self._gone.get(key)

    def __iter__(self) -> Iterator[PastGang]:
        """Iterate over the remembered gangs, the oldest first."""
        self._forget_old()
        return iter(list(self._gone.values()))

    def _forget_old(self) -> None:
        oldest = self.clock() - REMEMBERED_FOR
        while self._gone:
            key, past = next(iter(self._gone.items()))
            if len(self._gone) <= REMEMBERED and past.at > oldest:
                return
            self._forget(key)

    def _forget(self, key: GangKey) -> None:
        self._gone.pop(key, None)
        self._heirless.pop(key, None)
