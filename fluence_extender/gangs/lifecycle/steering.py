"""Which members are bound or steered now, and which nominations are taken back.

A direct pod is bound by one write, together with its gang. Any other pod that exists is nominated and ungated, so that
kube-scheduler's filters judge it on its node. The expected pods of a Job are steered together, by the patch that
resumes the Job. A pod with ResourceClaims waits while another pod on its node has to get its devices first.

Invariants: a nomination without a place is taken back before another pod is nominated there. No direct member of a gang
is bound before its other members have gathered at the barrier, so that no member is bound before all may be. There is
one exception: kube-scheduler refuses a pod with a required affinity to a direct member until that member is bound. So
the direct members of such a gang are bound first.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.execution.actions import Action
from fluence_extender.gangs.lifecycle.expected_pods import ExpectedPods
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.reconcile import Wanted, after, reconcile
from fluence_extender.gangs.lifecycle.refusals import verdicts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.pod import Pod, Requirement
from fluence_extender.model.selectors import holds
from fluence_extender.room.claims import ClaimRooms


class Steering:
    """Binds and steers the members of gangs to their places."""

    def __init__(self, expected_pods: ExpectedPods, rooms: ClaimRooms, limits: Limits) -> None:
        self._expected_pods = expected_pods
        self._rooms = rooms
        self._limits = limits

    def due(self, gang: Gang, undone: str = "") -> tuple[list[Member], list[Action]]:
        """Return the members of ``gang`` that are bound or steered now, and the writes that its members need.

        If the gang is ``undone`` for some reason, its bound members are evicted.
        """
        placed = [
            member
            for member in gang.members.values()
            if not member.bound and member.assignment and not member.steered
        ]
        free = bool(placed) and may_bind_direct(gang)
        expected = [member for member in placed if member.pod.expected and (free or not member.pod.direct)]
        writes = list[Action](self._expected_pods.resumes(gang, expected))
        started = [gang.members[member.pod.uid] for member in expected]
        for member in list(gang.members.values()):
            place = member.assignment
            nothing = (
                member.steered
                or member.bound
                or (place is None and not (member.pod.nominated or member.held_node))
            )
            if nothing and not undone:
                continue
            wanted = Wanted(
                node=place.node if place is not None else "",
                held=member.held_node,
                bound=member.bound,
                may_start=place is None or self._may_start(member, free),
                undone=undone,
            )
            action = reconcile(member.pod, wanted, member.written)
            if action is not None:
                member = gang.change(member.pod.uid, written=after(member.written, action))
                writes.append(action)
                if place is not None and not member.bound:
                    started.append(member)
        return started, writes

    def _may_start(self, member: Member, free: bool) -> bool:
        """Return whether a member may be bound or ungated; ``free`` says whether direct members may be bound."""
        pod = member.pod
        if member.bound or pod.expected:
            # It is neither bound nor ungated, and `ungate` below counts a pod as ungated.
            return False
        if pod.direct:
            return free and self._limits.binds_direct
        return not pod.claims or self._rooms.ungate(pod.uid)


def may_bind_direct(gang: Gang) -> bool:
    """Return whether the direct members of a gang may be bound.

    They may once the filtered members with a place have gathered, or if one of these needs a direct member first.
    """
    if gang.begun or gang.barrier.open:
        return True
    filtered = gang.filtered()
    return not filtered or _needs_direct(gang, filtered)


def _needs_direct(gang: Gang, filtered: list[Member]) -> bool:
    """Return whether a filtered member has a required affinity to a direct one, so that it passes only after that one.

    kube-scheduler (InterPodAffinity) lets a pod that selects itself pass where its affinity selects no other pod.
    """
    selectors = {
        selector
        for pod in (member.pod for member in filtered)
        if _may_pass_later(pod)
        for selector in pod.pod_affinity
        if not _selects(selector, pod)
    }
    direct = [member.pod for member in gang.pending() if member.pod.direct and member.assignment is not None]
    return any(_selects(selector, pod) for selector in selectors for pod in direct)


def _selects(selector: Iterable[Requirement], pod: Pod) -> bool:
    return all(holds(requirement, pod.labels) for requirement in selector)


def _may_pass_later(pod: Pod) -> bool:
    """Return whether the pod may pass once others are bound: no filter refuses it, or InterPodAffinity does."""
    return not pod.refusal or "InterPodAffinity" in dict(verdicts(pod.refusal))
