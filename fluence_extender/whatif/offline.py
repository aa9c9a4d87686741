"""What-if without the service: a cluster made of node and pod objects, from a file or from one list of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from fluence_extender.cluster.budgets import Budget, decode_budget
from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.objects import ObjectHead
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.gangs.membership.assembly import agreed_size
from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.gangs.queue.ends import Ends
from fluence_extender.graph.cluster_graph import check_against_cluster
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.accounts import Strength
from fluence_extender.ledger.graph_matcher import MatcherSetup
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.matcher import create_matcher
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.queueing.entry import NEVER
from fluence_extender.whatif.documents import BadManifest, Manifest, read_manifests
from fluence_extender.whatif.manifests import SimulationRequest, requested_gangs, workload
from fluence_extender.whatif.preemption_preview import PreemptionContext
from fluence_extender.whatif.result_json import results_as_json
from fluence_extender.whatif.simulation import Simulation
from fluence_extender.whatif.snapshot import CopiedGangs, snapshot


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


class _Outline(msgspec.Struct):
    metadata: ObjectHead | None = None
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
    problems = check_against_cluster(resources, [node.name for node in objects.nodes], levels)
    if problems:
        raise InvalidResourcesFile(problems)
    ledger = Ledger(MatcherSetup(partial(create_matcher, "embedded"), levels=levels), policy)
    ledger.load(objects.nodes, resources)
    running = [pod for pod in objects.pods if not pod.finished and ledger.node(pod.node) is not None]
    ledger.put_foreign(*(pod for pod in running if not pod.ours))
    gangs = _gangs(objects, ledger, [pod for pod in running if pod.ours])
    known, now = Ends(objects.workloads), time.time()
    ends = {pod.uid: end for pod in running if (end := known.end(pod, now)) < NEVER}
    departing = frozenset(pod.uid for pod in running if pod.ours and pod.deleting)
    context = PreemptionContext(gangs, departing, budgets=objects.budgets)
    return Simulation(snapshot(ledger, objects.nodes, ends), request, now, ends, context)


def _gangs(objects: ClusterObjects, ledger: Ledger, running: Sequence[Pod]) -> CopiedGangs:
    """Return the gangs of running pods, recognized from their controllers and labels, and count them."""
    known = [(pod, objects.workloads.membership(pod)) for pod in running]
    held = ledger.adopt_all(((pod, membership.key) for pod, membership in known), Strength.BOUND)
    members: dict[GangKey, list[tuple[Pod, Membership, Assignment]]] = {}
    for (pod, membership), assignment in zip(known, held, strict=True):
        members.setdefault(membership.key, []).append((pod, membership, assignment))
    found = CopiedGangs()
    for key, placed in members.items():
        size = agreed_size(key, ((pod.name, membership) for pod, membership, _ in placed))
        found.add(key, size if isinstance(size, int) else len(placed), placed)
    return found


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
    return results_as_json(simulation.run(), request, simulation.now, EVERYTHING)
