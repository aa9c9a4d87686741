"""Letting consumers go: all of a group, each by one patch that hands over the task and removes the gate by its name.

Invariant: a consumer is never touched without the decision having been written on its producer first, so that whoever
comes next (this sidecar after a restart, or the keeper) goes on where it stopped. A member that can't be patched now is
tried again while others go ahead; the extender starts no gang of which a member is still gated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from fluence_extender.cluster.port import ClusterError, Gone
from fluence_extender.cluster.rounds import each
from fluence_extender.coordination.following import Verdict
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.coordination import (
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
    """The pods of one namespace. All methods raise `ClusterError`."""

    async def own(self) -> Pod:
        """The pod we run in."""
        ...

    async def note(self, annotations: Mapping[str, str]) -> None:
        """Annotate the pod we run in."""
        ...

    async def group(self, name: str) -> list[Pod]:
        """The pods with the group's label."""
        ...

    async def named(self, names: Sequence[str]) -> list[Pod]:
        """The pods with these names; those that don't exist are left out."""
        ...

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod`` and remove `READY_GATE` in one step."""
        ...


def waiting(pods: Iterable[Pod], group: str, names: tuple[str, ...] = ()) -> list[Pod]:
    """The consumers of ``group`` among ``pods`` that are still gated; by their ``names`` where these are given."""
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


def handover(producer: Mapping[str, str], task: str) -> dict[str, str]:
    """What a consumer is told: the task's id, and the backend of its producer, whose annotations are given."""
    told = {QUANTUM_JOB_ID_ANNOTATION: task}
    for key, value in producer.items():
        if describes_backend(key):
            told[producer_annotation(key)] = value
    return told


def note_of(verdict: Verdict, uid: str) -> dict[str, str]:
    """How a verdict is written on the producer of that uid; a copy of its manifest is another pod, and undecided."""
    why = verdict.why if verdict.known else f"{GIVEN_UP}{verdict.why}"
    return {QUANTUM_JOB_ID_ANNOTATION: verdict.task, RELEASED_ANNOTATION: f"{why[:LONGEST_WHY]}{_mark(uid)}"}


def noted(producer: Pod) -> Verdict | None:
    """The verdict that stands on a producer."""
    why, mark = producer.annotations.get(RELEASED_ANNOTATION, ""), _mark(producer.uid)
    if not why.endswith(mark):
        return None
    why = why.removesuffix(mark)
    task = producer.annotations.get(QUANTUM_JOB_ID_ANNOTATION, "")
    return Verdict(task, why.removeprefix(GIVEN_UP), not why.startswith(GIVEN_UP))


def _mark(uid: str) -> str:
    return f" (pod {uid})"


async def release_all(pods: Pods, consumers: Iterable[Pod], told: Mapping[str, str]) -> list[str]:
    """Release ``consumers``; what went wrong, empty once each of them is released or gone. Doesn't raise."""
    problems: list[str] = []

    async def one(pod: Pod) -> bool:
        try:
            await pods.release(pod, told)
        except Gone:
            return True
        except ClusterError as error:
            problems.append(str(error))
            return False
        log.info("a consumer may start", pod=pod.key, task=told.get(QUANTUM_JOB_ID_ANNOTATION, ""))
        return True

    await each(one, list(consumers))
    return problems
