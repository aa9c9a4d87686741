"""Members that have a place and don't get bound, and gangs that give their places back for a while because of that.

A place is held in vain in three cases:

1. kube-scheduler's filters refuse the member on each node where it is placed.
2. kube-scheduler refuses the member before it asks about the node, for instance because a PersistentVolumeClaim is
   missing. Then no filter call comes.
3. The Binding fails. An admission webhook, a policy or a quota refuses it, or the API server doesn't answer.

In case 3 the Binding is tried again, and the member keeps its place. In the other two the gang gives its places back
and rests. Each rest is twice as long as the last one, up to a limit.

Invariants: when a rest begins, the member has no place, and no other member has one unless the gang has begun. The
gang's reason tells why. The reason of a failed Binding changes only with the failure's text or the member it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from fluence_extender.gangs.lifecycle.deadlines import at_risk, stalls_at
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.member_states import Placed, update
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.refusals import in_words, verdicts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.notation import natural_order
from fluence_extender.model.reason import Reason, ReasonCode

MOST_DOUBLINGS = 16
"""The most doublings of a rest: far beyond any limit, and few enough not to overflow a float."""


def back_off(first: float, times: int, longest: float) -> float:
    """Return the seconds of the ``times``-th rest in a row: ``first``, then doubled each time."""
    return min(first * (1 << min(times - 1, MOST_DOUBLINGS)), longest)


class Resting:
    """Lets gangs rest whose places are held in vain."""

    def __init__(
        self, registry: Registry, places: Places, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._places = places
        self._limits = limits
        self._clock = clock
        self._barred: dict[str, dict[str, float]] = {}
        """By node: the pods for which it is barred and until when, those that were barred last at the end."""
        self._refused: set[GangKey] = set()
        """The gangs whose rests after refusals may be longer than the first one."""

    def barred(self, member: Member, node: str, now: float) -> None:
        """Note that a node is barred for a member from now on."""
        barred = self._barred.setdefault(node, {})
        barred.pop(member.pod.uid, None)
        barred[member.pod.uid] = member.refusals.barred[node]
        for uid in [*takewhile(lambda one: barred[one] <= now, barred)]:
            del barred[uid]

    def node_changed(self, node: str, now: float) -> list[Gang]:
        """Lift the bars on a node, and cut the rests of refused gangs; return those that rested for longer.

        A pod that was refused on every node may not be refused on one that is new or has changed.
        """
        for uid in self._barred.pop(node, ()):
            found = self._registry.member(uid)
            if found is not None:
                found[1].refusals = found[1].refusals.without_bar(node)
                self._registry.dirty.since_view.add(found[0].key)
        known = (self._registry.gangs.get(key) for key in sorted(self._refused))
        self._refused.clear()
        return [gang for gang in known if gang is not None and self._shorten(gang, now)]

    def after_refusal(self, gang: Gang, member: Member, now: float) -> None:
        """Find another place for a member whose node is barred for it now, or let the gang rest."""
        first = min(gang.rest.replanned, now)
        rest = gang.rest = replace(gang.rest, replans=gang.rest.replans + 1, replanned=first)
        gang.barrier.doubt()
        refused = rest.refused + 1
        patience = back_off(self._limits.replanned_for, refused, self._limits.longest_refused_rest)
        if rest.replans < self._limits.replans + len(gang.members) and now < first + patience:
            self._places.replan_apart(gang, member)
            return
        until = now + back_off(self._limits.rest, refused, self._limits.longest_refused_rest)
        gang.rest = replace(rest, replans=0, replanned=NEVER, refused=refused, until=until)
        self._registry.dirty.add(gang.key)
        self._refused.add(gang.key)
        self._rest(gang, member, _refused_by_filters(gang), now)

    def give_up_stalled(self, gang: Gang, now: float) -> None:
        """Let the gang rest if kube-scheduler refuses a member and doesn't request its node."""
        member = _stalled(gang, now, self._limits)
        if member is None:
            return
        self._rest_stalled(gang, member, _refused_unasked(member), now)
        update(member, stalled=True)

    def _shorten(self, gang: Gang, now: float) -> bool:
        """Cut the rest of a refused gang to ``rest`` seconds from now; return whether it was longer."""
        if not gang.rest.refused or gang.rest.until <= now + self._limits.rest:
            return False
        gang.rest = replace(gang.rest, until=now + self._limits.rest)
        self._registry.dirty.since_view.add(gang.key)
        return True

    def _rest_stalled(self, gang: Gang, member: Member, why: Reason, now: float) -> None:
        stalled = gang.rest.stalled + 1
        until = now + back_off(self._limits.rest, stalled, self._limits.longest_rest)
        gang.rest = replace(gang.rest, replanned=NEVER, stalled=stalled, until=until)
        gang.note(HistoryKind.REFUSED, member.pod.name, why.text)
        self._rest(gang, member, why, now)

    def _rest(self, gang: Gang, member: Member, why: Reason, now: float) -> None:
        """Take the gang's places back because of ``member``."""
        self._registry.dirty.since_view.add(gang.key)
        self._places.drop(gang, member)
        self._places.withdraw(gang)
        gang.explain(Reason(why.code, why.text + at_risk(gang, self._limits)), now)


def _refused_by_filters(gang: Gang) -> Reason:
    """Return why a gang rests: on how many nodes it was refused, and kube-scheduler's last verdict."""
    refused = [member for member in gang.members.values() if member.refusals.barred]
    nodes = {node for member in refused for node in member.refusals.barred}
    who = "the pod" if gang.key.convention is Convention.ALONE else "a member"
    known = (one.refusals.verdicts for one in refused if one.refusals.verdicts)
    last = next(known, ()) or next(filter(None, (verdicts(one.pod.refusal) for one in refused)), ())
    where = f"its last attempt: {in_words(last)}" if last else "see its events"
    return Reason(
        ReasonCode.REFUSED_BY_FILTERS,
        f"kube-scheduler's own filters refused {who} on {len(nodes)} of the nodes that have room ({where})",
    )


def _stalled(gang: Gang, now: float, limits: Limits) -> Member | None:
    """Return a member whose place is held in vain because kube-scheduler doesn't request it, or None."""
    return next((one for one in gang.pending() if one.pod.refusal and stalls_at(one, limits) <= now), None)


def _refused_unasked(member: Member) -> Reason:
    refusal = member.pod.refusal
    return Reason(
        ReasonCode.REFUSED_BY_FILTERS,
        f"kube-scheduler refuses {member.pod.name} before it asks for its node: {refusal}",
    )


# Failed Bindings.


def forget_failed_binding(member: Member) -> None:
    """Forget why the last Binding failed, if kube-scheduler refuses the pod now: that comes before any Binding."""
    if isinstance(member.data, Placed) and member.unbound and member.pod.refusal:
        update(member, unbound="")


def unbound(gang: Gang) -> Reason | None:
    """Return which member can't be bound and why, None if all can."""
    waiting = [one for one in gang.pending() if one.assignment is not None and one.unbound]
    if not waiting:
        return None
    first = min(waiting, key=lambda one: natural_order(one.pod.name))
    assert first.assignment is not None
    text = f"placed, but {first.pod.name} can't be bound to {first.assignment.node}: {first.unbound}"
    return Reason(ReasonCode.CANNOT_BIND, text)
