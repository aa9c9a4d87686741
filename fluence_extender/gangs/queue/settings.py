"""The Queues and Reservations of the cluster, and which queue a pod is in.

Without any Queue, or in a cluster that doesn't serve the kind, there is one queue, `DEFAULT_QUEUE`, without limits. A
label of a workload, or of its pods, names its queue. Work that names none is in the queue that is the default for its
namespace, or in `DEFAULT_QUEUE`.

Invariant: each gang has one queue, or a reason why it has none. The reason names no queue to which the gang's namespace
may not submit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any

import structlog

from fluence_extender.cluster.port import QUEUE_KINDS, Changed, Deleted, Kind, Listed, Observation
from fluence_extender.model.hints import Hints
from fluence_extender.model.names import KUEUE_QUEUE_LABEL, QUEUE_LABEL
from fluence_extender.model.notation import format_duration
from fluence_extender.model.pod import Pod
from fluence_extender.model.queue import (
    DEFAULT_QUEUE,
    Namespace,
    NodeReservation,
    PriorityClass,
    Queue,
    QueuePreemption,
)
from fluence_extender.model.reason import Reason, no_queue
from fluence_extender.model.selectors import holds
from fluence_extender.model.workload import Job, Resumable
from fluence_extender.queueing.policy import QueuePolicy
from fluence_extender.queueing.tree import LEVELS

log = structlog.get_logger(__name__)

IMPLICIT = Queue(DEFAULT_QUEUE)
MOST_COMPARED = 32
"""The most queues whose names are compared with an unknown name."""

Named = tuple[str, str]
"""The queues that the labels of one object name: by our label, and by Kueue's; "" for none."""

Kept = Queue | NodeReservation | Namespace | PriorityClass


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
        self._known: dict[type, dict[str, Any]] = {
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
        for kind, known in self._known.items():
            copied._known[kind].update(known)
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

    # What happens.

    def observe(self, seen: Observation) -> bool:
        """Take in an observation, and return whether its kind belongs here."""
        if seen.kind not in QUEUE_KINDS:
            return False
        match seen:
            case Listed(kind, objects, served):
                self._list(kind, [one for one in objects if isinstance(one, Kept)], served)
            case Changed(_, thing) if isinstance(thing, Kept):
                self.put(thing)
            case Deleted(_, thing) if isinstance(thing, Kept):
                self.drop(thing)
        return True

    def _list(self, kind: Kind, objects: Iterable[Kept], served: bool) -> None:
        if kind is Kind.KUEUE_QUEUE:
            self._change(self._kueue_served != served)
            self._kueue_served = served
            return
        if kind is Kind.QUEUE:
            if not served and self._served is not False:
                log.info("the cluster serves no Queues, so all work is in one queue", queue=DEFAULT_QUEUE)
            self._change(self._served is not served)
            self._served = served
        present = {one.name: one for one in objects}
        known = self._known[QUEUE_KINDS[kind]]
        for gone in [one for name, one in known.items() if name not in present]:
            self.drop(gone)
        for observed in present.values():
            self.put(observed)

    def put(self, observed: Kept) -> None:
        """Take in an object."""
        known = self._known[type(observed)]
        self._change(known.get(observed.name) != observed)
        known[observed.name] = observed

    def drop(self, observed: Kept) -> None:
        """Forget an object."""
        self._change(self._known[type(observed)].pop(observed.name, None) is not None)

    def _change(self, happened: bool) -> None:
        if happened:
            self.revision += 1
            self._hints.clear()
            for derived in ("_defaults", "ages", "policy", "take_back", "usual_durations"):
                self.__dict__.pop(derived, None)

    # Answers.

    def is_kueues(self, workload: Resumable) -> bool:
        """Return whether Kueue suspends and resumes the workload."""
        return self._kueue_served and isinstance(workload, Job) and workload.kueue

    def queue_of(self, members: Iterable[Pod], owner_labels: Mapping[str, str]) -> Queue | Reason:
        """Return the one queue of the members of a gang, or why it has none.

        ``owner_labels`` are the labels of their workload that name a queue. They count for all of its pods.
        """
        if self._served is False:
            return IMPLICIT
        named = _named(owner_labels)
        choices = {(pod.namespace, named if any(named) else _named(pod.labels)) for pod in members}
        queues: dict[str, Queue] = {}
        for namespace, names in sorted(choices):
            found = self._find(namespace, *names)
            if isinstance(found, Reason):
                return found
            queues[found.name] = found
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
        known = self._namespaces.get(namespace)
        return (
            bool(admitted.labels)
            and known is not None
            and all(holds(one, known.labels) for one in admitted.labels)
        )

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace, none if it isn't known."""
        known = self._namespaces.get(namespace)
        return {} if known is None else known.labels

    def problems(self, queue: Queue) -> list[str]:
        """Return the problems of a queue: each names a setting that isn't in force, and says why."""
        found = list(queue.problems)
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
            found.append(
                f"spec.scheduling ({names}) is ignored: all queues share the nodes, so queue {DEFAULT_QUEUE} says it"
            )
        for namespace in sorted(queue.default_for):
            other = self._default_of(namespace)
            if other != queue.name:
                found.append(f"spec.defaultFor: {namespace} has the older queue {other}")
        most, usual = queue.max_duration, queue.default_duration
        if most is not None and usual is not None and usual > most:
            found.append(
                f"spec.defaults.duration {format_duration(usual)} counts as maxDuration {format_duration(most)}"
            )
        if queue.parent and queue.half_life is not None:
            found.append("spec.halfLife is ignored: the queue at the root of the tree says it")
        priority = queue.default_priority_class
        if priority and priority not in self._classes:
            found.append(f"spec.defaults.priorityClassName: there is no PriorityClass {priority}")
        return found

    def _advice(self, namespace: str, name: str) -> str:
        return self._hints.of(namespace, name, "kubectl fluence queue lists all queues")

    def _nearest_queue(self, namespace: str, name: str) -> str:
        """Return the end of a sentence that names the queue with the most similar name."""
        open_ones = (one.name for one in self.queues.values() if self.admits(one, namespace))
        # Names with the same beginning are the likeliest, and then names of a similar length.
        likely = sorted(open_ones, key=lambda one: (one[:1] != name[:1], abs(len(one) - len(name)), one))
        nearest = get_close_matches(name, sorted(likely[:MOST_COMPARED]), 1, 0)
        return (
            f"the nearest that takes work of namespace {namespace} is queue {nearest[0]}" if nearest else ""
        )

    @cached_property
    def usual_durations(self) -> bool:
        """Whether any queue states a duration for work that declares none."""
        return any(usual_seconds(one) is not None for one in self._queues.values())

    @cached_property
    def ages(self) -> bool:
        """Whether in some queue waiting time makes up for a lower priority."""
        return any(one.class_step is not None for one in self._queues.values())

    @cached_property
    def take_back(self) -> bool:
        """Whether any queue states how it preempts."""
        return any(one.preemption != QueuePreemption() for one in self._queues.values())

    def head_start(self, queue: Queue, priority: int) -> float | None:
        """Return how many seconds of waiting a priority is worth, None if the higher priority always comes first.

        The queue, or the nearest queue above it that does, states the seconds of one step. Each PriorityClass between 0
        and the priority is a step.
        """
        known: Queue | None = queue
        for _ in range(LEVELS):
            if known is None or known.class_step is not None:
                break
            known = self._queues.get(known.parent)
        if known is None or known.class_step is None:
            return None
        values = {one.value for one in self._classes.values()}
        up, down = sum(0 < one <= priority for one in values), sum(priority <= one < 0 for one in values)
        return known.class_step * (up - down)

    def priority_of(self, classes: Iterable[str], queue: Queue | Reason) -> int:
        """Return the priority of work in a queue whose pods don't exist yet and name these PriorityClasses."""
        named = [one.value for one in map(self._classes.get, classes) if one is not None]
        if named:
            return max(named)
        given = max((one.value for one in self._classes.values() if one.is_default), default=0)
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
    return min((one for one in times if one is not None), default=None)
