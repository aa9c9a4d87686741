"""A cluster in virtual time that does at once what the placement core decides.

A pod runs from the moment at which it gets its place until a test ends it, so a start is exactly as late as the queue
makes it. Everything else is the product: gangs of pods go in, and the order, the timeline, the reservations and the
planner say which of them start where.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fluence_extender.cluster.port import Changed, Deleted, Listed, ResourcesFile
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.gangs.execution.actions import Evict, Steer
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.reservations import Blocked
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, NODE_NAME, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod, Requirement
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import (
    DEFAULT_QUEUE,
    NodeReservation,
    PolicyName,
    Queue,
    SchedulingOptions,
)
from fluence_extender.queueing.entry import NEVER
from tests.core.engine import EMBEDDED

EPOCH = 1_000_000.0
"""Time 0, in seconds since the epoch."""

UNIT = 1000
"""A unit of the first resource in millicores."""

OTHERS = ("nvidia.com/gpu", "example.com/fpga")
"""Further resources."""

MANY_PODS = 10_000

Amount = Sequence[int] | int
"""How much of each resource, or of the first one."""

Taken = Mapping[str, Amount]
"""What is taken, by node."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What one pod asks for, and of which nodes; () for any."""

    size: Amount
    nodes: tuple[str, ...] = ()
    devices: tuple[tuple[str, int], ...] = ()


def amounts(size: Amount) -> Resources:
    """Return resources, of which a pod takes one pod slot."""
    first, *rest = (size,) if isinstance(size, int) else size
    return Resources({"cpu": UNIT * first, "pods": 1, **dict(zip(OTHERS, rest, strict=False))})


def machine(*sizes: Amount) -> tuple[Node, ...]:
    """Return nodes n0, n1, … that have so much each."""
    return tuple(
        Node(f"n{number}", allocatable=Resources({**amounts(one), "pods": MANY_PODS}))
        for number, one in enumerate(sizes)
    )


def rules(
    policy: PolicyName | None = None,
    depth: int | None = None,
    queue_depth: int | None = None,
    starvation_after: float | None = None,
) -> Queue:
    """Return the queue that says how the cluster is scheduled."""
    return Queue(
        DEFAULT_QUEUE, scheduling=SchedulingOptions(policy, depth, queue_depth, starvation_after), uid="d"
    )


def closed(*nodes: str, start: float, end: float, queues: Sequence[str] = ()) -> NodeReservation:
    """Return a Reservation that closes nodes from one time to another."""
    return NodeReservation(
        "maintenance", EPOCH + start, end - start, frozenset(nodes), queues=frozenset(queues), uid="m"
    )


class Cluster:
    """A controller on a virtual clock. ``pods`` are the pods of each gang, by its name."""

    def __init__(
        self,
        nodes: Iterable[Node],
        *objects: Queue | NodeReservation,
        resources: str | None = None,
        pods: Mapping[str, Sequence[Pod]] | None = None,
        now: float = 0.0,
        since: int = 1,
    ) -> None:
        self.now = now
        self.nodes = {node.name: node for node in nodes}
        self.objects = objects
        self.resources = resources
        self.pods = {name: list(some) for name, some in (pods or {}).items()}
        self._versions = itertools.count(since)
        self.controller = Controller(
            EMBEDDED.ledger(),
            Limits(completion=None, assembly=None),
            clock=lambda: self.now,
            calendar=lambda: EPOCH + self.now,
            ports=Ports(read_resources=lambda file: parse_resources(file.text or "")),
        )
        see = self.controller.observe
        if self.resources is not None:
            see(Changed(ResourcesFile("test", self.resources)))
        see(Listed(Node, tuple(self.nodes.values())))
        see(Listed(Queue, tuple(one for one in self.objects if isinstance(one, Queue))))
        reservations = tuple(one for one in self.objects if isinstance(one, NodeReservation))
        see(Listed(NodeReservation, reservations))
        see(Listed(Pod, tuple(pod for pods in self.pods.values() for pod in pods)))
        self.controller.start()

    def restarted(self) -> Cluster:
        """Return the same cluster with a core that knows nothing but what the API server has."""
        since = next(self._versions)
        return Cluster(
            self.nodes.values(),
            *self.objects,
            resources=self.resources,
            pods=self.pods,
            now=self.now,
            since=since,
        )

    # What happens.

    def submit(
        self,
        name: str,
        count: int = 1,
        size: Amount = 1,
        duration: float = 100.0,
        *,
        priority: int = 0,
        nodes: Sequence[str] = (),
        queue: str = "",
        created: float | None = None,
    ) -> None:
        """Let a gang of equal pods wait; it may use all nodes, or only some."""
        slots = [Slot(size, tuple(nodes))] * count
        self.submit_slots(name, slots, duration, priority=priority, queue=queue, created=created)

    def submit_slots(
        self,
        name: str,
        slots: Sequence[Slot],
        duration: float = 100.0,
        *,
        priority: int = 0,
        queue: str = "",
        created: float | None = None,
    ) -> None:
        """Let a gang wait that has one pod for each slot."""
        self.withdraw(name)
        labels = {GROUP_LABEL: name, **({QUEUE_LABEL: queue} if queue else {})}
        said = {GROUP_SIZE_ANNOTATION: str(len(slots))}
        self.pods[name] = []
        for number, slot in enumerate(slots):
            version = next(self._versions)
            pod = Pod(
                "default",
                f"{name}-{number}",
                f"{name}-{number}-{version}",
                labels,
                said,
                gates=(GATE,),
                requests=amounts(slot.size),
                devices=dict(slot.devices),
                affinity=_confined(slot.nodes),
                priority=priority,
                preempts=False,
                created=EPOCH + (self.now if created is None else created),
                duration=None if duration == NEVER else duration,
                resource_version=str(version),
            )
            self._put(name, pod)

    def run(self, name: str, taken: Taken, end: float = NEVER, foreign: bool = False) -> None:
        """Let something run that has places, and is to end at some time; or let it declare another end."""
        if name in self.pods:
            for pod in list(self.pods[name]):
                self._put(name, replace(pod, duration=_until(end, pod.started - EPOCH)))
            return
        self.pods[name] = []
        for node, size in taken.items():
            version = next(self._versions)
            pod = Pod(
                "default",
                f"{name}-{node}",
                f"{name}-{node}-{version}",
                {GROUP_LABEL: name},
                {GROUP_SIZE_ANNOTATION: str(len(taken))},
                node=node,
                requests=amounts(size),
                created=EPOCH + self.now,
                started=EPOCH + self.now,
                phase="Running",
                duration=_until(end, self.now),
                resource_version=str(version),
            )
            self._put(name, replace(pod, scheduler="default-scheduler") if foreign else pod)

    def end(self, name: str) -> None:
        """Let a gang end: its pods succeed, and are removed."""
        for pod in self.pods[name]:
            self.controller.observe(Changed(replace(pod, phase="Succeeded")))
        self.withdraw(name)

    def withdraw(self, name: str) -> None:
        """Remove a gang if there is one of that name."""
        for pod in self.pods.pop(name, ()):
            self.controller.observe(Deleted(pod))

    def put_node(self, node: Node) -> None:
        """Let a node be as it is given."""
        self.nodes[node.name] = node
        self.controller.observe(Changed(node))

    def drop_node(self, name: str) -> None:
        """Remove a node, with the pods on it."""
        for gang in [name for name, pods in self.pods.items() if any(pod.node == name for pod in pods)]:
            self.withdraw(gang)
        self.controller.observe(Deleted(self.nodes.pop(name)))

    def configure(self, *objects: Queue | NodeReservation) -> None:
        """Replace all Queues and Reservations."""
        self.objects = objects
        queues = tuple(one for one in objects if isinstance(one, Queue))
        self.controller.observe(Listed(Queue, queues))
        reservations = tuple(one for one in objects if isinstance(one, NodeReservation))
        self.controller.observe(Listed(NodeReservation, reservations))

    def _put(self, gang: str, pod: Pod) -> None:
        pods = self.pods[gang]
        at = next((number for number, one in enumerate(pods) if one.uid == pod.uid), None)
        if at is None:
            pods.append(pod)
        else:
            pods[at] = pod
        self.controller.observe(Changed(pod))

    # Decisions.

    def decide(self, now: float) -> list[str]:
        """Let it be ``now``, do all that the core decides, and return the gangs that start, in order."""
        self.now = now
        started: dict[str, None] = {}
        while True:
            actions = self.controller.step()
            for action in actions:
                assert not isinstance(action, Evict), action
            steered = [one for one in actions if isinstance(one, Steer)]
            for one in steered:
                name = one.pod.labels[GROUP_LABEL]
                started[name] = None
                self._put(
                    name,
                    replace(one.pod, gates=(), node=one.node, started=EPOCH + now, phase="Running"),
                )
            if not steered and not self.controller.lifecycle.restless:
                return list(started)

    # Looking.

    def gang(self, name: str) -> Gang:
        """Return the gang of that name."""
        (found,) = self.controller.registry.named("default", name)
        return found

    def nodes_of(self, name: str) -> list[str]:
        """Return the nodes of a gang's pods, "" for those that wait."""
        return [pod.node for pod in self.pods[name]]

    @property
    def waiting(self) -> list[str]:
        """The gangs that wait, in their order."""
        return [one.gang.name for one in self.controller.queue.line()]

    @property
    def promises(self) -> dict[str, Blocked]:
        """The blocked gangs for which something is reserved, by name and in their order."""
        blocked = self.controller.queue.blocked
        return {one.key.name: one for one in blocked if one.reservation is not None}

    def promised(self) -> dict[str, float]:
        """Return the promised starts."""
        return {
            name: one.reservation.start - EPOCH
            for name, one in self.promises.items()
            if one.reservation is not None
        }

    def reserved(self, name: str) -> list[str]:
        """Return the nodes that are reserved for a gang."""
        found = self.controller.queue.reservations()
        return next(list(one.nodes) for one in found if one.gang.name == name)

    def delays(self, name: str) -> int:
        """Return how often a gang was told that it starts later."""
        entries = self.gang(name).history.entries
        return sum(one.count for one in entries if one.kind is HistoryKind.DELAYED)


def _until(end: float, now: float) -> float | None:
    return None if end == NEVER else end - now


def _confined(nodes: Sequence[str]) -> tuple[NodeTerm, ...] | None:
    if not nodes:
        return None
    return (NodeTerm(fields=(Requirement(NODE_NAME, "In", tuple(nodes)),)),)
