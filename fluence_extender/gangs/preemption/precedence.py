"""Who is in front of whom while others make way: for whom nodes and devices are kept, and from whom.

Invariant: who couldn't preempt a gang for which others make way is neither placed on its nodes nor gets devices of its
kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.evictions import Evictions
from fluence_extender.gangs.preemption.making_way import full_order
from fluence_extender.gangs.preemption.preempting import Preempting
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.ledger.preemptor_holds import PreemptorHolds
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode


class Presses(Protocol):
    """A gang for which others make way."""

    @property
    def priority(self) -> int:
        """The lowest of its pods that need a place."""
        ...

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of devices that it asks for."""
        ...


class Precedence:
    """See the module docstring. ``for_whom`` are the gangs for which others make way."""

    def __init__(self, ledger: Ledger, for_whom: Mapping[GangKey, Preempting], evictions: Evictions) -> None:
        self._ledger = ledger
        self._of = for_whom
        self._evictions = evictions

    def passes(self, gang: Gang) -> frozenset[object]:
        """The gangs that ``gang`` could preempt itself: nodes kept for them are open to it."""
        return passed_by([member.pod for member in gang.alive()], self._of) if self._of else frozenset()

    def barrier_to(self, gang: Gang, members: Iterable[Member]) -> Reason | None:
        """Why ``gang`` may not be tried now: it makes way itself, or for one that waits for the same devices."""
        way = self._evictions.way(gang.key)
        if way is not None:
            return Reason(ReasonCode.PREEMPTED, way.why)
        if not self._of:
            return None
        kinds = {kind for member in members for kind in member.pod.devices}
        order, passed = full_order(gang), self.passes(gang)

        def is_ahead(key: GangKey) -> bool:
            first = gang.key not in self._of or self._of[key].order < order
            return key != gang.key and key not in passed and first

        return kept_for_another(kinds, self._of, is_ahead)

    def behind(self, gang: Gang, reason: Reason) -> Reason:
        """``reason`` with those for whom nodes are kept from ``gang``."""
        if reason.code is not ReasonCode.BUSY or not self._of:
            return reason
        stepped_over = {gang.key, *self.passes(gang)}
        return behind(
            reason,
            self._of,
            stepped_over,
            self._ledger.preemptor_holds,
            lambda key: (self._of[key].order, key),
        )


def passed_by(pods: Sequence[Pod], for_whom: Mapping[GangKey, Presses]) -> frozenset[object]:
    """The gangs of ``for_whom`` that a gang of these pods could preempt itself."""
    if not pods or not all(pod.preempts for pod in pods):
        return frozenset()
    priority = min(pod.priority for pod in pods)
    return frozenset(key for key, one in for_whom.items() if one.priority < priority)


def kept_for_another(
    kinds: Collection[str], for_whom: Mapping[GangKey, Presses], is_ahead: Callable[[GangKey], bool]
) -> Reason | None:
    """Why a gang that asks for devices of these kinds isn't tried: the first that is ahead asks for some, too."""
    for key, one in sorted(for_whom.items()):
        shared = sorted(one.kinds.intersection(kinds))
        if shared and is_ahead(key):
            return Reason(ReasonCode.BUSY, f"busy: {', '.join(shared)} kept for {named(key, one)}")
    return None


def behind(
    reason: Reason,
    for_whom: Mapping[GangKey, Presses],
    stepped_over: Collection[object],
    preemptor_holds: PreemptorHolds,
    order: Callable[[GangKey], tuple[Any, ...]],
) -> Reason:
    """``reason``, if it is want of room, with the first in ``order`` of those for whom nodes are kept."""
    ahead = [key for key in for_whom if key not in stepped_over and preemptor_holds.nodes_for(key)]
    if reason.code is not ReasonCode.BUSY or not ahead:
        return reason
    first = min(ahead, key=order)
    return Reason(reason.code, f"{reason.text}; behind {named(first, for_whom[first])}")


def named(key: GangKey, one: Presses) -> str:
    """What users are told of a gang for which others make way."""
    return f"{key} (priority {one.priority})"


def lowest_priority(members: Iterable[Member]) -> int:
    """The priority that counts for preempting: the lowest of those who need a place."""
    return min((member.pod.priority for member in members), default=0)


def may_preempt(members: Iterable[Member]) -> bool:
    """Whether none of them has the preemptionPolicy Never."""
    return all(member.pod.preempts for member in members)
