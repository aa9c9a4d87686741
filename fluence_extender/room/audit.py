"""Comparing the ledger with the cluster, object by object.

The ledger records each observation at once, so between two observations the two agree. A difference means that
something was missed or miscounted. Each function checks one object and changes nothing. Its cost depends on that object
only, so a whole audit can be cut into slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.room.holdings import Holding, Strength
from fluence_extender.room.ledger import Ledger


class DriftKind(StrEnum):
    """The kinds of differences, by their names in the metric ``fluence_drift_total``."""

    NOT_HELD = "bound-not-held"
    HELD_GONE = "held-gone"
    WRONG_NODE = "wrong-node"
    WRONG_AMOUNT = "wrong-amount"
    WRONG_STRENGTH = "wrong-claim"
    PLAN_DIFFERS = "plan-differs"
    FOREIGN_DIFFERS = "foreign-differs"
    NODE_DIFFERS = "node-differs"
    ACCOUNT_DIFFERS = "account-differs"
    MISSED_BY_WATCH = "missed-by-watch"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference: ``subject`` is the pod (``namespace/name``) or node; ``uid`` is the pod's, "" for others.

    ``found`` is what the ledger has, ``expected`` what it should have.
    """

    kind: DriftKind
    subject: str
    found: str
    expected: str
    uid: str = ""
    node: str = ""


def of_pod(ledger: Ledger, pod: Pod, place: Assignment | None) -> Iterator[Drift]:
    """Return how the ledger differs from a pod in the cluster; ``place`` is the place planned for it."""
    if not pod.ours:
        yield from _of_foreign(ledger, pod)
    elif place is not None and not pod.node and pod.uid not in ledger.holdings:
        yield _about(pod, DriftKind.PLAN_DIFFERS, "holds nothing", f"planned on {place.node}")
    elif pod.node and not pod.finished:
        held = ledger.holdings.get(pod.uid)
        if held is None:
            yield _about(pod, DriftKind.NOT_HELD, "holds nothing", f"bound to {pod.node}")
        elif held.assignment.node != pod.node:
            yield _about(pod, DriftKind.WRONG_NODE, f"held on {held.assignment.node}", f"bound to {pod.node}")
        elif held.requests != pod.requests:
            yield _about(pod, DriftKind.WRONG_AMOUNT, f"holds {held.requests}", f"asks for {pod.requests}")
        elif held.strength is not Strength.BOUND:
            yield _about(pod, DriftKind.WRONG_STRENGTH, held.strength.name.lower(), "bound")


def _of_foreign(ledger: Ledger, pod: Pod) -> Iterator[Drift]:
    node = ledger.foreign.get(pod.uid, "")
    expected = pod.node if not pod.finished else ""
    account = ledger.accounts.get(node)
    counted = account.users.get(pod.uid) if account is not None and pod.uid in account.foreign else None
    if node != expected or (node and counted != pod.requests):
        found = f"counted on {node} with {counted}" if node else "not counted"
        due = f"uses {pod.requests} on {expected}" if expected else "uses nothing"
        yield _about(pod, DriftKind.FOREIGN_DIFFERS, found, due)


def of_foreign_gone(ledger: Ledger, uid: str) -> Iterator[Drift]:
    """Return the drift of a counted foreign pod that the cluster doesn't have."""
    node = ledger.foreign.get(uid)
    if node is not None:
        yield Drift(DriftKind.FOREIGN_DIFFERS, uid, f"counted on {node}", "the pod is gone", uid, node)


def of_holding(ledger: Ledger, held: Holding, pod: Pod | None, place: Assignment | None) -> Iterator[Drift]:
    """Return how what is held differs from its pod (None when the cluster has none) and from its planned place."""
    if pod is None or pod.finished or not pod.ours:
        yield _holder(
            held, DriftKind.HELD_GONE, f"held on {held.assignment.node}", "the pod holds nothing any more"
        )
        return
    if place != held.assignment:
        expected = "no place is planned" if place is None else f"planned on {place.node}"
        yield _holder(held, DriftKind.PLAN_DIFFERS, f"held on {held.assignment.node}", expected)


def of_node(ledger: Ledger, name: str, node: Node | None) -> Iterator[Drift]:
    """Return how the ledger differs from a node of the cluster, None when the cluster has no such node."""
    account = ledger.accounts.get(name)
    known = ledger.node(name)
    if known != node or (node is not None and (account is None or account.allocatable != node.allocatable)):
        found = "unknown" if known is None or account is None else f"{account.allocatable}"
        yield _at(name, DriftKind.NODE_DIFFERS, found, "gone" if node is None else f"{node.allocatable}")
        return
    if account is None:
        return
    if (account.free, account.foreign_use) != account.sums():
        yield _at(name, DriftKind.ACCOUNT_DIFFERS, f"{account.free} free", f"{account.sums()[0]} free")


def _about(pod: Pod, kind: DriftKind, found: str, expected: str) -> Drift:
    return Drift(kind, pod.key, found, expected, pod.uid, pod.node)


def _holder(held: Holding, kind: DriftKind, found: str, expected: str) -> Drift:
    return Drift(kind, f"{held.namespace}/{held.name}", found, expected, held.uid, held.assignment.node)


def _at(node: str, kind: DriftKind, found: str, expected: str) -> Drift:
    return Drift(kind, node, found, expected, node=node)
