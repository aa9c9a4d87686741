"""Release consumers that no sidecar can release: privileged ones, and those that come after their producer's sidecar
has ended.

    producer of the group          a gated consumer
    lives                          waits: its sidecar decides
    lives, has decided             starts, with that decision
    ended, of the same owner       starts at once, if that producer had decided
    succeeded, of the same owner   starts after a moment, if that producer's sidecar didn't come to decide
    ended, or gone, none lives     starts after a while, with what any of them had decided or other consumers received
    was never seen                 waits for one

The moment lets the sidecar finish writing; no pod takes the place of one that succeeded. The while lets another
producer take the place of the one that ended. Every replica of the webhook does this; a write that another replica or a
sidecar has made already counts as done.

A privileged consumer preempts pods of others, so what its user may write doesn't release it. Only producers that were
bound with a backend count, and only other consumers that are privileged too: policies guard the stamps of a Binding,
and the gate and the record of privileged consumers.

Invariant: what is left of an old run doesn't start a new run of the same name, unless no pod comes that could start it.
One of the gated consumers records that its group had a producer, so that a process which never saw the producer knows.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.cluster.port import Listed, Observation, follow_pods
from fluence_extender.cluster.reconciler import Reconciler, each
from fluence_extender.coordination.release import handover, is_privileged, recorded_verdict, waiting
from fluence_extender.model.coordination import (
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    PRODUCER_ATTRIBUTE_PREFIX,
    PRODUCER_BACKEND_ANNOTATION,
    PRODUCER_SEEN_ANNOTATION,
    PRODUCER_SUFFIX,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    ROLE_ANNOTATION,
)
from fluence_extender.model.names import BACKEND_ANNOTATION, GROUP_LABEL
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

PATIENCE = 300.0
"""Seconds that a consumer waits for another producer once none lives."""

MOMENT = 15.0
"""Seconds that a consumer waits once its producer has succeeded without a decision."""

REPEAT = 15.0
"""Seconds until a write is repeated, if the watch hasn't shown it."""

GATHER = 1.0
"""Seconds to wait before each round: sidecars are faster, and should do the work that they may do."""

SharedGroup = tuple[str, str]
"""Namespace and name of a shared group."""


@dataclass(frozen=True, slots=True)
class Release:
    """Release ``pod`` with these ``annotations``."""

    pod: Pod
    annotations: dict[str, str]


class Releases(Protocol):
    """Writes to consumers."""

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod`` and remove its gate, in one step. Raises `ClusterError`."""
        ...

    async def annotate(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod``. Raises `ClusterError`."""
        ...


class LateConsumerReconciler(Reconciler[SharedGroup]):
    """Releases the consumers of each shared group as `LateConsumers` decides."""

    def __init__(self, releases: Releases, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("a shared group", GATHER, clock)
        self._releases = releases
        self._consumers = LateConsumers(clock)

    def observe(self, seen: Observation) -> None:
        """Note an observation, of whatever kind."""
        self.enqueue(self._consumers.observe(seen))

    async def reconcile(self, group: SharedGroup) -> float | None:
        """Release the consumers of the group that are to start now, and record that it had a producer."""
        if (pod := self._consumers.producer_to_record(group)) is not None:
            await self._write(pod, self._releases.annotate, {PRODUCER_SEEN_ANNOTATION: "true"})
        await each(self._release, self._consumers.releases(group))
        return self._consumers.due_in(group)

    async def _release(self, one: Release) -> None:
        if await self._write(one.pod, self._releases.release, one.annotations):
            log.info("a late consumer may start", pod=one.pod.key)

    async def _write(
        self, pod: Pod, write: Callable[..., Awaitable[None]], annotations: Mapping[str, str]
    ) -> bool:
        """Return whether the write was made. One that fails is repeated after `REPEAT`."""
        try:
            await write(pod, annotations)
        except Gone:
            return False
        except ClusterError as error:
            log.warning("a late consumer can't be written to yet", pod=pod.key, problem=str(error))
            return False
        return True


@dataclass(slots=True)
class _Group:
    """One shared group. Times are in seconds of the clock, by the uid of the consumer.

    ``starts_at`` is when a consumer without a living producer starts; ``repeat_at`` when its release is repeated, and
    ``record_at`` when the record of the producer is.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    had_producer: bool = False
    had_bound_producer: bool = False
    orphaned_since: dict[str, float] = field(default_factory=dict)
    starts_at: dict[str, float] = field(default_factory=dict)
    repeat_at: dict[str, float] = field(default_factory=dict)
    record_at: float | None = None

    def had(self, consumer: Pod) -> bool:
        """Return whether a producer was seen that counts for this consumer."""
        return self.had_bound_producer if is_privileged(consumer) else self.had_producer

    def forget(self, uid: str) -> None:
        """Forget the times of a consumer that is released or gone."""
        for times in (self.orphaned_since, self.starts_at, self.repeat_at):
            times.pop(uid, None)


class LateConsumers:
    """Decides which consumers of shared groups start, from the pods; ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._groups: dict[SharedGroup, _Group] = {}
        self._group_of: dict[str, SharedGroup] = {}
        self._changed: set[SharedGroup] = set()
        self._listed = False

    def observe(self, seen: Observation) -> Set[SharedGroup]:
        """Note an observation, of whatever kind. Return the groups about which something may have to be done."""
        if follow_pods(seen, self._group_of, self._put, self._drop) and isinstance(seen, Listed):
            self._listed = True
        if not self._listed:
            return frozenset()
        changed, self._changed = self._changed, set()
        return changed

    def releases(self, name: SharedGroup) -> list[Release]:
        """Return the consumers of the group that are to start now. Each is returned again after `REPEAT`."""
        group = self._groups.get(name)
        if group is None:
            return []
        now, pods = self._clock(), group.pods.values()
        producers = sorted(filter(_produces, pods), key=lambda one: (not lives(one), -one.created))
        consumers = [one for one in pods if not _produces(one)]
        alone = not any(map(lives, producers))
        found = []
        for consumer in waiting(consumers, name[1]):
            uid = consumer.uid
            deciding, siblings = _credible(consumer, producers, consumers)
            orphaned = alone and (
                group.had(consumer)
                or any(
                    _received(one) is not None or PRODUCER_SEEN_ANNOTATION in one.annotations
                    for one in siblings
                )
            )
            if orphaned:
                since = group.orphaned_since.setdefault(uid, now)
                silent = silent_producer(consumer, deciding) is not None
                group.starts_at[uid] = since + (MOMENT if silent else PATIENCE)
            else:
                group.orphaned_since.pop(uid, None)
                group.starts_at.pop(uid, None)
            patient = orphaned and now >= group.starts_at[uid]
            annotations = annotations_for(consumer, deciding, siblings, patient)
            if annotations is not None and now >= group.repeat_at.get(uid, now):
                group.repeat_at[uid] = now + REPEAT
                found.append(Release(consumer, annotations))
        return found

    def producer_to_record(self, name: SharedGroup) -> Pod | None:
        """Return the consumer on which to record that the group had a producer, None if it is recorded or had none.

        The same consumer is returned again after `REPEAT`.
        """
        group = self._groups.get(name)
        if group is None:
            return None
        consumers = (one for one in group.pods.values() if not _produces(one) and group.had(one))
        gated = waiting(consumers, name[1])
        if not gated or any(PRODUCER_SEEN_ANNOTATION in one.annotations for one in gated):
            group.record_at = None
            return None
        now = self._clock()
        if group.record_at is not None and now < group.record_at:
            return None
        group.record_at = now + REPEAT
        return min(gated, key=lambda one: one.uid)

    def due_in(self, name: SharedGroup) -> float | None:
        """Return the seconds until the group has to be looked at again, None if only an event can change anything."""
        group = self._groups.get(name)
        if group is None:
            return None
        times = [at for uid, at in group.starts_at.items() if uid not in group.repeat_at]
        times += group.repeat_at.values()
        if group.record_at is not None:
            times.append(group.record_at)
        return min(times) - self._clock() if times else None

    def _put(self, pod: Pod) -> None:
        name = shared_group(pod)
        if name is None or self._group_of.get(pod.uid, name) != name:
            self._drop(pod.uid)
        if name is None:
            return
        self._group_of[pod.uid] = name
        group = self._groups.setdefault(name, _Group())
        group.pods[pod.uid] = pod
        group.had_producer = group.had_producer or _produces(pod)
        group.had_bound_producer = group.had_bound_producer or (_produces(pod) and _was_bound(pod))
        if READY_GATE not in pod.gates:
            group.forget(pod.uid)
        self._changed.add(name)

    def _drop(self, uid: str) -> None:
        name = self._group_of.pop(uid, None)
        if name is None:
            return
        group = self._groups[name]
        del group.pods[uid]
        group.forget(uid)
        if not group.pods:
            del self._groups[name]
        self._changed.add(name)


def shared_group(pod: Pod) -> SharedGroup | None:
    """Return the shared group that the pod is a producer or a consumer of, None if there is none."""
    label = pod.labels.get(GROUP_LABEL, "")
    if not pod.ours or not label:
        return None
    if DEPENDS_ON_PRODUCER in pod.annotations:
        return pod.namespace, label
    if _produces(pod) and label.endswith(PRODUCER_SUFFIX):
        return pod.namespace, label.removesuffix(PRODUCER_SUFFIX)
    return None


def lives(pod: Pod) -> bool:
    """Return whether a producer may still decide."""
    return not pod.finished and not pod.deleting


def annotations_for(
    consumer: Pod, producers: Iterable[Pod], siblings: Iterable[Pod], patient: bool
) -> dict[str, str] | None:
    """Return the annotations with which ``consumer`` is released, None while it has to wait.

    ``patient``: the consumer has waited long enough for another producer. ``producers`` begin with those that live.
    """
    fallback = None
    for producer in producers:
        verdict = recorded_verdict(producer)
        if lives(producer):
            return handover(producer.annotations, verdict.task) if verdict is not None else None
        if verdict is not None:
            annotations = handover(producer.annotations, verdict.task)
            if consumer.owner is not None and producer.owner == consumer.owner:
                return annotations
            fallback = fallback or annotations
    if not patient:
        return None
    if (silent := silent_producer(consumer, producers)) is not None:
        fallback = handover(silent.annotations, "")
    for sibling in siblings:
        fallback = fallback or _received(sibling)
    return fallback or {QUANTUM_JOB_ID_ANNOTATION: ""}


def silent_producer(consumer: Pod, producers: Iterable[Pod]) -> Pod | None:
    """Return the producer of the consumer's own run that succeeded before its sidecar had decided."""
    for one in producers:
        same_run = consumer.owner is not None and one.owner == consumer.owner
        if same_run and one.phase == "Succeeded" and not one.deleting and recorded_verdict(one) is None:
            return one
    return None


def _received(sibling: Pod) -> dict[str, str] | None:
    """Return the annotations with which a living consumer was released, None if it wasn't."""
    if (
        QUANTUM_JOB_ID_ANNOTATION not in sibling.annotations
        or READY_GATE in sibling.gates
        or not lives(sibling)
    ):
        return None
    return {
        key: value
        for key, value in sibling.annotations.items()
        if key in (QUANTUM_JOB_ID_ANNOTATION, PRODUCER_BACKEND_ANNOTATION)
        or key.startswith(PRODUCER_ATTRIBUTE_PREFIX)
    }


def _credible(
    consumer: Pod, producers: Sequence[Pod], consumers: Sequence[Pod]
) -> tuple[Sequence[Pod], Sequence[Pod]]:
    """Return the producers and the consumers whose annotations count for this consumer."""
    if not is_privileged(consumer):
        return producers, consumers
    return list(filter(_was_bound, producers)), list(filter(is_privileged, consumers))


def _was_bound(producer: Pod) -> bool:
    """Return whether the extender has bound the producer and given it a backend."""
    return bool(producer.node) and BACKEND_ANNOTATION in producer.annotations


def _produces(pod: Pod) -> bool:
    return pod.annotations.get(ROLE_ANNOTATION) == PRODUCER
