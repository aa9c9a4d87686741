"""How many members make a gang whole, from what each of them claims; and what keeps a member from being planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from fluence_extender.gangs.membership.conventions.claim import Claim
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode


class Claiming(Protocol):
    """A pod and what it claims."""

    @property
    def pod(self) -> Pod: ...

    @property
    def claim(self) -> Claim: ...


def agreed_size(key: GangKey, claims: Iterable[Claim]) -> int | Reason:
    """The size that all claims say, or why that can't be said; 1 where there are none.

    Of sizes that were only noted once the largest counts, and only where no other is said.
    """
    by: dict[int, str] = {}
    noted = 1
    for claim in claims:
        size = claim.size
        if isinstance(size, Reason):
            return size
        if claim.noted:
            noted = max(noted, size)
            continue
        known = by.get(size)
        if known is None or claim.said_by < known:
            by[size] = claim.said_by
    if len(by) <= 1:
        return next(iter(by), noted)
    (least, first), *_, (most, last) = sorted(by.items())
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"members of gang {key} disagree on its size: {first} says {least}, {last} says {most}",
    )


TEMPLATE_HASH = "pod-template-hash"


def size_said(key: GangKey, members: Sequence[Claiming]) -> int | Reason:
    """The size that all claims say or, where those of a controller's pods differ, its newest pods.

    Its template was changed, then, and what the older pods carry holds no more.
    """
    size = agreed_size(key, (one.claim for one in members))
    if not isinstance(size, Reason) or size.code is not ReasonCode.INVALID_REQUEST:
        return size
    newest: dict[str, tuple[float, bool]] = {}
    for one in members:
        controller, age = _controller(one.pod), _age(one.pod)
        newest[controller] = max(newest.get(controller, age), age)
    latest = (one.claim for one in members if _age(one.pod) == newest[_controller(one.pod)])
    now = agreed_size(key, latest)
    return size if isinstance(now, Reason) else now


def _age(pod: Pod) -> tuple[float, bool]:
    """By what pods are told apart in age: times are in seconds, and who has no node yet came after who has one."""
    return pod.created, not pod.node


def _controller(pod: Pod) -> str:
    """Who makes such pods, the pod itself if nobody does; the ReplicaSets of a Deployment are one."""
    owner, version = pod.owner, pod.labels.get(TEMPLATE_HASH)
    if owner is None:
        return f"Pod {pod.uid}"
    if owner.kind == "ReplicaSet" and version:
        return f"Deployment {owner.name.removesuffix(version)}"
    return owner.uid


def shortest_patience(claims: Iterable[Claim]) -> float | None:
    """The fewest seconds that a claim gives the gang to assemble; None where none does."""
    return min((claim.patience for claim in claims if claim.patience is not None), default=None)


def foreign_gates(pod: Pod) -> tuple[str, ...]:
    """The pod's scheduling gates that aren't ours to remove."""
    return tuple(gate for gate in pod.gates if gate != GATE)
