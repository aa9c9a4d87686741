"""The Queues and Reservations of the cluster, and which queue a pod is in.

Without any object there is one queue, `DEFAULT_QUEUE`, with no limits. Invariant: for each pod there is one queue, or a
reason that says why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fluence_extender.model.pod import Pod
from fluence_extender.model.queue import DEFAULT_QUEUE, NodeReservation, Queue
from fluence_extender.model.reason import Reason
from fluence_extender.queueing.policy import QueuePolicy

IMPLICIT = Queue(DEFAULT_QUEUE)


class Queues:
    """Queues and Reservations by name; ``revision`` grows with each change."""

    def __init__(self) -> None:
        self.revision = 0
        self._queues: dict[str, Queue] = {}
        self._reservations: dict[str, NodeReservation] = {}

    @property
    def queues(self) -> Mapping[str, Queue]:
        """All queues by name; the default queue is always among them."""
        return {DEFAULT_QUEUE: IMPLICIT, **self._queues}

    @property
    def reservations(self) -> Mapping[str, NodeReservation]:
        """The Reservations by name."""
        return self._reservations

    @property
    def policy(self) -> QueuePolicy:
        """The policy of the cluster, which the default queue states."""
        return QueuePolicy()

    def put(self, thing: Queue | NodeReservation) -> None:
        """Take in an object."""
        self.revision += 1
        if isinstance(thing, Queue):
            self._queues[thing.name] = thing
        else:
            self._reservations[thing.name] = thing

    def drop(self, thing: Queue | NodeReservation) -> None:
        """Forget an object."""
        self.revision += 1
        if isinstance(thing, Queue):
            self._queues.pop(thing.name, None)
        else:
            self._reservations.pop(thing.name, None)

    def replace(self, things: Iterable[Queue | NodeReservation]) -> None:
        """Forget all objects and take in these."""
        self._queues, self._reservations = {}, {}
        self.revision += 1
        for thing in things:
            self.put(thing)

    def queue_of(self, pod: Pod, owner_labels: Mapping[str, str] | None = None) -> Queue | Reason:
        """Return the queue of a pod, or why it has none.

        ``owner_labels`` are those labels of the workload that owns the pod by which it names a queue.
        """
        return self.queues[DEFAULT_QUEUE]
