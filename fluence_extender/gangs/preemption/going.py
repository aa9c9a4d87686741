"""Bound pods whose room comes free by itself, so that nobody else need make way for it.

Those being deleted, for a while or, who is ``patient``, however long they take; and those that make way already.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import chain

from fluence_extender.gangs.preemption.evictions import Evictions
from fluence_extender.gangs.preemption.leaving import Leaving
from fluence_extender.gangs.preemption.preempting import Preempting


class Going:
    """See the module docstring. ``held`` are the uids of pods that hold something.

    Each question is asked for a gang: ``known`` is what is known of those who make way for it, None if nobody does.
    """

    def __init__(self, held: Container[str], leaving: Leaving, evictions: Evictions) -> None:
        self._held = held
        self._leaving = leaving
        self._evictions = evictions

    def has(self, uid: str, known: Preempting | None, now: float, patient: bool = False) -> bool:
        """Whether a pod that holds something is among them."""
        if uid in self._leaving:
            return self._leaving.counts(uid, now, patient)
        return uid in _asked(known) or self._evictions.is_going(uid, now)

    def all(self, known: Preempting | None, now: float, patient: bool = False) -> frozenset[str]:
        """All of them."""
        leaving = self._leaving.still()
        uids = set(filter(self._held.__contains__, chain(leaving, _asked(known), self._evictions.uids())))
        # There may be thousands; only of these is it open whether they are reckoned with.
        open_ones = chain(leaving, self._evictions.refused_uids())
        uids.difference_update(uid for uid in open_ones if not self.has(uid, known, now, patient))
        return frozenset(uids)


def _asked(known: Preempting | None) -> frozenset[str]:
    """Whose budgets are being asked: once they allow it, who makes way is known to the evictions."""
    return frozenset() if known is None or known.granted else known.uids
