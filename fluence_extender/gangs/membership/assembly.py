"""How many members make a gang whole, from the memberships of its pods, and which gates keep a member from planning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluence_extender.gangs.membership.conventions.membership import LARGEST_SIZE, Membership
from fluence_extender.gangs.membership.conventions.owners import deployment_of
from fluence_extender.gangs.membership.gang import Member
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode


def agreed_size(key: GangKey, memberships: Iterable[tuple[str, Membership]]) -> int | Reason:
    """Return the size that all memberships state, or why they don't agree on one; 1 if there are none.

    Each membership comes with the name of its pod.
    """
    by_size: dict[int, list[tuple[str, Membership]]] = {}
    for name, membership in memberships:
        if isinstance(membership.size, Reason):
            return membership.size
        if membership.size > LARGEST_SIZE:
            stating = membership.source.replace("{pod}", name)
            return Reason(
                ReasonCode.INVALID_REQUEST,
                f"{stating} says {membership.size}: the largest gang has {LARGEST_SIZE} members",
            )
        by_size.setdefault(membership.size, []).append((name, membership))
    if len(by_size) <= 1:
        return next(iter(by_size), 1)
    stated = {
        size: min(membership.source.replace("{pod}", name) for name, membership in stating)
        for size, stating in by_size.items()
    }
    (least, first), *_, (most, last) = sorted(stated.items())
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"members of gang {key} disagree on its size: {first} says {least}, {last} says {most}",
    )


def required_size(key: GangKey, members: Sequence[Member]) -> int | Reason:
    """Return the size that all members state or, where pods of one controller differ, that its newest pods state.

    Such a difference means that the controller's template was changed, and what the older pods carry is out of date.
    """
    stating = members
    if members:
        # The pods of a gang usually share one membership (`Registry`). Then the first of them speaks for all.
        first = members[0].membership
        if all([member.membership is first for member in members]):
            stating = members[:1]
    size = agreed_size(key, ((member.pod.name, member.membership) for member in stating))
    if not isinstance(size, Reason) or size.code is not ReasonCode.INVALID_REQUEST:
        return size
    newest: dict[str, tuple[float, bool]] = {}
    for member in members:
        controller, age = _controller(member.pod), _age(member.pod)
        newest[controller] = max(newest.get(controller, age), age)
    newest_ones = (member for member in members if _age(member.pod) == newest[_controller(member.pod)])
    latest = ((member.pod.name, member.membership) for member in newest_ones)
    size_of_newest = agreed_size(key, latest)
    return size if isinstance(size_of_newest, Reason) else size_of_newest


def _age(pod: Pod) -> tuple[float, bool]:
    """Return a sort key by which pods are ordered from old to young.

    Creation times are whole seconds; of two equal ones, the pod without a node is the younger.
    """
    return pod.created, not pod.node


def _controller(pod: Pod) -> str:
    """Return what creates such pods, or the pod itself without a controller; a Deployment's ReplicaSets are one."""
    if pod.owner is None:
        return f"Pod {pod.uid}"
    deployment = deployment_of(pod)
    return f"Deployment {deployment}" if deployment else pod.owner.uid


def shortest_patience(memberships: Iterable[Membership]) -> float | None:
    """Return the shortest time in seconds that a membership allows for assembly, or None if none states one."""
    return min((one.patience for one in memberships if one.patience is not None), default=None)


def foreign_gates(pod: Pod) -> tuple[str, ...]:
    """Return the pod's scheduling gates that aren't ours to remove."""
    return tuple(gate for gate in pod.gates if gate != GATE)


def waiting_for_gates(members: Iterable[Member]) -> Reason | None:
    """Return that the members wait for scheduling gates of others, None if they have none."""
    names = sorted({gate for member in members for gate in foreign_gates(member.pod)})
    if not names:
        return None
    return Reason(ReasonCode.WAITING_FOR_GATES, f"waiting for scheduling gates of others: {', '.join(names)}")
