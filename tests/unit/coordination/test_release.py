"""Consumers are released with their task, whatever happens to a single patch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.cluster.errors import Gone
from fluence_extender.coordination.release import (
    handover,
    recorded_verdict,
    release_all,
    verdict_annotations,
    waiting,
)
from fluence_extender.coordination.tracker import Verdict
from fluence_extender.model.coordination import (
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
    producer_annotation,
)
from fluence_extender.model.names import ATTRIBUTE_PREFIX, BACKEND_ANNOTATION, GATE, GROUP_LABEL
from tests.unit.coordination.fake_pods import FakePods, consumer, failing, producer

ANNOTATIONS = {QUANTUM_JOB_ID_ANNOTATION: "task"}


def test_gated_consumers_of_the_group_are_released() -> None:
    pods = [
        consumer("a"),
        consumer("b", gates=(READY_GATE,)),
        consumer("c", gates=("others", READY_GATE, GATE)),
        consumer("released", gates=(GATE,)),
        consumer("going", deleting=True),
        consumer("others", group="h"),
        consumer("of-another", annotations={"fluence.flux-framework.org/depends-on-producer": "h-producer"}),
        producer(),
    ]
    assert [pod.name for pod in waiting(pods, "g")] == ["a", "b", "c"]


def test_consumers_may_be_named() -> None:
    pods = [consumer("a"), consumer("b", group="h"), replace(consumer("c"), labels={})]
    assert [pod.name for pod in waiting(pods, "", ("b", "c", "gone"))] == ["b", "c"]


def test_gated_member_without_our_annotation_is_a_consumer() -> None:
    pod = replace(consumer("a"), annotations={})
    assert waiting([pod], "g") == [pod]


def test_consumers_get_the_task_and_the_producers_backend() -> None:
    assert handover(producer().annotations, "task") == {
        QUANTUM_JOB_ID_ANNOTATION: "task",
        producer_annotation(BACKEND_ANNOTATION): "ibm_fez",
        producer_annotation(f"{ATTRIBUTE_PREFIX}vendor"): "ibm",
    }


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("t", "task t is running", True),
        Verdict("", "no task was found within 3 s", False),
        Verdict("", "", True),
    ],
)
def test_recorded_verdict_is_read_back(verdict: Verdict) -> None:
    assert recorded_verdict(producer(annotations=verdict_annotations(verdict, "uid-lead"))) == verdict


def test_verdict_of_another_pod_does_not_count_for_its_copy() -> None:
    notes = verdict_annotations(Verdict("t", "task t is running", True), "uid-original")
    assert recorded_verdict(producer(annotations=notes)) is None


@pytest.mark.parametrize("notes", [{}, {QUANTUM_JOB_ID_ANNOTATION: "x"}, {RELEASED_ANNOTATION: "a user's"}])
def test_pod_without_a_record_has_no_verdict(notes: dict[str, str]) -> None:
    assert recorded_verdict(producer(annotations=notes)) is None


def test_long_reason_is_shortened() -> None:
    notes = verdict_annotations(Verdict("t", "x" * 10_000, False), "uid-lead")
    assert len(notes[RELEASED_ANNOTATION]) < 1100
    found = recorded_verdict(producer(annotations=notes))
    assert found is not None
    assert not found.known


async def test_each_consumer_is_released_once_and_other_gates_stay() -> None:
    pods = FakePods({name: consumer(name, gates=("others", READY_GATE, GATE)) for name in "abc"})
    assert await release_all(pods, list(pods.pods.values()), ANNOTATIONS) == []
    assert sorted(pods.released) == ["a", "b", "c"]
    assert all(pod.gates == ("others", GATE) for pod in pods.pods.values())
    assert all(pod.annotations[QUANTUM_JOB_ID_ANNOTATION] == "task" for pod in pods.pods.values())


async def test_failed_release_is_reported_and_stops_no_other() -> None:
    pods = FakePods({name: consumer(name) for name in "abc"})

    def fault(verb: str, name: str) -> None:
        if name == "b":
            failing(1, "release")(verb, name)

    pods.fault = fault
    assert await release_all(pods, list(pods.pods.values()), ANNOTATIONS) == ["release b failed"]
    assert pods.gated() == ["b"]


async def test_consumer_that_is_gone_is_no_failure() -> None:
    pods = FakePods({"a": consumer("a")})

    def fault(verb: str, name: str) -> None:
        raise Gone("no such pod", 404)

    pods.fault = fault
    assert await release_all(pods, [consumer("a")], ANNOTATIONS) == []


async def test_pod_of_the_same_name_with_another_uid_is_not_changed() -> None:
    pods = FakePods({"a": consumer("a", uid="new")})
    assert await release_all(pods, [consumer("a")], ANNOTATIONS) == []
    assert pods.gated() == ["a"]


async def test_groups_of_hundreds_are_released_completely() -> None:
    pods = FakePods({f"c{number}": consumer(f"c{number}") for number in range(300)})
    assert await release_all(pods, list(pods.pods.values()), ANNOTATIONS) == []
    assert len(pods.released) == 300
    assert not pods.gated()
    assert all(pod.labels[GROUP_LABEL] == "g" for pod in pods.pods.values())
