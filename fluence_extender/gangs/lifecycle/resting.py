"""Gangs that give their places back for a while, because kube-scheduler wouldn't bind a member where it was placed.

Twice as long each time, up to a limit, so that what can't come about costs less and less. Invariant: when a rest begins
the member has no place, nor has any other of a gang that isn't begun; the gang's reason says why.
"""

from __future__ import annotations

from collections.abc import Callable

from fluence_extender.gangs.lifecycle.agenda import NEVER
from fluence_extender.gangs.lifecycle.deadlines import at_risk
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.pins import pinned
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.refusals import refused_by_filters
from fluence_extender.gangs.lifecycle.stalls import refused_unasked, stalled
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.reason import Reason

MOST_DOUBLINGS = 16
"""Far beyond any limit, and small enough not to overflow a float."""


def back_off(first: float, times: int, longest: float) -> float:
    """How long to rest for the ``times``-th time in a row, in seconds: ``first``, then twice as long each time."""
    return min(first * (1 << min(times - 1, MOST_DOUBLINGS)), longest)


class Resting:
    """See the module docstring."""

    def __init__(
        self, registry: Registry, places: Places, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._places = places
        self._limits = limits
        self._clock = clock

    def turned_away(self, gang: Gang, member: Member, now: float) -> None:
        """Look for another place for a member whose node is barred for it now, or give the gang a rest."""
        gang.replans += 1
        gang.barrier.doubt()
        if gang.replans < self._limits.replans + len(gang.members):
            self._places.replan_apart(gang, member)
            return
        gang.replans = 0
        gang.rests += 1
        gang.rest_until = now + back_off(self._limits.rest, gang.rests, self._limits.longest_refused_rest)
        self._registry.dirty.add(gang.key)
        self._rest(gang, member, refused_by_filters(gang), now)
        member.placeless = now if pinned(member) else NEVER

    def give_up_stalled(self, gang: Gang, now: float) -> None:
        """Take the places of a gang back that are kept in vain, because kube-scheduler refuses a member beforehand."""
        member = stalled(gang, now, self._limits)
        if member is None:
            return
        member.stalled = True
        self._let_rest(gang, member, refused_unasked(member), now)
        # kube-scheduler asks for nobody whom it refuses on all the nodes that he is pinned to.
        member.placeless = now - self._limits.unasked if pinned(member) else NEVER

    def turned_down(self, gang: Gang, member: Member, why: Reason) -> None:
        """A member can't be bound by whoever asks: its place isn't kept in vain."""
        self._registry.revision += 1
        self._registry.dirty.add(gang.key)
        self._let_rest(gang, member, why, self._clock())

    def shorten(self, gang: Gang, now: float) -> bool:
        """Let a gang that was refused rest no longer than the first time; whether that is shorter.

        Who was refused on every node may not be refused on one that is new or has changed.
        """
        if not gang.rests or gang.rest_until <= now + self._limits.rest:
            return False
        gang.rest_until = now + self._limits.rest
        return True

    def _let_rest(self, gang: Gang, member: Member, why: Reason, now: float) -> None:
        gang.stalls += 1
        gang.rest_until = now + back_off(self._limits.rest, gang.stalls, self._limits.longest_rest)
        gang.note(HistoryKind.REFUSED, member.pod.name, why.text)
        self._rest(gang, member, why, now)

    def _rest(self, gang: Gang, member: Member, why: Reason, now: float) -> None:
        """Take the gang's places back for a while because of ``member``; who is pinned stays where it is."""
        self._places.drop(member)
        self._places.withdraw(gang)
        gang.explain(Reason(why.code, why.text + at_risk(gang, self._limits)), now)
        for one in gang.members.values():
            one.placeless = NEVER
