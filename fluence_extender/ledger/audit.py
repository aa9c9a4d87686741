"""Comparing the ledger with the cluster and with the matcher's graph, object by object.

The ledger records each observation at once, so between two observations the three agree. A difference means that
something was missed or miscounted. Each function checks one object and changes nothing. Its cost depends on that object
only, so a whole audit can be cut into slices.

Three things aren't drift: an allocation whose leaves are taken (it waits for capacity, and its node takes nothing
new), a device that was removed from resources.yaml while it was held, and a graph that is being rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.graph.units import request_counts
from fluence_extender.ledger.accounts import Allocation, Strength
from fluence_extender.ledger.bookings import NodeUse
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod


class DriftKind(StrEnum):
    """The kinds of differences, by their names in the metric ``fluence_drift_total``."""

    NOT_HELD = "bound-not-held"
    HELD_GONE = "held-gone"
    WRONG_NODE = "wrong-node"
    WRONG_AMOUNT = "wrong-amount"
    WRONG_STRENGTH = "wrong-claim"
    PLAN_DIFFERS = "plan-differs"
    DEVICE_NOT_BOOKED = "device-not-booked"
    JOB_MISSING = "job-missing"
    JOB_ORPHANED = "job-orphaned"
    FOREIGN_DIFFERS = "foreign-differs"
    NODE_DIFFERS = "node-differs"
    ACCOUNT_DIFFERS = "account-differs"
    NOMINATION_UNPLANNED = "nomination-unplanned"
    MISSED_BY_WATCH = "missed-by-watch"


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference: ``subject`` is the pod (``namespace/name``), node or job; ``uid`` is the pod's, "" for others.

    ``found`` is what the ledger has, ``expected`` what it should have.
    """

    kind: DriftKind
    subject: str
    found: str
    expected: str
    uid: str = ""
    node: str = ""
    job: int = 0


def of_pod(ledger: Ledger, pod: Pod, place: Assignment | None) -> Iterator[Drift]:
    """Return how the ledger differs from a pod in the cluster; ``place`` is the place planned for it."""
    if not pod.ours:
        yield from _of_foreign(ledger, pod)
    elif place is not None and not pod.node and pod.uid not in ledger.allocations:
        yield _about(pod, DriftKind.PLAN_DIFFERS, "holds nothing", f"planned on {place.node}")
    elif pod.node and not pod.finished:
        held = ledger.allocations.get(pod.uid)
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


def of_allocation(
    ledger: Ledger, held: Allocation, pod: Pod | None, place: Assignment | None
) -> Iterator[Drift]:
    """Return how an allocation differs from its pod (None when the cluster has none) and from its planned place."""
    if pod is None or pod.finished or not pod.ours:
        yield _holder(
            held, DriftKind.HELD_GONE, f"held on {held.assignment.node}", "the pod holds nothing any more"
        )
        return
    if place != held.assignment:
        expected = "no place is planned" if place is None else f"planned on {place.node}"
        yield _holder(held, DriftKind.PLAN_DIFFERS, f"held on {held.assignment.node}", expected)
        return
    if not ledger.graph.behind:
        yield from _of_job(ledger, held)
        yield from _of_devices(ledger, held)


def _of_job(ledger: Ledger, held: Allocation) -> Iterator[Drift]:
    node = held.assignment.node
    if node not in ledger.graph.matched.nodes or ledger.bookings.awaits_capacity(held):
        return
    counts = request_counts(ledger.rounded(held.requests), ledger.graph.matched.units)
    if not counts:
        return
    job = ledger.bookings.job(held.uid)
    if job is None or not ledger.bookings.matcher.holds(job, node, counts):
        yield _holder(held, DriftKind.JOB_MISSING, f"the matcher's job {job}", f"{counts} on {node}")


def _of_devices(ledger: Ledger, held: Allocation) -> Iterator[Drift]:
    if not held.assignment.devices or held.uid in ledger.bookings.short_of_devices:
        return
    matcher = ledger.bookings.matcher
    devices = (ledger.graph.catalogue.at(one.path) for one in held.assignment.devices)
    wanted = {device.path for device in devices if device is not None}
    jobs = ledger.bookings.device_jobs(held.uid)
    booked = {path for job in jobs for path in matcher.placement(job) or ()}
    if not wanted <= booked:
        lacking = ", ".join(sorted(wanted - booked))
        yield _holder(held, DriftKind.DEVICE_NOT_BOOKED, f"jobs {jobs}", f"{lacking} held")


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
    elif node is not None and not ledger.graph.behind:
        foreign = ledger.bookings.foreign
        if name not in ledger.graph.matched.nodes:
            yield _at(name, DriftKind.NODE_DIFFERS, "not in the graph", "in the graph")
        elif foreign.differs(name, NodeUse(account.allocatable, account.foreign_use)):
            expected = f"{account.foreign_use} used by foreign pods"
            yield _at(name, DriftKind.JOB_MISSING, f"the matcher's job {foreign.job(name)}", expected)


def of_jobs(ledger: Ledger) -> Iterator[Drift]:
    """Return the matcher's jobs that belong to no allocation and no foreign pod."""
    for job in sorted(ledger.bookings.matcher.jobs - ledger.bookings.owned()):
        yield Drift(
            DriftKind.JOB_ORPHANED,
            f"job {job}",
            str(ledger.bookings.matcher.placement(job)),
            "stands for nothing",
            job=job,
        )


def _about(pod: Pod, kind: DriftKind, found: str, expected: str) -> Drift:
    return Drift(kind, pod.key, found, expected, pod.uid, pod.node)


def _holder(held: Allocation, kind: DriftKind, found: str, expected: str) -> Drift:
    return Drift(kind, f"{held.namespace}/{held.name}", found, expected, held.uid, held.assignment.node)


def _at(node: str, kind: DriftKind, found: str, expected: str) -> Drift:
    return Drift(kind, node, found, expected, node=node)
