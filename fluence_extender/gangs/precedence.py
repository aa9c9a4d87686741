"""Who is in front of whom while others make way: for whom nodes and devices are kept, and from whom.

Invariant: who couldn't preempt a gang for which others make way is neither placed on its nodes nor gets devices of its
kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fluence_extender.gangs.evictions import Evictions
from fluence_extender.gangs.gang import Gang, Member
from fluence_extender.gangs.making_way import full_order
from fluence_extender.gangs.preempting import Preempting
from fluence_extender.ledger.books import Books
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, Why


class Precedence:
    """See the module docstring. ``for_whom`` are the gangs for which others make way."""

    def __init__(self, books: Books, for_whom: Mapping[GangKey, Preempting], evictions: Evictions) -> None:
        self._books = books
        self._of = for_whom
        self._evictions = evictions

    def passes(self, gang: Gang) -> frozenset[object]:
        """The gangs that ``gang`` could preempt itself: nodes kept for them are open to it."""
        members = gang.alive() if self._of else []
        if not members or not may_preempt(members):
            return frozenset()
        priority = lowest_priority(members)
        return frozenset(key for key, one in self._of.items() if one.priority < priority)

    def barrier_to(self, gang: Gang, members: Iterable[Member]) -> Reason | None:
        """Why ``gang`` may not be tried now: it makes way itself, or for one that waits for the same devices."""
        way = self._evictions.way(gang.key)
        if way is not None:
            return Reason(Why.PREEMPTED, way.why)
        if not self._of:
            return None
        kinds = {kind for member in members for kind in member.pod.devices}
        order, passed = full_order(gang), self.passes(gang)
        for key, one in sorted(self._of.items()):
            shared = sorted(kinds & one.kinds)
            first = key not in passed and (gang.key not in self._of or one.order < order)
            if key != gang.key and shared and first:
                return Reason(Why.BUSY, f"busy: {', '.join(shared)} kept for {named(key, one)}")
        return None

    def behind(self, gang: Gang, reason: Reason) -> Reason:
        """``reason`` with those for whom nodes are kept from ``gang``."""
        if reason.why is not Why.BUSY or not self._of:
            return reason
        passed = self.passes(gang)
        ahead = sorted(
            (one.order, key)
            for key, one in self._of.items()
            if key != gang.key and key not in passed and self._books.keeps.of(key)
        )
        if not ahead:
            return reason
        first = ahead[0][1]
        return Reason(reason.why, f"{reason.text}; behind {named(first, self._of[first])}")


def named(key: GangKey, one: Preempting) -> str:
    """What users are told of a gang for which others make way."""
    return f"{key} (priority {one.priority})"


def lowest_priority(members: Iterable[Member]) -> int:
    """The priority that counts for preempting: the lowest of those who need a place."""
    return min((member.pod.priority for member in members), default=0)


def may_preempt(members: Iterable[Member]) -> bool:
    """Whether none of them has the preemptionPolicy Never."""
    return all(member.pod.preempts for member in members)
