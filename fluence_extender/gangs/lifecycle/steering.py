"""Which members are bound or steered now.

A direct pod is bound by one write, together with its gang. Any other pod that exists is nominated and ungated, so that
kube-scheduler's filters judge it on its node. The foreseen pods of a Job are steered together, by the patch that
resumes the Job. A pod with claims waits until no other pod on its node has to be served before it.

Invariant: no direct member of a gang is bound before its other members have gathered at the barrier, so that no member
is bound before all may be. There is one exception. kube-scheduler refuses a pod with a required affinity to a direct
member until that one is bound, so the direct members of such a gang go first.
"""

from __future__ import annotations

from fluence_extender.gangs.execution.actions import Action, Bind, Steer
from fluence_extender.gangs.lifecycle.births import Births
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.member_states import PLANNED, Binding, MemberEvent, move
from fluence_extender.gangs.lifecycle.refusals import verdicts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.pod import Pod
from fluence_extender.model.selectors import holds
from fluence_extender.room.claims import ClaimRooms


class Steering:
    """Binds and steers the members of gangs to their places."""

    def __init__(self, births: Births, rooms: ClaimRooms, limits: Limits) -> None:
        self._births = births
        self._rooms = rooms
        self._limits = limits

    def due(self, gang: Gang) -> tuple[list[Member], list[Action]]:
        """Return the members of ``gang`` that are bound or steered now, and the writes for that."""
        waiting = [
            one
            for one in gang.members.values()
            if one.state is PLANNED or (isinstance(one.data, Binding) and one.data.steer_again)
        ]
        if not waiting:
            return [], []
        free = may_bind_direct(gang)
        foreseen = [one for one in waiting if one.pod.foreseen and (free or not one.pod.direct)]
        direct = [one for one in waiting if one.pod.direct and not one.pod.foreseen]
        filtered = [one for one in waiting if not (one.pod.direct or one.pod.foreseen)]
        filtered = [one for one in filtered if not one.pod.claims or self._rooms.ungate(one.pod.uid)]
        bound = direct if free and self._limits.binds_direct else []
        writes = [*self._births.resumes(gang, foreseen), *_binds(gang, bound), *_steers(gang, filtered)]
        return [*foreseen, *bound, *filtered], writes


def may_bind_direct(gang: Gang) -> bool:
    """Return whether the direct members of a gang may be bound: the others that have a place have gathered."""
    if gang.begun or gang.barrier.open:
        return True
    filtered = gang.filtered()
    return not filtered or _need_direct(gang, filtered)


def _need_direct(gang: Gang, filtered: list[Member]) -> bool:
    """Return whether one of the members has to be near a direct one, and can't be the first of its kind.

    kube-scheduler (InterPodAffinity) lets a pod pass that selects itself where no other pod is selected.
    """
    sought = {
        selector
        for pod in (member.pod for member in filtered)
        if _may_follow(pod)
        for selector in pod.pod_affinity
        if not all(holds(one, pod.labels) for one in selector)
    }
    direct = [one.pod for one in gang.pending() if one.pod.direct and one.assignment is not None]
    return any(all(holds(one, pod.labels) for one in selector) for selector in sought for pod in direct)


def _may_follow(pod: Pod) -> bool:
    """Return whether the pod may pass once its neighbors are bound: nothing refuses it, or InterPodAffinity does."""
    return not pod.refusal or "InterPodAffinity" in dict(verdicts(pod.refusal))


def _binds(gang: Gang, members: list[Member]) -> list[Action]:
    actions: list[Action] = []
    for member in members:
        assert member.assignment is not None, "a planned member has a place"
        move(gang, member, MemberEvent.BIND)
        actions.append(Bind(member.pod, member.assignment.node))
    return actions


def _steers(gang: Gang, members: list[Member]) -> list[Action]:
    actions: list[Action] = []
    for member in members:
        if member.binding:
            move(gang, member, MemberEvent.STEER, steer_again=False)
        else:
            move(gang, member, MemberEvent.STEER)
        if member.assignment is not None and member.pending:
            actions.append(Steer(member.pod, member.assignment.node))
    return actions
