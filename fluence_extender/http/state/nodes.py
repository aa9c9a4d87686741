"""Nodes in the state API: what each has, what uses it, and why nothing new may be placed there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from msgspec.structs import asdict

from fluence_extender.api import nodes as v1
from fluence_extender.api.values import amounts
from fluence_extender.gangs.controller import Controller
from fluence_extender.http.state.gangs import firmness, gang_label
from fluence_extender.http.state.listings import Items, Listing, Single
from fluence_extender.model.devices import NodeDevice
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.model.taints import BLOCKING_EFFECTS
from fluence_extender.placement.eligibility import NOT_READY, UNSCHEDULABLE
from fluence_extender.placement.reasons import amount_text
from fluence_extender.room.holdings import NodeAccount
from fluence_extender.room.ledger import Ledger

GONE = "the node is gone; these pods were there"


def node_listing(controller: Controller) -> Listing[v1.Node]:
    """Return all nodes, and those that are gone while pods still use them."""

    def read() -> Items[v1.Node]:
        ledger, nodes = controller.ledger, controller.eligibility.nodes
        overcommitted = ledger.overcommitted
        keys = sorted((name,) for name in nodes.keys() | ledger.accounts.keys())
        return Items(keys, lambda key: _node(controller, key[0], overcommitted))

    return Listing(cluster_revision(controller), read)


def node_detail(controller: Controller, name: str, leading: bool) -> Single[v1.NodeDetail] | None:
    """Return one node and the pods that use it, None for a name that no node has."""
    shape = _node(controller, name, controller.ledger.overcommitted)
    if shape is None:
        return None
    account = controller.ledger.accounts.get(name)
    creator_of = cache(lambda key: controller.lifecycle.admission.creator_of(controller.registry.gangs[key]))
    users = [] if account is None else [_user(controller, creator_of, *one) for one in account.users.items()]
    users.sort(key=lambda one: (one.namespace, one.pod, one.uid))
    detail = v1.NodeDetail(**asdict(shape), pods=tuple(users), hidden=0, leading=leading)
    return Single(cluster_revision(controller), detail)


def cluster_revision(controller: Controller) -> str:
    """Return the revision of the observed cluster and of the ledger."""
    return f"{controller.revision}-{controller.registry.revision}-{controller.ledger.version}"


def why_closed(node: Node | None, ledger: Ledger, overcommitted: Collection[str]) -> tuple[str, ...]:
    """Return why a node takes no pod without tolerations now, in stable words; empty if it does."""
    if node is None:
        return (GONE,)
    why: list[str] = [f"can't be read: {node.problem}"] if node.problem else []
    if node.unschedulable:
        why.append("cordoned")
    if not node.ready:
        why.append("not ready")
    for taint in node.taints:
        if taint.effect in BLOCKING_EFFECTS and taint.key not in (UNSCHEDULABLE.key, NOT_READY.key):
            value = f"={taint.value}" if taint.value else ""
            why.append(f"taint {taint.key}{value}:{taint.effect}")
    if node.name in overcommitted:
        why.append(_deficit(ledger, node.name))
    return tuple(why)


def _deficit(ledger: Ledger, name: str) -> str:
    account = ledger.accounts.get(name)
    over = [] if account is None else [(key, -amount) for key, amount in account.free.items() if amount < 0]
    listed = " and ".join(amount_text(key, amount) for key, amount in sorted(over))
    return f"deficit: {listed} more in use than it has"


def _node(controller: Controller, name: str, overcommitted: Collection[str]) -> v1.Node | None:
    node = controller.eligibility.nodes.get(name)
    account = controller.ledger.accounts.get(name)
    if node is None and account is None:
        return None
    if account is None:
        account = NodeAccount(name, node.allocatable if node is not None else NOTHING)
    labels = {} if node is None else node.labels
    problems = why_closed(node, controller.ledger, overcommitted)
    have = NOTHING if node is None else account.allocatable
    held = account.allocatable - account.free - account.foreign_use
    free = have - held - account.foreign_use
    return v1.Node(
        name=name,
        schedulable=not problems,
        problems=problems,
        levels={
            kind: labels[label] for kind, label in controller.ledger.graph.levels.items() if labels.get(label)
        },
        allocatable=amounts(have),
        held=amounts(held),
        others=amounts(account.foreign_use),
        free={**dict.fromkeys(sorted(have), 0), **amounts(free)},
        devices={"/".join(one.id): _state(one) for one in node.devices} if node is not None else {},
    )


def _state(device: NodeDevice) -> str:
    """Return the state of a device in a word: whether it is taken, or why it can't be had."""
    if device.held:
        return "shared" if device.shareable else "held"
    return device.problem or "free"


def _user(
    controller: Controller, creator_of: Callable[[GangKey], str], uid: str, requests: Resources
) -> v1.NodeUser:
    held = controller.ledger.holdings.get(uid)
    if held is not None:
        found = controller.member(uid)
        gang = "" if found is None else gang_label(found[0].key)
        user = "" if found is None else creator_of(found[0].key)
        return v1.NodeUser(held.namespace, held.name, uid, gang, user, firmness(held), amounts(requests))
    pod = controller.pods.get(uid)
    namespace, name = ("", "") if pod is None else (pod.namespace, pod.name)
    return v1.NodeUser(namespace, name, uid, "", "", "other", amounts(requests))
