"""What-if without the service: a cluster made of node and pod objects, from a file or from one list of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from fluence_extender.cluster.budgets import Budget, decode_budget
from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.gangs.membership.assembly import agreed_size
from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.gangs.queue.ends import Ends
from fluence_extender.graph.catalogue import DeviceCatalogue, device_catalogue
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.units import COARSE
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.accounts import NodeAccount
from fluence_extender.ledger.capacity import CapacityTable, NodeCapacity
from fluence_extender.ledger.closed_nodes import GangNodes
from fluence_extender.ledger.ledger import LOW_FIRST
from fluence_extender.ledger.pod_use import PodUse
from fluence_extender.model.assignment import Assignment, DeviceShare, recorded_devices
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.queueing.entry import NEVER
from fluence_extender.whatif.documents import BadManifest, Manifest, read_manifests
from fluence_extender.whatif.manifests import SimulationRequest, requested_gangs, workload
from fluence_extender.whatif.preemption_preview import PreemptionContext
from fluence_extender.whatif.result_json import results_as_json
from fluence_extender.whatif.simulation import Simulation
from fluence_extender.whatif.snapshot import CopiedGangs, GraphCopy, Snapshot


@dataclass(slots=True)
class ClusterObjects:
    """The objects of a cluster that placement depends on.

    ``workloads`` are the Jobs and other objects that describe gangs. ``classes`` are the PriorityClasses and
    ``budgets`` the PodDisruptionBudgets, None if they weren't given.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    workloads: WorkloadIndex = field(default_factory=WorkloadIndex)
    classes: Sequence[Manifest] | None = None
    budgets: Sequence[Budget] | None = None


class _Conditions(msgspec.Struct):
    conditions: list[msgspec.Raw] | None = None


class _Metadata(msgspec.Struct):
    name: str = ""


class _Outline(msgspec.Struct):
    metadata: _Metadata | None = None
    status: _Conditions | None = None


_outline = msgspec.json.Decoder(_Outline).decode


def cluster_objects(objects: Iterable[tuple[str, bytes]]) -> ClusterObjects:
    """Decode the objects of a cluster, each given as its kind and as JSON. Raise `BadManifest`."""
    found = ClusterObjects()
    for number, (kind, raw) in enumerate(objects):
        try:
            _add(found, kind, raw, number)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadManifest(f"{kind} {_name(raw) or number}: {error}") from error
    if not found.nodes:
        raise BadManifest("there is no Node among the nodes")
    return found


def _add(found: ClusterObjects, kind: str, raw: bytes, number: int) -> None:
    match kind:
        case "Node":
            found.nodes.append(_node(raw))
        case "Pod":
            pod = decode_pod(raw)
            found.pods.append(pod if pod.uid else replace(pod, uid=f"pod-{number}"))
        case "Job":
            found.workloads.put(decode_job(raw))
        case "PriorityClass":
            found.classes = [*(found.classes or ()), {**msgspec.json.decode(raw), "kind": kind}]
        case "PodDisruptionBudget":
            found.budgets = [*(found.budgets or ()), decode_budget(raw)]
        case _:
            decoded = workload(kind, raw)
            if decoded is not None:
                found.workloads.put(decoded)


def _node(raw: bytes) -> Node:
    """Decode a node; without any conditions it counts as ready. Raise `ValueError` if it can't be read in full."""
    node, outline = decode_node(raw), _outline(raw)
    if node.problem:
        raise ValueError(node.problem)
    has_conditions = outline.status is not None and outline.status.conditions
    return node if has_conditions else replace(node, ready=True)


def _name(raw: bytes) -> str:
    try:
        outline = _outline(raw)
    except msgspec.MsgspecError:
        return ""
    return outline.metadata.name if outline.metadata is not None else ""


def _simulation(
    objects: ClusterObjects,
    request: SimulationRequest,
    resources: VirtualResources,
    levels: Mapping[str, str],
    policy: str,
) -> Simulation:
    """Build the cluster of ``objects``, to simulate ``request`` on it now. Raise `InvalidResourcesFile`."""
    containment = build_containment(objects.nodes, resources, units=COARSE, levels=levels)
    catalogue = device_catalogue(containment)
    accounts = {node.name: NodeAccount(node.name, node.allocatable) for node in objects.nodes}
    uses: dict[str, PodUse] = {}
    ends: dict[str, float] = {}
    known, now = Ends(objects.workloads), time.time()
    running = [pod for pod in objects.pods if not pod.finished and pod.node in accounts]
    for pod in running:
        accounts[pod.node].add(pod.uid, pod.requests, foreign=not pod.ours, ports=pod.host_ports)
        assignment = Assignment(pod.uid, pod.node, _shares(pod, catalogue))
        uses[pod.uid] = PodUse(assignment, pod.requests, pod.host_ports)
        end = known.end(pod, now)
        if end < NEVER:
            ends[pod.uid] = end
    gangs = _gangs(objects, [pod for pod in running if pod.ours], uses)
    ranked = sorted(containment.nodes, key=lambda name: containment.vertex(containment.nodes[name]).rank)
    free = CapacityTable.of(
        {name: NodeCapacity(one.free, one.ports, one.allocatable) for name, one in accounts.items()}
    )
    whole = CapacityTable.of({name: NodeCapacity(one.allocatable) for name, one in accounts.items()})
    taken = Snapshot(
        objects.nodes,
        (free, whole),
        tuple(ranked if policy in LOW_FIRST else reversed(ranked)),
        GraphCopy(levels, catalogue),
        uses=uses,
        allocations={pod.uid: uses[pod.uid] for pod in running if pod.ours},
        gang_nodes=_gang_nodes(gangs, uses, policy),
    )
    departing = frozenset(pod.uid for pod in running if pod.ours and pod.deleting)
    context = PreemptionContext(gangs, departing, budgets=objects.budgets)
    return Simulation(taken, request, now, ends, context)


def _gangs(objects: ClusterObjects, running: Iterable[Pod], uses: Mapping[str, PodUse]) -> CopiedGangs:
    """Return the gangs of running pods, recognized from their controllers and labels."""
    members: dict[GangKey, list[tuple[Pod, Membership, Assignment]]] = {}
    for pod in running:
        membership = objects.workloads.membership(pod)
        members.setdefault(membership.key, []).append((pod, membership, uses[pod.uid].assignment))
    found = CopiedGangs()
    for key, placed in members.items():
        size = agreed_size(key, ((pod.name, membership) for pod, membership, _ in placed))
        found.add(key, size if isinstance(size, int) else len(placed), placed)
    return found


def _gang_nodes(gangs: CopiedGangs, uses: Mapping[str, PodUse], policy: str) -> GangNodes:
    found = GangNodes(exclusive=policy.endswith("nodex"))
    for key, gang in gangs.gangs.items():
        for uid in gang.members:
            found.add(uid, uses[uid].assignment.node, key)
    return found


def _shares(pod: Pod, catalogue: DeviceCatalogue) -> tuple[DeviceShare, ...]:
    """Return those devices that are recorded on a pod of ours and exist."""
    found = []
    for one in recorded_devices(pod.annotations) if pod.ours else ():
        device = catalogue.at(one.path)
        if device is not None:
            found.append(device.share(one.amount))
    return tuple(found)


def simulate_offline(
    manifests: bytes,
    objects: ClusterObjects,
    resources: str,
    levels: Mapping[str, str],
    policy: str,
    source: str = "",
) -> dict[str, Any]:
    """Return the results for ``manifests`` on the cluster of ``objects``, in the shape of ``/v1/simulate``.

    ``resources`` is the text of resources.yaml and ``source`` its name in messages. Raise `BadManifest` and
    `InvalidResourcesFile`.
    """
    request = requested_gangs(read_manifests(manifests), classes=objects.classes, cluster=objects.workloads)
    simulation = _simulation(objects, request, parse_resources(resources, source), levels, policy)
    return results_as_json(simulation.run(), request, simulation.now)
