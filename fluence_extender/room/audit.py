"""Comparing the ledger with the cluster, object by object.

The ledger records each observation at once, so between two observations the two agree. A difference means that
something was missed or miscounted. Each function checks one object and changes nothing. Its cost depends on that object
only, so a whole audit can be cut into slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.ledger import Ledger

Use = tuple[object, ...]
"""What is compared of what a pod uses, () if it uses nothing."""


class DriftKind(StrEnum):
    """The kinds of differences, by their names in the metric ``fluence_drift_total``."""

    POD_DIFFERS = "pod-differs"
    NODE_DIFFERS = "node-differs"
    MISSED_BY_WATCH = "missed-by-watch"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference: ``subject`` is the pod (``namespace/name``, or its uid if it is gone) or node.

    ``found`` is what the ledger has, ``expected`` what it should have. ``uid`` is the pod's, "" for nodes.
    """

    kind: DriftKind
    subject: str
    found: str
    expected: str
    uid: str = ""


def of_pod(ledger: Ledger, uid: str, pod: Pod | None, place: Assignment | None) -> Drift | None:
    """Return how what the ledger counts for a pod differs from the pod, and from the place planned for it.

    ``pod`` is None if the cluster has no such pod. A pod that has no node yet holds its place, whatever it requests.
    """
    runs = pod is not None and bool(pod.node) and not pod.finished
    expected: Use = ()
    if pod is not None and runs:
        use = ("bound", place) if pod.ours else ("foreign",)
        expected = (pod.node, pod.requests, *use)
    elif place is not None and pod is not None and not pod.finished:
        expected = (place,)
    found = _counted(ledger, uid, runs)
    if found == expected:
        return None
    return Drift(
        DriftKind.POD_DIFFERS, pod.key if pod is not None else uid, _said(found), _said(expected), uid
    )


def _counted(ledger: Ledger, uid: str, runs: bool) -> Use:
    """Return what the ledger counts for a pod."""
    node, held = ledger.foreign.get(uid), ledger.holdings.get(uid)
    if node is not None:
        account = ledger.accounts.get(node)
        counted = account.users.get(uid) if account is not None and uid in account.foreign else None
        return (node, counted, "foreign")
    if held is None:
        return ()
    firmness = "bound" if held.firmness is Firmness.BOUND else "not bound"
    return (held.node, held.requests, firmness, held.assignment) if runs else (held.assignment,)


def _said(use: Use) -> str:
    return (
        ", ".join(_in_words(one) if isinstance(one, Assignment) else str(one) for one in use)
        or "uses nothing"
    )


def _in_words(place: Assignment) -> str:
    devices = " and ".join(f"{one.amount} {one.type} of {one.backend}" for one in place.devices)
    return f"placed on {place.node}{' with ' if devices else ''}{devices}"


def of_node(ledger: Ledger, name: str, node: Node | None) -> Drift | None:
    """Return how the ledger differs from a node of the cluster, None when the cluster has no such node."""
    account, known = ledger.accounts.get(name), ledger.node(name)
    if known != node or (node is not None and (account is None or account.allocatable != node.allocatable)):
        found = "unknown" if known is None or account is None else f"{account.allocatable}"
        return Drift(DriftKind.NODE_DIFFERS, name, found, "gone" if node is None else f"{node.allocatable}")
    if account is not None and (account.free, account.foreign_use) != (sums := account.sums()):
        return Drift(DriftKind.NODE_DIFFERS, name, f"{account.free} free", f"{sums[0]} free")
    return None
