"""Release consumers: one patch each hands over the task and removes the gate by its name.

Invariant: a consumer is written to only after the decision is recorded on its producer, so the next one that releases
(this sidecar after a restart, or the webhook) continues where the last one stopped. A consumer that can't be patched
now is tried again while others go ahead; the extender starts no gang that has a gated member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.cluster.reconciler import each
from fluence_extender.coordination.tracker import Verdict
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.coordination import (
    CONSUMER_PRIORITY_CLASS,
    DEPENDS_ON_PRODUCER,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
    producer_annotation,
    producer_group,
)
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

GIVEN_UP = "given up: "
LONGEST_WHY = 1000


class Pods(Protocol):
    """The pods of one namespace. Each method raises `ClusterError`."""

    async def own(self) -> Pod:
        """Return the pod that this process runs in."""
        ...

    async def annotate_own(self, annotations: Mapping[str, str]) -> None:
        """Annotate the pod that this process runs in."""
        ...

    async def group(self, name: str) -> list[Pod]:
        """Return the pods with the group's label."""
        ...

    async def named(self, names: Sequence[str]) -> list[Pod]:
        """Return the pods with these names, without those that don't exist."""
        ...

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod`` and remove `READY_GATE`, in one step."""
        ...


def waiting(pods: Iterable[Pod], group: str, names: tuple[str, ...] = ()) -> list[Pod]:
    """Return the consumers of ``group`` that are still gated. If ``names`` are given, these are its consumers."""
    producer = producer_group(group)
    return [
        pod
        for pod in pods
        if READY_GATE in pod.gates
        and not pod.deleting
        and (
            pod.name in names
            if names
            else pod.labels.get(GROUP_LABEL) == group
            and pod.annotations.get(DEPENDS_ON_PRODUCER, producer) == producer
        )
    ]


def is_privileged(consumer: Pod) -> bool:
    """Return whether the consumer preempts others once it is released, by the priority class for consumers.

    A policy (``deploy/base/priorityclass.yaml``) lets only the webhook's process remove its gate: users can act as the
    sidecars of their namespace.
    """
    return consumer.priority_class == CONSUMER_PRIORITY_CLASS


def handover(producer: Mapping[str, str], task: str) -> dict[str, str]:
    """Return the annotations that a consumer gets: the task's id, and the backend from its producer's annotations."""
    annotations = {QUANTUM_JOB_ID_ANNOTATION: task}
    for key, value in producer.items():
        if describes_backend(key):
            annotations[producer_annotation(key)] = value
    return annotations


def verdict_annotations(verdict: Verdict, uid: str) -> dict[str, str]:
    """Return the annotations that record a verdict on its producer.

    They name the producer's ``uid``, because a copy of its manifest is another pod, which hasn't decided.
    """
    why = verdict.why if verdict.known else f"{GIVEN_UP}{verdict.why}"
    return {
        QUANTUM_JOB_ID_ANNOTATION: verdict.task,
        RELEASED_ANNOTATION: f"{why[:LONGEST_WHY]}{_uid_suffix(uid)}",
    }


def recorded_verdict(producer: Pod) -> Verdict | None:
    """Return the verdict that is recorded on a producer, None if there is none."""
    why, suffix = producer.annotations.get(RELEASED_ANNOTATION, ""), _uid_suffix(producer.uid)
    if not why.endswith(suffix):
        return None
    why = why.removesuffix(suffix)
    task = producer.annotations.get(QUANTUM_JOB_ID_ANNOTATION, "")
    return Verdict(task, why.removeprefix(GIVEN_UP), not why.startswith(GIVEN_UP))


def _uid_suffix(uid: str) -> str:
    return f" (pod {uid})"


async def release_all(pods: Pods, consumers: Iterable[Pod], annotations: Mapping[str, str]) -> list[str]:
    """Release ``consumers``. Return what went wrong, empty once each of them is released or gone. Doesn't raise."""

    async def release(pod: Pod) -> str:
        try:
            await pods.release(pod, annotations)
        except Gone:
            return ""
        except ClusterError as error:
            return str(error)
        log.info("a consumer may start", pod=pod.key, task=annotations.get(QUANTUM_JOB_ID_ANNOTATION, ""))
        return ""

    return [problem for problem in await each(release, list(consumers)) if problem]
