"""The Queues and Reservations of the cluster: which queue a pod is in, and which nodes are closed.

Without any Queue, or in a cluster that doesn't serve the kind, there is one queue, `DEFAULT_QUEUE`, without limits. A
label of a workload, or of its pods, names its queue. Work that names none is in the queue that is the default for its
namespace, or in `DEFAULT_QUEUE`.

Invariant: each gang has one queue, or a reason why it has none. The reason names no queue to which the gang's namespace
may not submit.

**Reservations** of operators close nodes to gangs that start now, and rows of the timeline to gangs that start later.
The nodes of a Reservation are those that match now: a node that gets the label later is closed from then on. The closed
nodes are computed again only after a Reservation or a node has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any

import numpy as np
import structlog

from fluence_extender.cluster.port import QUEUE_KINDS, Changed, Deleted, Kind, Listed, Observation
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.hints import Hints
from fluence_extender.model.names import KUEUE_QUEUE_LABEL, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.notation import format_duration
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, no_queue
from fluence_extender.model.selectors import holds
from fluence_extender.objects.queues import (
    DEFAULT_QUEUE,
    KueueQueue,
    Namespace,
    NodeReservation,
    PriorityClass,
    Queue,
    QueuePreemption,
)
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.queueing.entry import OperatorReservation, QueuePolicy
from fluence_extender.queueing.quota import LEVELS

log = structlog.get_logger(__name__)

# Queues.

IMPLICIT = Queue(DEFAULT_QUEUE)
MOST_COMPARED = 32
"""The most queues whose names are compared with an unknown name."""

Named = tuple[str, str]
"""The queues that the labels of one object name: by our label, and by Kueue's; "" for none."""

Kept = Queue | NodeReservation | Namespace | PriorityClass
"""The objects that `Queues` keeps."""


class Queues:
    """Queues and Reservations, and the other objects that decide in which queue a pod is and how it counts there.

    ``revision`` grows with each change that may matter to any pod.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._queues: dict[str, Queue] = {}
        self._reservations: dict[str, NodeReservation] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._classes: dict[str, PriorityClass] = {}
        self._objects: dict[type, dict[str, Any]] = {
            Queue: self._queues,
            NodeReservation: self._reservations,
            Namespace: self._namespaces,
            PriorityClass: self._classes,
        }
        self._served: bool | None = None
        self._kueue_served = False
        self._hints = Hints(self._nearest_queue)

    def copy(self) -> Queues:
        """Return an independent copy."""
        copied = Queues()
        copied.revision = self.revision
        for kind, objects in self._objects.items():
            copied._objects[kind].update(objects)
        copied._served, copied._kueue_served = self._served, self._kueue_served
        return copied

    # The settings.

    @property
    def queues(self) -> Mapping[str, Queue]:
        """All queues by name; the default queue is always among them."""
        return self._queues if DEFAULT_QUEUE in self._queues else {DEFAULT_QUEUE: IMPLICIT, **self._queues}

    def find(self, name: str) -> Queue | None:
        """Return the queue of that name."""
        return self._queues.get(name, IMPLICIT if name == DEFAULT_QUEUE else None)

    @property
    def made(self) -> Mapping[str, Queue]:
        """The queues that exist as objects, by name."""
        return self._queues

    @property
    def reservations(self) -> Mapping[str, NodeReservation]:
        """The Reservations by name."""
        return self._reservations

    @cached_property
    def policy(self) -> QueuePolicy:
        """The policy of the cluster, which the default queue states."""
        scheduling, usual = self.queues[DEFAULT_QUEUE].scheduling, QueuePolicy()
        return QueuePolicy(
            scheduling.policy or usual.policy,
            scheduling.reservation_depth,
            scheduling.queue_depth,
            scheduling.starvation_after or usual.starvation_after,
        )

    # Observations.

    def observe(self, seen: Observation) -> bool:
        """Take in an observation, and return whether its kind belongs here."""
        if seen.kind not in QUEUE_KINDS:
            return False
        match seen:
            case Listed(kind, objects, served):
                self._list(kind, [one for one in objects if isinstance(one, Kept)], served)
            case Changed(thing) if isinstance(thing, Kept):
                self.put(thing)
            case Deleted(thing) if isinstance(thing, Kept):
                self.drop(thing)
        return True

    def _list(self, kind: Kind, objects: Iterable[Kept], served: bool) -> None:
        if kind is KueueQueue:
            self._change(self._kueue_served != served)
            self._kueue_served = served
            return
        if kind is Queue:
            if not served and self._served is not False:
                log.info("the cluster serves no Queues, so all work is in one queue", queue=DEFAULT_QUEUE)
            self._change(self._served is not served)
            self._served = served
        present = {one.name: one for one in objects}
        objects_of_kind = self._objects[kind]
        for gone in [one for name, one in objects_of_kind.items() if name not in present]:
            self.drop(gone)
        for observed in present.values():
            self.put(observed)

    def put(self, observed: Kept) -> None:
        """Take in an object."""
        objects = self._objects[type(observed)]
        self._change(objects.get(observed.name) != observed)
        objects[observed.name] = observed

    def drop(self, observed: Kept) -> None:
        """Forget an object."""
        self._change(self._objects[type(observed)].pop(observed.name, None) is not None)

    def _change(self, happened: bool) -> None:
        if happened:
            self.revision += 1
            self._hints.clear()
            for derived in ("_defaults", "ages", "policy", "take_back", "usual_durations"):
                self.__dict__.pop(derived, None)

    # The queue of a pod.

    def is_kueues(self, workload: Resumable) -> bool:
        """Return whether Kueue suspends and resumes the workload."""
        return self._kueue_served and isinstance(workload, Job) and workload.kueue

    def queue_of(self, members: Iterable[Pod], owner_labels: Mapping[str, str]) -> Queue | Reason:
        """Return the one queue of the members of a gang, or why they have none.

        ``owner_labels`` are the labels of their workload that name a queue. They count for all of its pods.
        """
        if self._served is False:
            return IMPLICIT
        named = _named(owner_labels)
        choices = {(pod.namespace, named if any(named) else _named(pod.labels)) for pod in members}
        queues: dict[str, Queue] = {}
        for namespace, names in sorted(choices):
            queue = self._find(namespace, *names)
            if isinstance(queue, Reason):
                return queue
            queues[queue.name] = queue
        if len(queues) > 1:
            return no_queue(f"its pods name different queues: {', '.join(sorted(queues))}")
        return next(iter(queues.values()), IMPLICIT)

    def _find(self, namespace: str, ours: str, kueue: str) -> Queue | Reason:
        # Manifests written for Kueue go on working in a cluster without Queues.
        kueue = kueue if self._queues and not self._kueue_served else ""
        if ours and kueue and ours != kueue:
            return no_queue(
                f"label {QUEUE_LABEL} names queue {ours}, and {KUEUE_QUEUE_LABEL} names queue {kueue}; "
                "both have to name the same one"
            )
        name = ours or kueue or self._default_of(namespace)
        queue, advice = self.find(name), partial(self._advice, namespace, name)
        if queue is None:
            return no_queue(f"there is no queue {name}", advice)
        if not self.admits(queue, namespace):
            return no_queue(f"namespace {namespace} may not submit to queue {name}", advice)
        return queue

    def _default_of(self, namespace: str) -> str:
        return self._defaults.get(namespace, DEFAULT_QUEUE)

    @cached_property
    def _defaults(self) -> Mapping[str, str]:
        """The oldest queue that is the default for each namespace."""
        by_age = sorted(self._queues.values(), key=lambda one: (one.created, one.name), reverse=True)
        return {namespace: queue.name for queue in by_age for namespace in queue.default_for}

    def admits(self, queue: Queue, namespace: str) -> bool:
        """Return whether a namespace may submit to a queue."""
        admitted = queue.namespaces
        if not admitted.names and not admitted.labels:
            return True
        if namespace in admitted.names or namespace in queue.default_for:
            return True
        details = self._namespaces.get(namespace)
        return (
            bool(admitted.labels)
            and details is not None
            and all(holds(one, details.labels) for one in admitted.labels)
        )

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace, none if it isn't known."""
        details = self._namespaces.get(namespace)
        return {} if details is None else details.labels

    def problems(self, queue: Queue) -> list[str]:
        """Return the problems of a queue: each names a setting that isn't in force, and says why."""
        problems = list(queue.problems)
        scheduling = queue.scheduling
        policies = {
            "policy": scheduling.policy,
            "reservationDepth": scheduling.reservation_depth,
            "queueDepth": scheduling.queue_depth,
            "starvationAfter": scheduling.starvation_after,
        }
        ignored = [name for name, value in policies.items() if value is not None]
        if queue.name != DEFAULT_QUEUE and ignored:
            names = ", ".join(ignored)
            problems.append(
                f"spec.scheduling ({names}) is ignored: all queues share the nodes, so queue {DEFAULT_QUEUE} says it"
            )
        for namespace in sorted(queue.default_for):
            other = self._default_of(namespace)
            if other != queue.name:
                problems.append(f"spec.defaultFor: {namespace} has the older queue {other}")
        most, usual = queue.max_duration, queue.default_duration
        if most is not None and usual is not None and usual > most:
            problems.append(
                f"spec.defaults.duration {format_duration(usual)} counts as maxDuration {format_duration(most)}"
            )
        if queue.parent and queue.half_life is not None:
            problems.append("spec.halfLife is ignored: the queue at the root of the tree says it")
        priority = queue.default_priority_class
        if priority and priority not in self._classes:
            problems.append(f"spec.defaults.priorityClassName: there is no PriorityClass {priority}")
        return problems

    def _advice(self, namespace: str, name: str) -> str:
        return self._hints.of(namespace, name, "kubectl fluence queue lists all queues")

    def _nearest_queue(self, namespace: str, name: str) -> str:
        """Return the end of a sentence that names the queue with the most similar name."""
        admitting = (queue.name for queue in self.queues.values() if self.admits(queue, namespace))
        # Names with the same first letter are the likeliest, and then names of a similar length.
        likely = sorted(admitting, key=lambda one: (one[:1] != name[:1], abs(len(one) - len(name)), one))
        nearest = get_close_matches(name, sorted(likely[:MOST_COMPARED]), 1, 0)
        return (
            f"the nearest that takes work of namespace {namespace} is queue {nearest[0]}" if nearest else ""
        )

    @cached_property
    def usual_durations(self) -> bool:
        """Whether any queue states a duration for work that declares none."""
        return any(usual_seconds(queue) is not None for queue in self._queues.values())

    @cached_property
    def ages(self) -> bool:
        """Whether in some queue waiting time makes up for a lower priority."""
        return any(queue.class_step is not None for queue in self._queues.values())

    @cached_property
    def take_back(self) -> bool:
        """Whether any queue states how it preempts."""
        return any(queue.preemption != QueuePreemption() for queue in self._queues.values())

    def head_start(self, queue: Queue, priority: int) -> float | None:
        """Return how many seconds of waiting a priority is worth, None if the higher priority always comes first.

        The queue states the seconds of one step, or else the nearest queue above it that does. Each PriorityClass
        between 0 and the priority is a step.
        """
        stating: Queue | None = queue
        for _ in range(LEVELS):
            if stating is None or stating.class_step is not None:
                break
            stating = self._queues.get(stating.parent)
        if stating is None or stating.class_step is None:
            return None
        values = {priority_class.value for priority_class in self._classes.values()}
        up, down = (
            sum(0 < value <= priority for value in values),
            sum(priority <= value < 0 for value in values),
        )
        return stating.class_step * (up - down)

    def priority_of(self, classes: Iterable[str], queue: Queue | Reason) -> int:
        """Return the priority of work in a queue whose pods don't exist yet and name these PriorityClasses."""
        named = [
            priority_class.value
            for priority_class in map(self._classes.get, classes)
            if priority_class is not None
        ]
        if named:
            return max(named)
        given = max(
            (priority_class.value for priority_class in self._classes.values() if priority_class.is_default),
            default=0,
        )
        usual = self.usual_priority(queue) if isinstance(queue, Queue) else None
        return given if usual is None else max(given, usual)

    def usual_priority(self, queue: Queue) -> int | None:
        """Return the priority of work without a PriorityClass in a queue, None if the queue states none."""
        named = self._classes.get(queue.default_priority_class)
        return None if named is None else named.value


def _named(labels: Mapping[str, str]) -> Named:
    return labels.get(QUEUE_LABEL, ""), labels.get(KUEUE_QUEUE_LABEL, "")


def usual_seconds(queue: Queue) -> float | None:
    """Return the seconds that work without a declared duration runs in a queue, None if the queue states none."""
    times = (queue.default_duration, queue.max_duration)
    return min((seconds for seconds in times if seconds is not None), default=None)


# Reservations.

RESERVED_AHEAD = 3600.0
"""So many seconds before a Reservation for queues starts, its nodes begin to be kept from being removed."""


class ClosedNodes:
    """The nodes that the Reservations of ``settings`` close; ``now`` gives seconds since the epoch."""

    def __init__(self, settings: Queues, eligibility: EligibilityIndex, now: Callable[[], float]) -> None:
        self._settings = settings
        self._eligibility = eligibility
        self._now = now
        self._covered: tuple[object, Mapping[str, Collection[str]]] = ((), {})

    def closing(self, queue: str, duration: float) -> tuple[str, ...]:
        """Return the names of the Reservations that close nodes to a gang of a queue that starts now."""
        reservations = self._settings.reservations
        if not reservations:
            return ()
        now, nodes = self._now(), self._nodes()
        return tuple(
            name
            for name, reservation in sorted(reservations.items())
            if reservation.start < now + duration
            and reservation.end > now
            and queue not in reservation.queues
            and nodes[name]
        )

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the nodes of the Reservations of these names."""
        nodes = self._nodes()
        return frozenset().union(*(nodes[name] for name in names))

    def kept(self) -> frozenset[str]:
        """Return the nodes that are reserved for queues now or soon, so that they shouldn't be removed."""
        now = self._now()
        return self.of(
            name
            for name, reservation in self._settings.reservations.items()
            if reservation.queues and reservation.start - RESERVED_AHEAD <= now < reservation.end
        )

    def over(self) -> int:
        """Return how many Reservations are over."""
        now = self._now()
        return sum(1 for reservation in self._settings.reservations.values() if reservation.end <= now)

    def on_rows(self, rows: Mapping[str, int]) -> Sequence[OperatorReservation]:
        """Return the Reservations that aren't over, on the rows of a timeline."""
        now = self._now()
        reservations = self._settings.reservations
        coming = [
            name
            for name, reservation in sorted(reservations.items())
            if reservation.end > now and reservation.duration > 0
        ]
        closed = self._nodes() if coming else {}
        on_rows = []
        for name in coming:
            numbers = sorted(rows[node] for node in closed[name] if node in rows)
            if numbers:
                at, one = np.array(numbers, dtype=np.intp), reservations[name]
                on_rows.append(OperatorReservation(name, at, one.start, one.end, one.queues))
        return on_rows

    def _nodes(self) -> Mapping[str, Collection[str]]:
        """Return the nodes of each Reservation, by its name."""
        basis = self._settings.revision, self._eligibility.journal.now
        if self._covered[0] != basis:
            nodes = self._eligibility.nodes.values()
            closed = {
                name: covered(reservation, nodes) for name, reservation in self._settings.reservations.items()
            }
            self._covered = basis, closed
        return self._covered[1]


def covered(reservation: NodeReservation, nodes: Iterable[Node]) -> list[str]:
    """Return the names of the ``nodes`` that a Reservation closes."""
    return [node.name for node in nodes if _covers(reservation, node)]


def _covers(reservation: NodeReservation, node: Node) -> bool:
    if not reservation.names and not reservation.labels:
        return True
    if node.name in reservation.names:
        return True
    return bool(reservation.labels) and all(holds(one, node.labels) for one in reservation.labels)
