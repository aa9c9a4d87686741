"""Consumers whose producer's sidecar can't release them any more: those that come after it has ended, or outlive it.

    producer of the group          a gated consumer
    lives                          waits: its sidecar decides
    lives, has decided             starts, with what it has decided
    ended, of the same owner       starts at once, if that one had decided
    succeeded, of the same owner   starts after a moment, if that one's sidecar didn't come to decide
    ended, or gone, none lives     starts after a while, with what any of them had decided or others were told
    was never seen                 waits for one

The moment is for what its sidecar still writes; nobody takes the place of a pod that succeeded. The while is for
another producer to take the place of the one that ended. Invariant: a new run under a name that was used before isn't
started by what is left of the old one, unless nobody comes who could start it. That a group had a producer stands on
one of its gated consumers, so that a process which has never seen it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fluence_extender.cluster.pods_seen import follow_pods
from fluence_extender.cluster.port import Listed, Observation
from fluence_extender.coordination.release import handover, noted, waiting
from fluence_extender.model.coordination import (
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    PRODUCER_SEEN_ANNOTATION,
    PRODUCER_SUFFIX,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    ROLE_ANNOTATION,
    producer_annotation,
)
from fluence_extender.model.names import ATTRIBUTE_PREFIX, BACKEND_ANNOTATION, GROUP_LABEL
from fluence_extender.model.pod import Pod

PATIENCE = 300.0
"""Seconds that a consumer waits for another producer once none lives."""

MOMENT = 15.0
"""Seconds that a consumer waits once its producer has succeeded without a decision."""

AGAIN = 15.0
"""Seconds until a release or a mark that was asked for is asked for again, if it isn't seen to have happened."""

Group = tuple[str, str]
"""Namespace and name of a shared group."""

_HANDED_BACKEND = producer_annotation(BACKEND_ANNOTATION)
_HANDED_ATTRIBUTES = producer_annotation(ATTRIBUTE_PREFIX)


@dataclass(frozen=True, slots=True)
class Release:
    """Release ``pod``, annotated with ``told``."""

    pod: Pod
    told: dict[str, str]


def shared_group(pod: Pod) -> tuple[Group, bool] | None:
    """The shared group of a pod, and whether it is its producer; None for pods of no shared group."""
    label = pod.labels.get(GROUP_LABEL, "")
    if not pod.ours or not label:
        return None
    if DEPENDS_ON_PRODUCER in pod.annotations:
        return (pod.namespace, label), False
    if pod.annotations.get(ROLE_ANNOTATION) == PRODUCER and label.endswith(PRODUCER_SUFFIX):
        return (pod.namespace, label.removesuffix(PRODUCER_SUFFIX)), True
    return None


def lives(pod: Pod) -> bool:
    """Whether a producer may still decide."""
    return not pod.finished and not pod.deleting


def told_by(
    consumer: Pod, producers: Iterable[Pod], siblings: Iterable[Pod], patient: bool
) -> dict[str, str] | None:
    """What ``consumer`` is released with; None while it is to wait. ``patient``: nobody may come any more."""
    ended_with = None
    for producer in producers:
        verdict = noted(producer)
        if lives(producer):
            return handover(producer.annotations, verdict.task) if verdict is not None else None
        if verdict is not None:
            told = handover(producer.annotations, verdict.task)
            if consumer.owner is not None and producer.owner == consumer.owner:
                return told
            ended_with = ended_with or told
    if not patient:
        return None
    if (silent := ended_in_silence(consumer, producers)) is not None:
        ended_with = handover(silent.annotations, "")
    for sibling in siblings:
        ended_with = ended_with or _told(sibling)
    return ended_with or {QUANTUM_JOB_ID_ANNOTATION: ""}


def ended_in_silence(consumer: Pod, producers: Iterable[Pod]) -> Pod | None:
    """The producer of the consumer's own run that succeeded before its sidecar had decided."""
    for one in producers:
        mine = consumer.owner is not None and one.owner == consumer.owner
        if mine and one.phase == "Succeeded" and not one.deleting and noted(one) is None:
            return one
    return None


def _told(sibling: Pod) -> dict[str, str] | None:
    """What a consumer was told that has been released, and lives."""
    if (
        QUANTUM_JOB_ID_ANNOTATION not in sibling.annotations
        or READY_GATE in sibling.gates
        or not lives(sibling)
    ):
        return None
    return {
        key: value
        for key, value in sibling.annotations.items()
        if key in (QUANTUM_JOB_ID_ANNOTATION, _HANDED_BACKEND) or key.startswith(_HANDED_ATTRIBUTES)
    }


class LateConsumers:
    """What is seen of shared groups; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[Group, dict[str, Pod]] = {}
        self._of: dict[str, Group] = {}
        self._had_producer: set[Group] = set()
        self._orphaned_since: dict[str, float] = {}
        self._patience: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._marked: dict[Group, float] = {}
        self._listed = False

    def take(self, seen: Observation) -> None:
        """Take note of what was seen; all but pods is passed over."""
        if follow_pods(seen, self._of, self._put, self._drop) and isinstance(seen, Listed):
            self._listed = True

    def actions(self) -> list[Release]:
        """Who is to be released now."""
        if not self._listed:
            return []
        now = self._clock()
        return [one for group in sorted(self._pods) for one in self._of_group(group, now)]

    def marks(self) -> list[Pod]:
        """Consumers on which is to be written now that their group had a producer: one of each such group."""
        now = self._clock()
        found = []
        for group in sorted(self._had_producer):
            gated = waiting((one for one in self._pods[group].values() if not _leads(one)), group[1])
            if not gated or any(PRODUCER_SEEN_ANNOTATION in one.annotations for one in gated):
                self._marked.pop(group, None)
            elif now - self._marked.get(group, -AGAIN) >= AGAIN:
                self._marked[group] = now
                found.append(min(gated, key=lambda one: one.uid))
        return found

    @property
    def next_due(self) -> float | None:
        """When `actions` may say more, though nothing more is seen."""
        waiting_for = [
            since + self._patience[uid]
            for uid, since in self._orphaned_since.items()
            if uid not in self._asked
        ]
        asked = (*self._asked.values(), *self._marked.values())
        return min([*waiting_for, *(at + AGAIN for at in asked)], default=None)

    def _of_group(self, group: Group, now: float) -> list[Release]:
        pods = list(self._pods[group].values())
        producers = sorted(
            (one for one in pods if _leads(one)), key=lambda one: (not lives(one), -one.created)
        )
        consumers = [one for one in pods if not _leads(one)]
        gated = waiting(consumers, group[1])
        orphaned = not any(map(lives, producers)) and (
            group in self._had_producer
            or any(_told(one) is not None or PRODUCER_SEEN_ANNOTATION in one.annotations for one in consumers)
        )
        found = []
        for consumer in gated:
            if orphaned:
                self._orphaned_since.setdefault(consumer.uid, now)
            else:
                self._orphaned_since.pop(consumer.uid, None)
            longest = MOMENT if ended_in_silence(consumer, producers) is not None else PATIENCE
            self._patience[consumer.uid] = longest
            patient = orphaned and now - self._orphaned_since[consumer.uid] >= longest
            told = told_by(consumer, producers, consumers, patient)
            if told is not None and now - self._asked.get(consumer.uid, -AGAIN) >= AGAIN:
                self._asked[consumer.uid] = now
                found.append(Release(consumer, told))
        return found

    def _put(self, pod: Pod) -> None:
        belongs = shared_group(pod)
        if belongs is None:
            self._drop(pod.uid)
            return
        group, leads = belongs
        if self._of.get(pod.uid, group) != group:
            self._drop(pod.uid)
        self._of[pod.uid] = group
        self._pods.setdefault(group, {})[pod.uid] = pod
        if leads:
            self._had_producer.add(group)
        if READY_GATE not in pod.gates:
            self._forget(pod.uid)

    def _drop(self, uid: str) -> None:
        group = self._of.pop(uid, None)
        self._forget(uid)
        if group is None:
            return
        pods = self._pods[group]
        del pods[uid]
        if not pods:
            del self._pods[group]
            self._had_producer.discard(group)
            self._marked.pop(group, None)

    def _forget(self, uid: str) -> None:
        self._orphaned_since.pop(uid, None)
        self._patience.pop(uid, None)
        self._asked.pop(uid, None)


def _leads(pod: Pod) -> bool:
    return pod.annotations.get(ROLE_ANNOTATION) == PRODUCER
