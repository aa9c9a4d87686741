"""The roles of a gang's pods in a quantum job, and the state of their task, in the state API."""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.api.gangs import QuantumPart
from fluence_extender.model.coordination import (
    CONSUMER,
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    PRODUCER_SUFFIX,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
    ROLE_ANNOTATION,
    TASK_STATUS_ANNOTATION,
)
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod

NO_TASK_YET = "no task was found yet"
WAITS = "it starts when the task is next in its queue"
RELEASED = "released"


def quantum_part(pods: Sequence[Pod]) -> QuantumPart | None:
    """Return the part of a gang's pods in a quantum job, None if they have none."""
    for pod in pods:
        notes = pod.annotations
        group = pod.labels.get(GROUP_LABEL, "")
        if notes.get(ROLE_ANNOTATION) == PRODUCER:
            status = notes.get(TASK_STATUS_ANNOTATION, NO_TASK_YET)
            consumers = group.removesuffix(PRODUCER_SUFFIX)
            return QuantumPart("producer", consumers, _task(pod), _released(pod) or status)
        if notes.get(ROLE_ANNOTATION) == CONSUMER and DEPENDS_ON_PRODUCER in notes:
            waits = any(READY_GATE in one.gates for one in pods)
            return QuantumPart(
                "consumer", notes[DEPENDS_ON_PRODUCER], _task(pod), WAITS if waits else RELEASED
            )
        if TASK_STATUS_ANNOTATION in notes:
            return QuantumPart("observed", "", _task(pod), notes[TASK_STATUS_ANNOTATION])
    return None


def _task(pod: Pod) -> str:
    return pod.annotations.get(QUANTUM_JOB_ID_ANNOTATION, "")


def _released(producer: Pod) -> str:
    """Return why this pod released the consumers, "" if it didn't: a copy of its manifest is another pod."""
    why, own, _ = producer.annotations.get(RELEASED_ANNOTATION, "").partition(f" (pod {producer.uid})")
    return f"{RELEASED}: {why}" if own else ""
