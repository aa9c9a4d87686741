"""Nodes: what each has, who uses it, and why nothing new may land there."""

from __future__ import annotations

from collections.abc import Collection

from fluence_extender.gangs.controller import Controller
from fluence_extender.http.state.amounts import amounts
from fluence_extender.http.state.gangs import gang_name
from fluence_extender.http.state.state import Items, Listing, NodeStory, NodeView, UserView
from fluence_extender.ledger.accounts import NodeAccount
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.node import Node
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.placement.eligibility import BLOCKING_EFFECTS, NOT_READY, UNSCHEDULABLE
from fluence_extender.placement.explain import amount_text

GONE = "the node is gone; these pods were there"


def node_listing(controller: Controller) -> Listing[NodeView]:
    """All nodes, and those that have gone with pods on them."""

    def read() -> Items[NodeView]:
        ledger, nodes = controller.ledger, controller.eligibility.nodes
        strained = ledger.overcommitted
        keys = sorted((name,) for name in nodes.keys() | ledger.accounts.keys())
        return Items(keys, lambda key: _node_view(controller, key[0], strained))

    return Listing(cluster_revision(controller), read)


def node_story(controller: Controller, name: str) -> NodeStory | None:
    """One node and the pods that use it; None for a name that no node has."""
    view = _node_view(controller, name, controller.ledger.overcommitted)
    if view is None:
        return None
    account = controller.ledger.accounts.get(name)
    users = [] if account is None else [_user(controller, *one) for one in account.users.items()]
    users.sort(key=lambda one: (one.namespace, one.pod, one.uid))
    return NodeStory(view, tuple(users), cluster_revision(controller))


def cluster_revision(controller: Controller) -> str:
    """The revision of what is seen of the cluster and held of it."""
    return f"{controller.revision}-{controller.registry.revision}-{controller.ledger.version}"


def why_closed(node: Node | None, ledger: Ledger, strained: Collection[str]) -> tuple[str, ...]:
    """Why a node takes no pod without tolerations now, in stable words; empty when it does."""
    if node is None:
        return (GONE,)
    why: list[str] = []
    if node.unschedulable:
        why.append("cordoned")
    if not node.ready:
        why.append("not ready")
    for taint in node.taints:
        if taint.effect in BLOCKING_EFFECTS and taint.key not in (UNSCHEDULABLE.key, NOT_READY.key):
            value = f"={taint.value}" if taint.value else ""
            why.append(f"taint {taint.key}{value}:{taint.effect}")
    if node.name in strained:
        why.append(_strain(ledger, node.name))
    return tuple(why)


def _strain(ledger: Ledger, name: str) -> str:
    account = ledger.accounts.get(name)
    over = [] if account is None else [(key, -amount) for key, amount in account.free.items() if amount < 0]
    if over:
        listed = " and ".join(amount_text(key, amount) for key, amount in sorted(over))
        return f"deficit: {listed} more in use than it has"
    return "deficit: what is in use there could not be booked in full"


def _node_view(controller: Controller, name: str, strained: Collection[str]) -> NodeView | None:
    node = controller.eligibility.nodes.get(name)
    account = controller.ledger.accounts.get(name)
    if node is None and account is None:
        return None
    if account is None:
        account = NodeAccount(name, node.allocatable if node is not None else NOTHING)
    containment = controller.ledger.graph.shown
    labels = {} if node is None else node.labels
    levels = {kind: labels[label] for kind, label in containment.levels.items() if labels.get(label)}
    problems = why_closed(node, controller.ledger, strained)
    have = NOTHING if node is None else account.allocatable
    held = account.allocatable - account.free - account.foreign_use
    free = have - held - account.foreign_use
    return NodeView(
        name,
        not problems,
        problems,
        levels,
        amounts(have),
        amounts(held),
        amounts(account.foreign_use),
        _every(free, have),
    )


def _every(free: Resources, have: Resources) -> dict[str, float]:
    """What is free of everything the node has, zeros included."""
    return {**dict.fromkeys(sorted(have), 0), **amounts(free)}


def _user(controller: Controller, uid: str, requests: Resources) -> UserView:
    held = controller.ledger.allocations.get(uid)
    if held is not None:
        claim = held.strength.name.lower()
        return UserView(held.namespace, held.name, uid, gang_name(controller, uid), claim, amounts(requests))
    pod = controller.pod(uid)
    namespace, name = ("", "") if pod is None else (pod.namespace, pod.name)
    return UserView(namespace, name, uid, "", "other", amounts(requests))
