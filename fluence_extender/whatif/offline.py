"""What-if without a service: a cluster made of node and pod objects, from a file or from one look at the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from fluence_extender.cluster.budgets import Budget, decode_budget
from fluence_extender.cluster.decode import decode_node, decode_pod
from fluence_extender.cluster.decode_workload import decode_job
from fluence_extender.gangs.membership.assembly import agreed_size
from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.graph.catalogue import DeviceCatalogue, device_catalogue
from fluence_extender.graph.cluster_graph import build_containment
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
from fluence_extender.model.workload import Job, Workload
from fluence_extender.whatif.documents import BadManifest, Manifest
from fluence_extender.whatif.forecast import end_of
from fluence_extender.whatif.manifests import workload
from fluence_extender.whatif.preemption import Surroundings
from fluence_extender.whatif.snapshot import GraphCopy, Snapshot
from fluence_extender.whatif.standing import CopiedGangs


@dataclass(slots=True)
class Objects:
    """What a cluster consists of, as far as placement is concerned.

    ``groups`` are what says how large gangs are; ``classes`` are its PriorityClasses and ``budgets`` its
    PodDisruptionBudgets, None where they weren't given.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    jobs: dict[tuple[str, str], Job] = field(default_factory=dict)
    groups: list[Workload] = field(default_factory=list)
    classes: Sequence[Manifest] | None = None
    budgets: Sequence[Budget] | None = None

    def workloads(self) -> WorkloadIndex:
        """What says how large its gangs are."""
        index = WorkloadIndex()
        for thing in (*self.jobs.values(), *self.groups):
            index.put(thing)
        return index


class _Conditions(msgspec.Struct):
    conditions: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _Outline(msgspec.Struct):
    metadata: _Named | None = None
    status: _Conditions | None = None


_outline = msgspec.json.Decoder(_Outline).decode


def objects(seen: Iterable[tuple[str, bytes]]) -> Objects:
    """Nodes, running pods and Jobs, given as kind and JSON. Raises `BadManifest`."""
    found = Objects()
    for number, (kind, raw) in enumerate(seen):
        try:
            _take_in(found, kind, raw, number)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadManifest(f"{kind} {_named(raw) or number}: {error}") from error
    if not found.nodes:
        raise BadManifest("there is no Node among the nodes")
    return found


def _take_in(found: Objects, kind: str, raw: bytes, number: int) -> None:
    match kind:
        case "Node":
            found.nodes.append(_node(raw))
        case "Pod":
            pod = decode_pod(raw)
            found.pods.append(pod if pod.uid else replace(pod, uid=f"pod-{number}"))
        case "Job":
            job = decode_job(raw)
            found.jobs[job.namespace, job.name] = job
        case "PriorityClass":
            found.classes = [*(found.classes or ()), {**msgspec.json.decode(raw), "kind": kind}]
        case "PodDisruptionBudget":
            found.budgets = [*(found.budgets or ()), decode_budget(raw)]
        case _:
            thing = workload(kind, raw)
            if thing is not None:
                found.groups.append(thing)


def _node(raw: bytes) -> Node:
    """A node; one whose conditions were left out is taken for ready."""
    node, outline = decode_node(raw), _outline(raw)
    said = outline.status is not None and outline.status.conditions
    return node if said else replace(node, ready=True)


def _named(raw: bytes) -> str:
    try:
        outline = _outline(raw)
    except msgspec.MsgspecError:
        return ""
    return outline.metadata.name if outline.metadata is not None else ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster to ask about: what is taken there, when its pods end, and what preemption depends on."""

    taken: Snapshot
    ends: Mapping[str, float]
    around: Surroundings


def cluster(
    there: Objects, resources: VirtualResources, levels: Mapping[str, str], policy: str = "lonode"
) -> Seen:
    """The cluster as a snapshot. Raises `InvalidResourcesFile`."""
    containment = build_containment(there.nodes, resources, levels=levels)
    catalogue = device_catalogue(containment)
    accounts = {node.name: NodeAccount(node.name, node.allocatable) for node in there.nodes}
    uses: dict[str, PodUse] = {}
    ends: dict[str, float] = {}
    running = [pod for pod in there.pods if not pod.finished and pod.node in accounts]
    for pod in running:
        accounts[pod.node].add(pod.uid, pod.requests, foreign=not pod.ours, ports=pod.host_ports)
        assignment = Assignment(pod.uid, pod.node, _shares(pod, catalogue))
        uses[pod.uid] = PodUse(assignment, pod.requests, pod.host_ports)
        job = there.jobs.get((pod.namespace, pod.owner.name)) if pod.owner is not None else None
        end = end_of(pod, job)
        if end is not None:
            ends[pod.uid] = end
    gangs = _gangs(there, [pod for pod in running if pod.ours], uses)
    ranked = sorted(containment.nodes, key=lambda name: containment.vertex(containment.nodes[name]).rank)
    free = CapacityTable.of({name: NodeCapacity(one.free, one.ports) for name, one in accounts.items()})
    whole = CapacityTable.of({name: NodeCapacity(one.allocatable) for name, one in accounts.items()})
    taken = Snapshot(
        there.nodes,
        (free, whole),
        tuple(ranked if policy in LOW_FIRST else reversed(ranked)),
        GraphCopy(levels, catalogue),
        uses=uses,
        held={pod.uid: uses[pod.uid] for pod in running if pod.ours},
        gang_nodes=_gang_nodes(gangs, uses, policy),
    )
    going = frozenset(pod.uid for pod in running if pod.ours and pod.deleting)
    return Seen(taken, ends, Surroundings(gangs, going, budgets=there.budgets))


def _gangs(there: Objects, running: Iterable[Pod], uses: Mapping[str, PodUse]) -> CopiedGangs:
    """The gangs of pods that run, as their controllers and labels say."""
    index = there.workloads()
    members: dict[GangKey, list[tuple[Pod, Membership, Assignment]]] = {}
    for pod in running:
        membership = index.membership(pod)
        members.setdefault(membership.key, []).append((pod, membership, uses[pod.uid].assignment))
    found = CopiedGangs()
    for key, placed in members.items():
        size = agreed_size(key, (membership for _, membership, _ in placed))
        found.add(key, size if isinstance(size, int) else len(placed), placed)
    return found


def _gang_nodes(gangs: CopiedGangs, uses: Mapping[str, PodUse], policy: str) -> GangNodes:
    found = GangNodes(exclusive=policy.endswith("nodex"))
    for key, gang in gangs.gangs.items():
        for uid in gang.members:
            found.add(uid, uses[uid].assignment.node, key)
    return found


def _shares(pod: Pod, catalogue: DeviceCatalogue) -> tuple[DeviceShare, ...]:
    found = []
    for one in recorded_devices(pod.annotations) if pod.ours else ():
        device = catalogue.at(one.path)
        if device is not None:
            found.append(device.share(one.amount))
    return tuple(found)
