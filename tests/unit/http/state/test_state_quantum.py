"""The part of a gang in a quantum job, as the state API shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.api.gangs import QuantumPart
from fluence_extender.http.state.quantum import quantum_part
from fluence_extender.model.coordination import (
    CONSUMER,
    QUANTUM_JOB_ID_ANNOTATION,
    RELEASED_ANNOTATION,
    ROLE_ANNOTATION,
    TASK_STATUS_ANNOTATION,
)
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.core.values import pod
from tests.unit.coordination.fake_pods import consumer, producer

TASK = {QUANTUM_JOB_ID_ANNOTATION: "t"}
QUEUED = {**TASK, TASK_STATUS_ANNOTATION: "queued, position 3"}


def reads(name: str = "c", **notes: str) -> Pod:
    return consumer(name, annotations={ROLE_ANNOTATION: CONSUMER, **notes})


@pytest.mark.parametrize(
    ("pods", "part"),
    [
        ([pod("p")], None),
        ([producer()], QuantumPart("producer", "g", "", "no task was found yet")),
        ([producer(annotations=QUEUED)], QuantumPart("producer", "g", "t", "queued, position 3")),
        (
            [producer(annotations={**QUEUED, RELEASED_ANNOTATION: "task t is running (pod uid-lead)"})],
            QuantumPart("producer", "g", "t", "released: task t is running"),
        ),
        (
            [producer(annotations={**QUEUED, RELEASED_ANNOTATION: "task t is running (pod another)"})],
            QuantumPart("producer", "g", "t", "queued, position 3"),
        ),
        (
            [reads("a"), reads("b")],
            QuantumPart("consumer", "g-producer", "", "it starts when the task is next in its queue"),
        ),
        (
            [replace(reads(**TASK), gates=(GATE,))],
            QuantumPart("consumer", "g-producer", "t", "released"),
        ),
        ([replace(pod("p"), annotations=QUEUED)], QuantumPart("observed", "", "t", "queued, position 3")),
    ],
)
def test_part_of_a_gang_in_a_quantum_job(pods: list[Pod], part: QuantumPart | None) -> None:
    assert quantum_part(pods) == part
