"""An API server in memory, for tests: the same port, the same rules, no network.

It keeps model values and answers writes as Kubernetes does: uids are preconditions, a pod that is gated, bound or being
deleted isn't bound, a Binding merges annotations and clears the nomination, an evicted pod that runs stays until `reap`
plays its kubelet. Each change is told to the sinks at once, or queued while ``held``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fluence_extender.cluster.errors import AlreadyBound, ClusterError, Conflict, Disrupted, Gone
from fluence_extender.cluster.port import (
    WORKLOADS,
    Changed,
    Deleted,
    EvictionBlock,
    Kind,
    Listed,
    Observation,
    OwnPods,
    Pin,
    Regarding,
    ResourcesFile,
    Sink,
    Watched,
)
from fluence_extender.model.names import PINNED_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup

KINDS: dict[type, Kind] = {
    Node: Kind.NODE,
    Pod: Kind.POD,
    ResourcesFile: Kind.RESOURCES_FILE,
    **{workload: kind for kind, workload in WORKLOADS.items()},
}
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """An Event that was recorded, ``count`` times."""

    regarding: Regarding
    reason: str
    message: str
    warning: bool
    count: int = 1


class MemoryCluster:
    """`Cluster` without a cluster.

    ``fail(verb, error)`` makes the next call of that verb raise; ``delays[verb]`` are seconds it takes; pods whose uid
    is in ``protected`` can't be evicted; ``calls`` lists (verb, pod key) of all writes, refused ones too.
    """

    def __init__(self, *objects: Watched) -> None:
        self.events: list[Recorded] = []
        self.calls: list[tuple[str, str]] = []
        self.reports: dict[Key, tuple[bool, str, str]] = {}
        self.waiting: dict[str, str] = {}
        self.delays: dict[str, float] = {}
        self.protected: set[str] = set()
        self.held = False
        self._objects: dict[Kind, dict[Key, Watched]] = {kind: {} for kind in Kind}
        self._failures: dict[str, deque[Exception]] = {}
        self._sinks: list[Sink] = []
        self._queue: deque[Observation] = deque()
        self._version = 0
        for one in objects:
            self.put(one)

    # What a test does to the cluster.

    def put(self, one: Watched) -> None:
        """Create or replace an object, as another client would; what is stored (pods get a resourceVersion)."""
        stored: Watched = one
        if isinstance(one, Pod):
            self._version += 1
            stored = replace(one, resource_version=str(self._version))
        kind = KINDS[type(one)]
        self._objects[kind][_key(one)] = stored
        self._tell(Changed(kind, stored))

    def remove(self, one: Watched) -> None:
        """Delete an object at once (a pod: with grace period 0)."""
        kind = KINDS[type(one)]
        last = self._objects[kind].pop(_key(one), None)
        if last is None:
            return
        if isinstance(last, ResourcesFile):
            self._tell(Changed(kind, ResourcesFile(last.source, None)))
        else:
            self._tell(Deleted(kind, last))

    def delete(self, pod: Pod) -> None:
        """Delete a pod gracefully: one that is bound stays, being deleted, until `reap`."""
        now = self.pod(pod)
        if now.node and not now.finished:
            self.put(replace(now, deleting=True))
        else:
            self.remove(now)

    def reap(self) -> None:
        """End all pods that are being deleted, as their kubelets would."""
        for pod in self.pods():
            if pod.deleting:
                self.remove(pod)

    def pod(self, pod: Pod) -> Pod:
        """The pod of that name and uid as it is now. Raises `Gone`."""
        now = self._objects[Kind.POD].get(_key(pod))
        if not isinstance(now, Pod) or now.uid != pod.uid:
            raise Gone(f"pod {pod.key} (uid {pod.uid}) is gone", 404)
        return now

    def pods(self) -> tuple[Pod, ...]:
        """All pods."""
        return tuple(pod for pod in self._objects[Kind.POD].values() if isinstance(pod, Pod))

    def nodes(self) -> tuple[Node, ...]:
        """All nodes."""
        return tuple(node for node in self._objects[Kind.NODE].values() if isinstance(node, Node))

    # Watching.

    def watch(self, sink: Sink) -> None:
        """Tell ``sink`` a list of each kind, then every change."""
        for kind in Kind:
            sink(self._list(kind))
        self._sinks.append(sink)

    def relist(self, kind: Kind) -> None:
        """Tell all sinks the whole truth of one kind once more, as after a lost watch."""
        self._tell(self._list(kind))

    def deliver(self, count: int | None = None) -> None:
        """Hand out the oldest ``count`` (all) of what was queued while ``held``."""
        left = len(self._queue) if count is None else count
        while left > 0 and self._queue:
            observation = self._queue.popleft()
            left -= 1
            for sink in self._sinks:
                sink(observation)

    def _list(self, kind: Kind) -> Listed:
        objects = tuple(self._objects[kind].values())
        if kind is Kind.RESOURCES_FILE and not objects:
            objects = (ResourcesFile("memory", None),)
        return Listed(kind, objects)

    async def own_pods(self, known: Mapping[str, str]) -> OwnPods:
        """See `look.look_at_ours`."""
        ours = [pod for pod in self.pods() if pod.ours]
        changed = tuple(pod for pod in ours if known.get(pod.uid) != pod.resource_version)
        return OwnPods(str(self._version), frozenset(pod.uid for pod in ours), changed)

    def _tell(self, observation: Observation) -> None:
        self._queue.append(observation)
        if not self.held:
            self.deliver()

    # The port.

    def fail(self, verb: str, error: Exception | None = None, times: int = 1) -> None:
        """Make the next ``times`` calls of ``verb`` raise ``error`` (default: no answer from the API server)."""
        errors = [error or ClusterError(f"{verb}: no answer")] * times
        self._failures.setdefault(verb, deque()).extend(errors)

    async def nominate(self, pod: Pod, node: str) -> None:
        """See `Cluster.nominate`."""
        now = await self._called("nominate", pod)
        if not now.node:
            self._update(now, lambda p: replace(p, nominated=node))

    async def ungate(self, pod: Pod, gate: str, pin: Pin | None = None) -> None:
        """See `Cluster.ungate`. The affinity of a pod without gates, and what its user wrote, can't be changed."""
        now = await self._called("ungate", pod)
        ungated = replace(now, gates=tuple(one for one in now.gates if one != gate))
        if pin is not None and now.affinity != pin.affinity:
            if not now.gates or not _tightens(pin.affinity, now.affinity):
                raise ClusterError(
                    f"pod {pod.key} can't be pinned to {pin.node}: that changes its affinity", 422
                )
            notes = {**now.annotations, PINNED_ANNOTATION: pin.node}
            ungated = replace(ungated, affinity=pin.affinity, annotations=notes)
        self._update(now, lambda _: ungated)

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """See `Cluster.bind`."""
        now = await self._called("bind", pod)
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
        now = await self._called("evict", pod)
        if now.uid in self.protected:
            raise Disrupted(f"pod {pod.key}: its disruption budget allows no eviction now", 429)
        self.delete(now)
        regarding = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._record(Recorded(regarding, "Evicted", reason, True))

    async def eviction_block(self, pods: Sequence[Pod]) -> EvictionBlock | None:
        """See `Cluster.eviction_block`."""
        await asyncio.sleep(self.delays.get("eviction_block", 0.0))
        covered = frozenset(pod.uid for pod in pods) & self.protected
        return EvictionBlock("a disruption budget allows no eviction now", covered) if covered else None

    async def report_pod(self, pod: Pod, message: str) -> None:
        """See `Cluster.report_pod`; the newest message of each pod is kept in ``waiting``, by its uid."""
        now = self.pod(pod)
        if now.node or not now.gates:
            raise Conflict(f"pod {pod.key} has changed", 409)
        self.waiting[pod.uid] = message

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """See `Cluster.report_group`; the newest report of each group is kept in ``reports``."""
        self.reports[group.namespace, group.name] = (scheduled, reason, message)

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """See `Cluster.report_members`."""
        key = group.namespace, group.name
        now = self._objects[Kind.COSCHEDULING_GROUP].get(key)
        if not isinstance(now, CoschedulingGroup) or now.uid != group.uid:
            raise Gone(f"PodGroup {group.namespace}/{group.name} is gone", 404)
        self.put(replace(now, status=status))

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """See `Cluster.event`."""
        self._record(Recorded(regarding, reason, message, warning))

    def _record(self, event: Recorded) -> None:
        for place, known in enumerate(self.events):
            if replace(known, count=1) == event:
                self.events[place] = replace(known, count=known.count + 1)
                return
        self.events.append(event)

    async def _called(self, verb: str, pod: Pod) -> Pod:
        self.calls.append((verb, pod.key))
        await asyncio.sleep(self.delays.get(verb, 0.0))
        failures = self._failures.get(verb)
        if failures:
            raise failures.popleft()
        return self.pod(pod)

    def _update(self, now: Pod, change: Callable[[Pod], Pod]) -> None:
        changed = change(now)
        if changed != now:
            self.put(changed)


def _tightens(terms: tuple[NodeTerm, ...], before: tuple[NodeTerm, ...] | None) -> bool:
    """Whether each term says what it said before and perhaps more; where there was none any will do."""
    return before is None or (
        len(terms) == len(before)
        and all(
            set(old.expressions) <= set(new.expressions) and set(old.fields) <= set(new.fields)
            for new, old in zip(terms, before, strict=True)
        )
    )


def _key(one: Watched) -> Key:
    match one:
        case Node():
            return "", one.name
        case ResourcesFile():
            return "", ""
        case _:
            return one.namespace, one.name
