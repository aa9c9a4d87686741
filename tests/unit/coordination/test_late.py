"""Consumers whom no sidecar can release any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from fluence_extender.cluster.port import Changed, ClusterError, Deleted, Gone, Kind, Listed
from fluence_extender.coordination.late import AGAIN, MOMENT, PATIENCE, LateConsumers
from fluence_extender.coordination.late_keeper import LateKeeper
from fluence_extender.model.coordination import (
    PRODUCER_BACKEND_ANNOTATION,
    PRODUCER_SEEN_ANNOTATION,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
)
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Owner, Pod
from tests.unit.coordination.fake_pods import JOB, consumer, producer

DECIDED = {RELEASED_ANNOTATION: "task t is running (pod uid-lead)", QUANTUM_JOB_ID_ANNOTATION: "t"}


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def late(clock: Clock) -> LateConsumers:
    return LateConsumers(clock)


def sees(late: LateConsumers, *pods: Pod) -> list[tuple[str, str]]:
    """After a list of these pods: who is released, with which task."""
    late.take(Listed(Kind.POD, pods))
    return released(late)


def released(late: LateConsumers) -> list[tuple[str, str]]:
    return [(one.pod.name, one.told[QUANTUM_JOB_ID_ANNOTATION]) for one in late.actions()]


def test_nobody_is_released_before_the_pods_are_known(late: LateConsumers) -> None:
    late.take(Changed(Kind.POD, producer(annotations=DECIDED)))
    late.take(Changed(Kind.POD, consumer("a")))
    assert late.actions() == []


def test_a_producer_that_lives_decides_itself(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, producer(), consumer("a")) == []
    clock.now += 10 * PATIENCE
    assert released(late) == []


def test_what_a_living_producer_has_decided_holds_for_who_comes_late(late: LateConsumers) -> None:
    assert sees(late, producer(annotations=DECIDED), consumer("a")) == [("a", "t")]


def test_consumers_are_told_the_backend(late: LateConsumers) -> None:
    late.take(Listed(Kind.POD, (producer(annotations=DECIDED), consumer("a"))))
    (one,) = late.actions()
    assert one.told[PRODUCER_BACKEND_ANNOTATION] == "ibm_fez"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_job_whose_producer_has_ended_starts_its_late_consumers_at_once(
    late: LateConsumers, phase: str
) -> None:
    ended = producer(annotations=DECIDED, phase=phase, owner=JOB)
    assert sees(late, ended, consumer("a", owner=JOB), consumer("b", owner=JOB)) == [("a", "t"), ("b", "t")]


def test_what_is_left_of_another_run_starts_nobody_at_once(late: LateConsumers, clock: Clock) -> None:
    ended = producer(annotations=DECIDED, phase="Succeeded", owner=JOB)
    new = consumer("a", owner=Owner("Job", "j", "uid-second-run"))
    assert sees(late, ended, new) == []
    late.take(Changed(Kind.POD, producer("second-lead", created=30.0)))
    clock.now += 10 * PATIENCE
    assert released(late) == []


def test_where_no_other_producer_comes_consumers_start(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, producer(phase="Failed"), consumer("a")) == []
    clock.now += PATIENCE - 1
    assert released(late) == []
    assert late.next_due == clock.now + 1
    clock.now += 1
    assert released(late) == [("a", "")]


def test_producer_that_succeeded_before_its_sidecar_could_decide_holds_nobody_for_long(
    late: LateConsumers, clock: Clock
) -> None:
    late.take(Listed(Kind.POD, (producer(phase="Succeeded", owner=JOB), consumer("a", owner=JOB))))
    assert released(late) == []
    assert late.next_due == clock.now + MOMENT
    clock.now += MOMENT
    (one,) = late.actions()
    assert one.told[QUANTUM_JOB_ID_ANNOTATION] == ""
    assert one.told[PRODUCER_BACKEND_ANNOTATION] == "ibm_fez"


@pytest.mark.parametrize(
    ("ended", "owner"),
    [
        (producer(phase="Failed", owner=JOB), JOB),
        (producer(phase="Succeeded", owner=JOB, deleting=True), JOB),
        (producer(phase="Succeeded", owner=JOB), Owner("Job", "j", "uid-second-run")),
        (producer(phase="Succeeded"), None),
    ],
)
def test_where_another_producer_may_come_consumers_give_it_time(
    late: LateConsumers, clock: Clock, ended: Pod, owner: Owner | None
) -> None:
    assert sees(late, ended, consumer("a", owner=owner)) == []
    clock.now += PATIENCE - 1
    assert released(late) == []
    clock.now += 1
    assert released(late) == [("a", "")]


def test_a_producer_that_is_deleted_and_replaced_starts_nobody(late: LateConsumers, clock: Clock) -> None:
    sees(late, producer(), consumer("a"))
    late.take(Changed(Kind.POD, producer(deleting=True)))
    assert released(late) == []
    late.take(Deleted(Kind.POD, producer()))
    clock.now += PATIENCE / 2
    late.take(Changed(Kind.POD, producer("again")))
    assert released(late) == []
    clock.now += PATIENCE
    assert released(late) == []


def test_a_producer_that_is_gone_for_good_holds_nobody_for_ever(late: LateConsumers, clock: Clock) -> None:
    sees(late, producer(), consumer("a"))
    late.take(Deleted(Kind.POD, producer()))
    assert released(late) == []
    clock.now += PATIENCE
    assert released(late) == [("a", "")]


def test_that_there_was_a_producer_outlives_the_process_that_saw_it(
    late: LateConsumers, clock: Clock
) -> None:
    assert sees(late, consumer("a"), consumer("b")) == []
    assert late.marks() == []
    sees(late, producer(), consumer("a"), consumer("b"))
    (marked,) = late.marks()
    assert late.marks() == []
    clock.now += AGAIN
    assert late.marks() == [marked]
    seen = replace(marked, annotations={**marked.annotations, PRODUCER_SEEN_ANNOTATION: "true"})
    late.take(Changed(Kind.POD, seen))
    clock.now += AGAIN
    assert late.marks() == []
    assert late.next_due is None
    restarted = LateConsumers(clock)
    assert sees(restarted, seen, consumer("b")) == []
    clock.now += PATIENCE
    assert sorted(released(restarted)) == [("a", ""), ("b", "")]


def test_consumers_wait_for_a_producer_that_was_never_there(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, consumer("a"), consumer("b")) == []
    clock.now += 100 * PATIENCE
    assert released(late) == []
    assert late.next_due is None


def test_what_others_were_told_holds_after_the_producer_is_gone(late: LateConsumers, clock: Clock) -> None:
    told = {QUANTUM_JOB_ID_ANNOTATION: "t", PRODUCER_BACKEND_ANNOTATION: "ibm_fez"}
    sibling = consumer("first", gates=(), annotations=told)
    assert sees(late, sibling, consumer("a")) == []
    clock.now += PATIENCE
    late.take(Changed(Kind.POD, sibling))
    (one,) = late.actions()
    assert one.told == told


def test_a_release_is_asked_for_again_until_it_is_seen(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, producer(annotations=DECIDED), consumer("a")) == [("a", "t")]
    assert released(late) == []
    clock.now += AGAIN
    assert released(late) == [("a", "t")]
    late.take(Changed(Kind.POD, consumer("a", gates=(GATE,))))
    clock.now += AGAIN
    assert released(late) == []
    assert late.next_due is None


def test_groups_are_told_apart_by_namespace_and_name(late: LateConsumers) -> None:
    elsewhere = replace(consumer("a"), namespace="elsewhere")
    assert sees(late, producer(annotations=DECIDED), elsewhere, consumer("b", group="h")) == []


def test_pods_of_others_are_passed_over(late: LateConsumers) -> None:
    theirs = consumer("a", scheduler="default-scheduler")
    assert sees(late, producer(annotations=DECIDED), theirs, replace(consumer("b"), labels={})) == []


def test_a_new_list_is_the_whole_truth(late: LateConsumers, clock: Clock) -> None:
    sees(late, producer(), consumer("a"), consumer("b"))
    assert sees(late, consumer("b")) == []
    clock.now += PATIENCE
    assert released(late) == [("b", "")]


@dataclass
class Releases:
    released: list[str] = field(default_factory=list)
    errors: list[ClusterError] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)

    async def annotate(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        if self.errors:
            raise self.errors.pop()
        self.marked.append(pod.name)

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        if self.errors:
            raise self.errors.pop()
        self.released.append(pod.name)


async def test_the_keeper_releases_many_and_survives_refusals(clock: Clock) -> None:
    releases = Releases(
        errors=[ClusterError("HTTP 500", 500), Gone("gone", 404), ClusterError("HTTP 500", 500)]
    )
    keeper = LateKeeper(releases, clock)
    consumers = [consumer(f"c{number}") for number in range(40)]
    keeper.take(Listed(Kind.POD, (producer(annotations=DECIDED), *consumers)))
    await keeper.work()
    assert len(releases.released) == 38
    clock.now += AGAIN
    await keeper.work()
    assert {pod.name for pod in consumers} == set(releases.released)
    assert releases.marked == ["c0"]


def test_gates_of_others_are_no_reason_to_release(late: LateConsumers) -> None:
    assert sees(late, producer(annotations=DECIDED), consumer("a", gates=("others", GATE))) == []
    assert READY_GATE not in consumer("a", gates=("others", GATE)).gates
