"""Steering in the write that ungates: the pod is confined to its planned node, and to a few spare ones.

This saves one write compared with a nomination and an ungating. But a required node affinity can only be tightened, and
once the gates are gone it can't be changed at all. So a pod is pinned only if its plan is unlikely to fail except by a
change of a node, and if its controller replaces the pod. A pod whose pin blocks its gang (module `displacement`) is
evicted after a while. Its successor has our gate again and is planned anew. Rules of the API server (Kubernetes 1.36,
pkg/apis/core/validation): a field selector names one node; terms that a user wrote may be extended, but no term added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import refusal

SPARES = 3
"""The number of spare nodes. With them a cordon or a foreign pod moves the pod instead of ending it."""

EXAMINED = 16
"""The most nodes that are tried as spare ones; on a full cluster none may fit."""


def may_be_pinned(pod: Pod) -> bool:
    """Return whether a pod that is to be ungated may be confined to its node by the same write."""
    replaced = pod.owner is not None and pod.owner.kind != "DaemonSet"
    loose = not pod.interdependent and not pod.host_ports and not pod.devices
    return GATE in pod.gates and replaced and loose and not pod.nominated and not pod.confined_to


def pinned(member: Member) -> bool:
    """Return whether a member without a node is confined to nodes for good."""
    return member.pending and not member.pod.foreseen and bool(member.pod.pinned_to)


def pinning(pod: Pod, node: str, spares: Collection[str]) -> tuple[NodeTerm, ...]:
    """Return the node affinity that confines ``pod`` to ``node``, or to a spare one if its user wrote no affinity."""
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
    request: Resources,
) -> tuple[str, ...]:
    """Return a few of ``names`` beside ``planned`` that have room for ``request`` now; they vary from pod to pod."""
    fit = (
        name
        for name in _sample(names, pod.uid.encode())
        if name != planned and accounts[name].takes(request) and refusal(pod, nodes[name]) is None
    )
    return tuple(islice(fit, SPARES))


def _sample(names: Sequence[str], seed: bytes) -> Iterator[str]:
    """Yield up to `EXAMINED` of ``names``, each once, the same ones for the same ``seed``."""
    examined: set[str] = set()
    for turn in range(EXAMINED if names else 0):
        name = names[crc32(seed, turn) % len(names)]
        if name not in examined:
            examined.add(name)
            yield name


def unpinned(pod: Pod) -> Pod:
    """Return the pod as it was before it was pinned: each term without the node name that was added last."""
    if not pod.pinned_to:
        return pod
    terms = tuple(NodeTerm(term.expressions, term.fields[:-1]) for term in pod.affinity or ())
    written = any(term.expressions or term.fields for term in terms)
    return replace(pod, affinity=terms if written else None)


def forget_displaced(gang: Gang) -> None:
    """Stop counting members of a gang that isn't whole as displaced, so that they aren't replaced."""
    gathering = gang.reason is None or gang.reason.incomplete
    for member in gang.members.values():
        if member.displaced_since < NEVER and (gathering or not pinned(member)):
            update(member, displaced_since=NEVER)


def outlived_at(gang: Gang, limits: Limits) -> float:
    """Return when the first of the pinned members is to be replaced, unless it gets a place before."""
    waiting = (one.data for one in gang.members.values() if isinstance(one.data, Waiting))
    return min((data.displaced_since for data in waiting), default=NEVER) + limits.unasked


def outlived(gang: Gang, now: float, limits: Limits) -> list[Member]:
    """Return the members to replace now. If a replacement fails, it is due again after the same time."""
    found = [member for member in gang.members.values() if member.displaced_since + limits.unasked <= now]
    for member in found:
        update(member, displaced_since=now)
    return found


def replacing(pod: Pod) -> Evict:
    """Return the eviction of a pod that fits none of the nodes it is pinned to; a successor takes its place."""
    names = ", ".join(pod.confined_to)
    why = f"it was confined to {names} when it was ungated, and can't be placed there: its successor is placed anew"
    return Evict(pod, why)
