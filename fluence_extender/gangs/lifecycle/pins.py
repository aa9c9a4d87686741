"""Steering in the write that ungates: the pod is confined to its planned node, and to a few spare ones.

That is one write fewer than to nominate and to ungate. But a required node affinity can only be tightened, and not at
all once the gates are gone. So it is done to pods alone for which hardly anything but a change of a node can come
between, and which their controller replaces: a pod whose pin is in its gang's way (`displaced`) is evicted after a
while, and its successor comes with its gate and is planned anew. Rules of the API server (Kubernetes 1.36,
pkg/apis/core/validation): a field selector names one node; terms that a user wrote may be extended, not added to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from zlib import crc32

from fluence_extender.gangs.execution.actions import Evict
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.member_states import Waiting, update
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.ledger.accounts import NodeAccount
from fluence_extender.model.names import GATE, NODE_NAME
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod, Requirement
from fluence_extender.model.reason import INCOMPLETE
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import refusal

SPARES = 3
"""Nodes beside the planned one: a cordon or a pod of another scheduler then moves the pod instead of ending it."""

LOOKED_AT = 16
"""Nodes tried as spare ones: on a full cluster there may be none."""


def may_be_pinned(pod: Pod) -> bool:
    """Whether a pod that is to be ungated may be confined to its node by the same write."""
    replaced = pod.owner is not None and pod.owner.kind != "DaemonSet"
    loose = not pod.interdependent and not pod.host_ports and not pod.devices
    return GATE in pod.gates and replaced and loose and not pod.nominated and not pod.confined_to


def pinned(member: Member) -> bool:
    """Whether a member that waits has been confined to nodes for good."""
    return member.pending and bool(member.pod.pinned_to)


def pinning(pod: Pod, node: str, spares: Collection[str]) -> tuple[NodeTerm, ...]:
    """The node affinity that confines ``pod`` to ``node``, or where its user wrote none, to that or a spare one."""
    if pod.affinity is None:
        return tuple(NodeTerm(fields=(_named(name),)) for name in (node, *spares))
    return tuple(_confined(term, node) for term in pod.affinity)


def _confined(term: NodeTerm, node: str) -> NodeTerm:
    empty = not term.expressions and not term.fields
    return term if empty else NodeTerm(term.expressions, (*term.fields, _named(node)))


def _named(node: str) -> Requirement:
    return Requirement(NODE_NAME, "In", (node,))


def spare_nodes(
    pod: Pod,
    planned: str,
    names: Sequence[str],
    nodes: Mapping[str, Node],
    accounts: Mapping[str, NodeAccount],
    asked: Resources,
) -> tuple[str, ...]:
    """A few of ``names`` beside ``planned`` that have room for what is ``asked`` now, others for each pod."""
    fit = (
        name
        for name in _some(names, pod.uid.encode())
        if name != planned and accounts[name].takes(asked) and refusal(pod, nodes[name]) is None
    )
    return tuple(islice(fit, SPARES))


def _some(names: Sequence[str], seed: bytes) -> dict[str, None]:
    """Up to `LOOKED_AT` of ``names``, the same ones for each ``seed``."""
    return {names[crc32(seed, turn) % len(names)]: None for turn in range(LOOKED_AT)} if names else {}


def unpinned(pod: Pod) -> Pod:
    """The pod as it was before it was pinned: each term without the name that was added to it last."""
    if not pod.pinned_to:
        return pod
    terms = tuple(NodeTerm(term.expressions, term.fields[:-1]) for term in pod.affinity or ())
    written = any(term.expressions or term.fields for term in terms)
    return replace(pod, affinity=terms if written else None)


def forget_displaced(gang: Gang) -> None:
    """Members that have a place, or whose gang gathers, aren't to be replaced."""
    gathering = gang.reason is None or gang.reason.code in INCOMPLETE
    for member in gang.members.values():
        if member.displaced_since < NEVER and (gathering or not pinned(member)):
            update(member, displaced_since=NEVER)


def outlived_at(gang: Gang, limits: Limits) -> float:
    """Return when the first of the pinned members is to be replaced, unless it gets a place before."""
    waiting = (one.data for one in gang.members.values() if isinstance(one.data, Waiting))
    return min((data.displaced_since for data in waiting), default=NEVER) + limits.unasked


def outlived(gang: Gang, now: float, limits: Limits) -> list[Member]:
    """The members that are to be replaced now; should that fail, again after as long a time."""
    found = [member for member in gang.members.values() if member.displaced_since + limits.unasked <= now]
    for member in found:
        update(member, displaced_since=now)
    return found


def replacing(pod: Pod) -> Evict:
    """Evict a pod that can't be had on any of the nodes that it is pinned to: another takes its place."""
    names = ", ".join(pod.confined_to)
    why = f"it was confined to {names} when it was ungated, and can't be placed there: its successor is placed anew"
    return Evict(pod, why)
