"""What-if without a service: a cluster made of node and pod objects, from a file or from one look at the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from fluence_extender.cluster.decode import decode_node, decode_pod
from fluence_extender.cluster.decode_workload import decode_job
from fluence_extender.graph.catalogue import DeviceCatalogue, device_catalogue
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.account import NodeAccount
from fluence_extender.ledger.books import LOW_FIRST
from fluence_extender.ledger.rooms import Room, Rooms
from fluence_extender.ledger.use import Use
from fluence_extender.model.node import Node
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.stamp import recorded_devices
from fluence_extender.model.workload import Job
from fluence_extender.whatif.documents import BadManifest
from fluence_extender.whatif.forecast import end_of
from fluence_extender.whatif.snapshot import GraphCopy, Snapshot


@dataclass(slots=True)
class Objects:
    """What a cluster consists of, as far as placement is concerned."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    jobs: dict[tuple[str, str], Job] = field(default_factory=dict)


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
            if kind == "Node":
                found.nodes.append(_node(raw))
            elif kind == "Pod":
                pod = decode_pod(raw)
                found.pods.append(pod if pod.uid else replace(pod, uid=f"pod-{number}"))
            elif kind == "Job":
                job = decode_job(raw)
                found.jobs[job.namespace, job.name] = job
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadManifest(f"{kind} {_named(raw) or number}: {error}") from error
    if not found.nodes:
        raise BadManifest("there is no Node among the nodes")
    return found


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


def cluster(
    there: Objects, resources: VirtualResources, levels: Mapping[str, str], policy: str = "lonode"
) -> tuple[Snapshot, dict[str, float]]:
    """The cluster as a snapshot, and when its pods end. Raises `InvalidResourcesFile`."""
    containment = build_containment(there.nodes, resources, levels=levels)
    catalogue = device_catalogue(containment)
    accounts = {node.name: NodeAccount(node.name, node.allocatable) for node in there.nodes}
    uses: dict[str, Use] = {}
    ends: dict[str, float] = {}
    for pod in there.pods:
        if pod.finished or pod.node not in accounts:
            continue
        accounts[pod.node].add(pod.uid, pod.requests, foreign=not pod.ours, ports=pod.host_ports)
        assignment = Assignment(pod.uid, pod.node, _shares(pod, catalogue))
        uses[pod.uid] = Use(assignment, pod.requests, pod.host_ports)
        job = there.jobs.get((pod.namespace, pod.owner.name)) if pod.owner is not None else None
        end = end_of(pod, job)
        if end is not None:
            ends[pod.uid] = end
    ranked = sorted(containment.nodes, key=lambda name: containment.vertex(containment.nodes[name]).rank)
    free = Rooms.of({name: Room(one.free, one.ports) for name, one in accounts.items()})
    whole = Rooms.of({name: Room(one.allocatable) for name, one in accounts.items()})
    taken = Snapshot(
        there.nodes,
        (free, whole),
        tuple(ranked if policy in LOW_FIRST else reversed(ranked)),
        GraphCopy(levels, catalogue),
        uses=uses,
    )
    return taken, ends


def _shares(pod: Pod, catalogue: DeviceCatalogue) -> tuple[DeviceShare, ...]:
    found = []
    for one in recorded_devices(pod.annotations) if pod.ours else ():
        device = catalogue.at(one.path)
        if device is not None:
            found.append(device.share(one.amount))
    return tuple(found)
