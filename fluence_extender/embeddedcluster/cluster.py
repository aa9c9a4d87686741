"""A cluster that the process itself holds: the API server's rules on the model's values.

It keeps model values and accepts the writes of the cluster port as Kubernetes does: uids are preconditions; a pod that
is gated, bound or terminating isn't bound; a Binding merges annotations and clears the nomination; an evicted pod that
runs stays, terminating, until `reap` plays the part of its kubelet. Each change is sent to all sinks at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from msgspec import structs

from fluence_extender.apiserver.defaults import AdmissionObjects
from fluence_extender.cluster.budgets import Budget
from fluence_extender.cluster.errors import AlreadyBound, Conflict, Disrupted, Gone, PodsUnknown
from fluence_extender.cluster.port import (
    BINDS_FOR,
    WATCHED,
    Changed,
    Deleted,
    EvictionBlock,
    Kind,
    Listed,
    Observation,
    OwnPods,
    Regarding,
    ResourcesFile,
    Sink,
    Watched,
)
from fluence_extender.embeddedcluster.kept_objects import KeptObjects
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.kinds.resumable import SENT_BACK, Resumable
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.names import KEEPING, MET_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.submission import met_record
from fluence_extender.objects.devices import DeviceClass, ResourceSlice
from fluence_extender.objects.queues import (
    KueueQueue,
    Namespace,
    NodeReservation,
    PriorityClass,
    Queue,
    QueueStatus,
    ReservationStatus,
)

_parsed = lru_cache(maxsize=1)(parse_resources)

Key = tuple[str, str]
Found = TypeVar("Found", bound=Workload)
Waiting = TypeVar("Waiting", bound=Resumable)
ClusterWide = TypeVar("ClusterWide", Queue, NodeReservation)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An Event that was recorded ``count`` times."""

    regarding: Regarding
    reason: str
    message: str
    warning: bool
    count: int = 1


class EmbeddedCluster:
    """`port.Cluster` without an API server.

    ``protected`` are the uids of pods that a disruption budget protects from eviction, and ``evicted`` of those that
    were evicted. ``events`` are the Events recorded so far, ``reports`` the last report of each native PodGroup by
    namespace and name, and ``waiting`` the last message of each gated pod by uid. ``first_pods`` are the first pods of
    each shape that controllers would create, by the uid of the workload; ``bound_until`` is until when the new pods of
    a Job are bound by their creation, on the clock of the event loop. ``unserved`` are the kinds that it doesn't serve;
    `relist` tells a change. ``objects`` are what admission consults, and ``budgets`` the PodDisruptionBudgets that
    simulations know, None if they aren't known.
    """

    def __init__(self, *objects: Watched) -> None:
        self._event_counts = Counter[RecordedEvent]()
        self.reports: dict[Key, tuple[bool, str, str]] = {}
        self.waiting: dict[str, str] = {}
        self.protected: set[str] = set()
        self.evicted: set[str] = set()
        self.first_pods: dict[str, tuple[Pod, ...]] = {}
        self.bound_until: dict[str, float] = {}
        self.kept = KeptObjects()
        self.objects = AdmissionObjects()
        self.budgets: Sequence[Budget] | None = ()
        self.unserved: set[Kind] = {KueueQueue}
        self._objects: dict[Kind, dict[Key, Watched]] = {kind: {} for kind in WATCHED}
        self._sinks: list[Sink] = []
        self._version = 0
        for one in objects:
            self.put(one)

    # What other clients and kubelets do.

    def put(self, one: Watched) -> None:
        """Create or replace an object. A pod or a workload that may wait gets the next resourceVersion."""
        stored: Watched = one
        if isinstance(one, Pod | Resumable):
            self._version += 1
            version = str(self._version)
            stored = (
                replace(one, resource_version=version)
                if isinstance(one, Pod)
                else replace(one, version=version)
            )
        self._objects[type(one)][_key(one)] = stored
        self._send(Changed(stored))

    def remove(self, one: Watched) -> None:
        """Delete an object at once (a pod: with grace period 0)."""
        last = self._objects[type(one)].pop(_key(one), None)
        if last is None:
            return
        if isinstance(last, ResourcesFile):
            self._send(Changed(ResourcesFile(last.source, None)))
        else:
            self._send(Deleted(last))

    def delete(self, pod: Pod) -> None:
        """Delete a pod gracefully: a bound pod stays, terminating, until `reap`."""
        now = self.pod(pod)
        if now.node and not now.finished:
            self.put(replace(now, deleting=True))
        else:
            self.remove(now)

    def reap(self) -> None:
        """End all terminating pods, as their kubelets would."""
        for pod in self.pods():
            if pod.deleting:
                self.remove(pod)

    # Reading and watching.

    @property
    def events(self) -> list[RecordedEvent]:
        """The Events, in the order in which they were first recorded."""
        return [replace(event, count=count) for event, count in self._event_counts.items()]

    def pod(self, pod: Pod) -> Pod:
        """Return the current pod of that name and uid. Raise `Gone`."""
        now = self._objects[Pod].get(_key(pod))
        if not isinstance(now, Pod) or now.uid != pod.uid:
            raise Gone(f"pod {pod.key} (uid {pod.uid}) is gone", 404)
        return now

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        """Return the object of that kind and name, None if there is none."""
        found = self._objects[kind].get((namespace, name))
        return found if isinstance(found, kind) else None

    def job(self, job: Waiting) -> Waiting:
        """Return the current workload of that kind, name and uid. Raise `Gone`."""
        now = self.find(type(job), job.namespace, job.name)
        if now is None or now.uid != job.uid:
            raise Gone(f"{type(job).__name__} {job.namespace}/{job.name} (uid {job.uid}) is gone", 404)
        return now

    def pods(self) -> tuple[Pod, ...]:
        """Return all pods."""
        return tuple(pod for pod in self._objects[Pod].values() if isinstance(pod, Pod))

    def jobs(self) -> tuple[Job, ...]:
        """Return all Jobs."""
        return tuple(job for job in self._objects[Job].values() if isinstance(job, Job))

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes."""
        return tuple(node for node in self._objects[Node].values() if isinstance(node, Node))

    def watch(self, sink: Sink) -> None:
        """Send ``sink`` a list of each kind, then every change."""
        for kind in WATCHED:
            sink(self._list(kind))
        self._sinks.append(sink)

    def unwatch(self, sink: Sink) -> None:
        """Send ``sink`` nothing more."""
        self._sinks.remove(sink)

    @property
    def resources(self) -> VirtualResources:
        """The virtual resources."""
        file = self._objects[ResourcesFile].get(("", ""))
        text = file.text if isinstance(file, ResourcesFile) else None
        return _parsed(text or "")

    def relist(self, kind: Kind) -> None:
        """Send all sinks the list of one kind again, as after a lost watch."""
        self._send(self._list(kind))

    def _list(self, kind: Kind) -> Listed:
        objects = tuple(self._objects[kind].values())
        if kind is ResourcesFile and not objects:
            objects = (ResourcesFile("memory", None),)
        return Listed(kind, objects, served=kind not in self.unserved)

    async def own_pods(self, known: Mapping[str, str]) -> OwnPods:
        """Return the pods of this scheduler, as `reads.list_own_pods` does."""
        ours = [pod for pod in self.pods() if pod.ours]
        changed = tuple(pod for pod in ours if known.get(pod.uid) != pod.resource_version)
        return OwnPods(str(self._version), frozenset(pod.uid for pod in ours), changed)

    def _send(self, observation: Observation) -> None:
        for sink in tuple(self._sinks):
            sink(observation)

    # The writes of the port.

    async def nominate(self, pod: Pod, node: str, annotations: Mapping[str, str] = {}) -> int:
        """See `Cluster.nominate`."""
        now = await self._accept("nominate", pod)
        if now.node:
            return now.revision
        noted = {**now.annotations, **annotations}
        return self._update(now, lambda p: replace(p, nominated=node, annotations=noted))

    async def ungate(self, pod: Pod, gate: str, annotations: Mapping[str, str] = {}) -> int:
        """See `Cluster.ungate`."""
        now = await self._accept("ungate", pod)
        annotations = {**now.annotations, **(annotations if gate in now.gates else {})}
        gates = tuple(one for one in now.gates if one != gate)
        return self._update(now, lambda _: replace(now, gates=gates, annotations=annotations))

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """See `Cluster.bind`."""
        now = await self._accept("bind", pod)
        if now.node == node:
            return
        if now.node:
            raise AlreadyBound(f"pod {pod.key} is bound to {now.node}, not to {node}", now.node)
        if now.deleting or now.gates:
            why = "it is being deleted" if now.deleting else f"it has scheduling gates {', '.join(now.gates)}"
            raise Conflict(f"pod {pod.key} can't be bound: {why}", 409)
        merged = {**now.annotations, **annotations}
        self._update(now, lambda p: replace(p, node=node, nominated="", annotations=merged))

    async def evict(self, pod: Pod, reason: str) -> None:
        """See `Cluster.evict`."""
        now = await self._accept("evict", pod)
        if now.uid in self.protected:
            raise Disrupted(f"pod {pod.key}: its disruption budget allows no eviction now", 429)
        self.evicted.add(now.uid)
        self.delete(now)
        regarding = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._event_counts[RecordedEvent(regarding, "Evicted", reason, True)] += 1

    async def eviction_block(self, pods: Sequence[Pod]) -> EvictionBlock | None:
        """See `Cluster.eviction_block`."""
        await asyncio.sleep(0)
        covered = frozenset(pod.uid for pod in pods) & self.protected
        return EvictionBlock("a disruption budget allows no eviction now", covered) if covered else None

    async def report_pod(
        self, pod: Pod, message: str, asks_since: float = 0.0, met: Collection[str] = ()
    ) -> None:
        """See `Cluster.report_pod`."""
        now = self.pod(pod)
        if now.node or not (now.gates or now.direct):
            raise Conflict(f"pod {pod.key} has changed", 409)
        if self.waiting.get(pod.uid) != message or now.asks_since != asks_since:
            self.waiting[pod.uid] = message
            noted = {MET_ANNOTATION: met_record(pod.uid, met)} if met else {}
            self.put(replace(now, annotations={**now.annotations, **noted}, told=True, asks_since=asks_since))

    async def keep_node(self, node: Node, keys: Collection[str]) -> None:
        """See `Cluster.keep_node`."""
        await self._begin("keep_node", node.name)
        now = self._objects[Node].get(_key(node))
        if not isinstance(now, Node) or now.uid != node.uid:
            raise Gone(f"node {node.name} is gone", 404)
        others = [key for key in now.guards if key not in node.kept]
        guards = tuple(key for key in KEEPING if key in (*others, *keys))
        self.put(replace(now, guards=guards, kept=tuple(keys)))

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """See `Cluster.report_group`."""
        self.reports[group.namespace, group.name] = (scheduled, reason, message)

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """See `Cluster.report_members`."""
        key = group.namespace, group.name
        now = self._objects[CoschedulingGroup].get(key)
        if not isinstance(now, CoschedulingGroup) or now.uid != group.uid:
            raise Gone(f"PodGroup {group.namespace}/{group.name} is gone", 404)
        self.put(replace(now, status=status))

    async def report_queue(self, queue: Queue, status: QueueStatus) -> None:
        """See `Cluster.report_queue`."""
        now = self._cluster_wide(queue)
        self.put(structs.replace(now, status=status, stopped_since=status.stopped_since))

    async def report_reservation(self, reservation: NodeReservation, status: ReservationStatus) -> None:
        """See `Cluster.report_reservation`."""
        self.put(structs.replace(self._cluster_wide(reservation), status=status))

    async def report_job(self, job: Job, why: str) -> None:
        """See `Cluster.report_job`."""
        self.put(replace(self.job(job), unsatisfiable=why))

    async def dry_run(self, job: Resumable) -> tuple[Pod, ...]:
        """See `Cluster.dry_run`."""
        await self._begin("dry_run", f"{job.namespace}/{job.name}")
        self.job(job)
        if job.uid not in self.first_pods:
            raise PodsUnknown(f"the template of {job.namespace}/{job.name} isn't known", 400)
        return self.first_pods[job.uid]

    async def resume(
        self, job: Resumable, nodes: Sequence[str], placed_with: str = "", bound: bool = False
    ) -> None:
        """See `Cluster.resume`."""
        await self._begin("resume", f"{job.namespace}/{job.name}")
        now = self.job(job)
        self.bound_until.pop(job.uid, None)
        if bound:
            self.bound_until[job.uid] = asyncio.get_running_loop().time() + BINDS_FOR
        if now.suspended or now.nodes != tuple(nodes):
            self._demand_unchanged(job, now)
            resumed = replace(now, suspended=False, held_for_placement=False, nodes=tuple(nodes))
            self.put(replace(resumed, placed_with=placed_with))

    def binds_at_birth(self, uid: str, now: float) -> bool:
        """Return whether new pods of the Job are bound to their nodes by their creation."""
        return now < self.bound_until.get(uid, now)

    async def hold_job(self, job: Resumable, queued_since: tuple[float, int]) -> None:
        """See `Cluster.hold_job`."""
        await self._begin("hold_job", f"{job.namespace}/{job.name}")
        now = self.job(job)
        if not now.held_for_placement:
            self._demand_unchanged(job, now)
            since = queued_since[0], SENT_BACK
            self.put(replace(now, suspended=True, held_for_placement=True, queued_since=since))

    async def note_job(self, job: Resumable, met: Collection[str]) -> None:
        """See `Cluster.note_job`."""
        await self._begin("note_job", f"{job.namespace}/{job.name}")
        now = self.job(job)
        self.put(replace(now, submission=replace(now.submission, met=frozenset(met))))

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """See `Cluster.event`."""
        self._event_counts[RecordedEvent(regarding, reason, message, warning)] += 1

    def _cluster_wide(self, thing: ClusterWide) -> ClusterWide:
        """Return the current Queue or Reservation. Raise `Gone`."""
        now = self._objects[type(thing)].get(_key(thing))
        if not isinstance(now, type(thing)) or now.uid != thing.uid:
            raise Gone(f"{thing.name} is gone", 404)
        return now

    async def _accept(self, verb: str, pod: Pod) -> Pod:
        """Begin a write of ``verb``; return the current pod. Raise `Gone`."""
        await self._begin(verb, pod.key)
        return self.pod(pod)

    async def _begin(self, verb: str, key: str) -> None:
        """Begin a call of ``verb`` about the object ``key``."""
        # A call over a network always lets other tasks of the event loop run.
        await asyncio.sleep(0)

    def _demand_unchanged(self, job: Resumable, now: Resumable) -> None:
        """Raise `Conflict` if the workload isn't ``now`` as it was observed."""
        if now.version != job.version:
            raise Conflict(f"{job.namespace}/{job.name} has changed", 409)

    def _update(self, now: Pod, change: Callable[[Pod], Pod]) -> int:
        """Write a changed pod; return its resourceVersion after that."""
        changed = change(now)
        if changed != now:
            self.put(changed)
        return self.pod(now).revision


def _key(one: Watched) -> Key:
    match one:
        case (
            Node()
            | Queue()
            | NodeReservation()
            | Namespace()
            | PriorityClass()
            | ResourceSlice()
            | DeviceClass()
        ):
            return "", one.name
        case ResourcesFile():
            return "", ""
        case _:
            return one.namespace, one.name
