"""Consumers that no sidecar can release any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.cluster.port import Changed, Deleted, Listed
from fluence_extender.coordination.late import (
    MOMENT,
    PATIENCE,
    REPEAT,
    LateConsumerReconciler,
    LateConsumers,
    Release,
)
from fluence_extender.model.coordination import (
    CONSUMER_PRIORITY_CLASS,
    PRODUCER_BACKEND_ANNOTATION,
    PRODUCER_SEEN_ANNOTATION,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
)
from fluence_extender.model.names import BACKEND_ANNOTATION, GATE
from fluence_extender.model.pod import Owner, Pod
from tests.unit.coordination.fake_pods import JOB, consumer, producer

G = ("ns", "g")
GROUPS = (G, ("ns", "h"), ("elsewhere", "g"))
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
    """Return which consumers are released after a list of these pods, each with its task."""
    late.observe(Listed(Pod, pods))
    return released(late)


def releases(late: LateConsumers) -> list[Release]:
    return [one for group in GROUPS for one in late.releases(group)]


def released(late: LateConsumers) -> list[tuple[str, str]]:
    return [(one.pod.name, one.annotations[QUANTUM_JOB_ID_ANNOTATION]) for one in releases(late)]


def test_no_consumer_is_released_before_the_pods_are_listed(late: LateConsumers) -> None:
    assert not late.observe(Changed(producer(annotations=DECIDED)))
    assert not late.observe(Changed(consumer("a")))
    assert late.observe(Listed(Pod, ())) == {G}


def test_producer_that_lives_decides_itself(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, producer(), consumer("a")) == []
    clock.now += 10 * PATIENCE
    assert released(late) == []


def test_decision_of_a_living_producer_counts_for_late_consumers(late: LateConsumers) -> None:
    assert sees(late, producer(annotations=DECIDED), consumer("a")) == [("a", "t")]


def test_consumers_get_the_backend(late: LateConsumers) -> None:
    late.observe(Listed(Pod, (producer(annotations=DECIDED), consumer("a"))))
    (one,) = releases(late)
    assert one.annotations[PRODUCER_BACKEND_ANNOTATION] == "ibm_fez"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_job_whose_producer_has_ended_starts_its_late_consumers_at_once(
    late: LateConsumers, phase: str
) -> None:
    ended = producer(annotations=DECIDED, phase=phase, owner=JOB)
    assert sees(late, ended, consumer("a", owner=JOB), consumer("b", owner=JOB)) == [("a", "t"), ("b", "t")]


def test_remains_of_another_run_start_no_consumer_at_once(late: LateConsumers, clock: Clock) -> None:
    ended = producer(annotations=DECIDED, phase="Succeeded", owner=JOB)
    new = consumer("a", owner=Owner("Job", "j", "uid-second-run"))
    assert sees(late, ended, new) == []
    late.observe(Changed(producer("second-lead", created=30.0)))
    clock.now += 10 * PATIENCE
    assert released(late) == []


def test_consumers_start_if_no_other_producer_comes(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, producer(phase="Failed"), consumer("a")) == []
    clock.now += PATIENCE - 1
    assert released(late) == []
    assert late.due_in(G) == 1
    clock.now += 1
    assert released(late) == [("a", "")]


def test_producer_that_succeeded_without_a_decision_delays_consumers_for_a_moment(
    late: LateConsumers, clock: Clock
) -> None:
    late.observe(Listed(Pod, (producer(phase="Succeeded", owner=JOB), consumer("a", owner=JOB))))
    assert released(late) == []
    assert late.due_in(G) == MOMENT
    clock.now += MOMENT
    (one,) = releases(late)
    assert one.annotations[QUANTUM_JOB_ID_ANNOTATION] == ""
    assert one.annotations[PRODUCER_BACKEND_ANNOTATION] == "ibm_fez"


@pytest.mark.parametrize(
    ("ended", "owner"),
    [
        (producer(phase="Failed", owner=JOB), JOB),
        (producer(phase="Succeeded", owner=JOB, deleting=True), JOB),
        (producer(phase="Succeeded", owner=JOB), Owner("Job", "j", "uid-second-run")),
        (producer(phase="Succeeded"), None),
    ],
)
def test_consumers_wait_while_another_producer_may_come(
    late: LateConsumers, clock: Clock, ended: Pod, owner: Owner | None
) -> None:
    assert sees(late, ended, consumer("a", owner=owner)) == []
    clock.now += PATIENCE - 1
    assert released(late) == []
    clock.now += 1
    assert released(late) == [("a", "")]


def test_deleted_and_replaced_producer_starts_no_consumer(late: LateConsumers, clock: Clock) -> None:
    sees(late, producer(), consumer("a"))
    late.observe(Changed(producer(deleting=True)))
    assert released(late) == []
    late.observe(Deleted(producer()))
    clock.now += PATIENCE / 2
    late.observe(Changed(producer("again")))
    assert released(late) == []
    clock.now += PATIENCE
    assert released(late) == []


def test_consumers_start_after_their_producer_is_gone_for_good(late: LateConsumers, clock: Clock) -> None:
    sees(late, producer(), consumer("a"))
    late.observe(Deleted(producer()))
    assert released(late) == []
    clock.now += PATIENCE
    assert released(late) == [("a", "")]


def test_record_of_a_producer_outlives_the_process_that_saw_it(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, consumer("a"), consumer("b")) == []
    assert late.producer_to_record(G) is None
    sees(late, producer(), consumer("a"), consumer("b"))
    marked = late.producer_to_record(G)
    assert marked is not None
    assert late.producer_to_record(G) is None
    clock.now += REPEAT
    assert late.producer_to_record(G) == marked
    seen = replace(marked, annotations={**marked.annotations, PRODUCER_SEEN_ANNOTATION: "true"})
    late.observe(Changed(seen))
    clock.now += REPEAT
    assert late.producer_to_record(G) is None
    assert late.due_in(G) is None
    restarted = LateConsumers(clock)
    assert sees(restarted, seen, consumer("b")) == []
    clock.now += PATIENCE
    assert sorted(released(restarted)) == [("a", ""), ("b", "")]


def test_consumers_wait_for_a_producer_that_was_never_seen(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, consumer("a"), consumer("b")) == []
    clock.now += 100 * PATIENCE
    assert released(late) == []
    assert late.due_in(G) is None


def test_consumers_get_what_others_received_after_the_producer_is_gone(
    late: LateConsumers, clock: Clock
) -> None:
    received = {QUANTUM_JOB_ID_ANNOTATION: "t", PRODUCER_BACKEND_ANNOTATION: "ibm_fez"}
    sibling = consumer("first", gates=(), annotations=received)
    assert sees(late, sibling, consumer("a")) == []
    clock.now += PATIENCE
    late.observe(Changed(sibling))
    (one,) = releases(late)
    assert one.annotations == received


def test_release_is_repeated_until_it_is_observed(late: LateConsumers, clock: Clock) -> None:
    assert sees(late, producer(annotations=DECIDED), consumer("a")) == [("a", "t")]
    assert released(late) == []
    clock.now += REPEAT
    assert released(late) == [("a", "t")]
    late.observe(Changed(consumer("a", gates=(GATE,))))
    clock.now += REPEAT
    assert released(late) == []
    assert late.due_in(G) is None


# Privileged consumers preempt pods of others, and users write annotations.


def privileged(name: str, **fields: Any) -> Pod:
    return replace(consumer(name, **fields), priority_class=CONSUMER_PRIORITY_CLASS)


def test_privileged_consumer_is_released_for_a_producer_that_was_bound_with_a_backend(
    late: LateConsumers,
) -> None:
    assert sees(late, producer(annotations=DECIDED), privileged("a")) == [("a", "t")]


@pytest.mark.parametrize("node", ["", "n"])
def test_forged_producer_releases_no_privileged_consumer(
    late: LateConsumers, clock: Clock, node: str
) -> None:
    lead = producer(annotations=DECIDED)
    notes = {key: value for key, value in lead.annotations.items() if key != BACKEND_ANNOTATION or not node}
    forged = replace(lead, node=node, annotations=notes)
    assert sees(late, forged, privileged("a"), consumer("b")) == [("b", "t")]
    for ended in (replace(forged, phase="Failed"), replace(forged, deleting=True)):
        late.observe(Changed(ended))
        clock.now += 10 * PATIENCE
        assert "a" not in dict(released(late))
    late.observe(Deleted(forged))
    clock.now += 10 * PATIENCE
    assert "a" not in dict(released(late))


def test_forged_sibling_releases_no_privileged_consumer(late: LateConsumers, clock: Clock) -> None:
    forged = consumer("forged", gates=(), annotations={QUANTUM_JOB_ID_ANNOTATION: "t"})
    seen = consumer("seen", annotations={PRODUCER_SEEN_ANNOTATION: "true"})
    sees(late, forged, seen, privileged("a"), consumer("b"))
    clock.now += PATIENCE
    assert dict(released(late)).keys() == {"b", "seen"}


def test_privileged_siblings_and_their_record_are_credible(late: LateConsumers, clock: Clock) -> None:
    started = privileged("started", gates=(), annotations={QUANTUM_JOB_ID_ANNOTATION: "t"})
    sees(late, started, privileged("a"))
    clock.now += PATIENCE
    assert released(late) == [("a", "t")]


def test_producer_is_recorded_on_a_privileged_consumer_once_it_was_bound(late: LateConsumers) -> None:
    late.observe(Listed(Pod, (producer(node=""), privileged("a"))))
    assert late.producer_to_record(G) is None
    late.observe(Changed(producer()))
    recorded = late.producer_to_record(G)
    assert recorded is not None
    assert recorded.name == "a"


def test_groups_differ_by_namespace_and_name(late: LateConsumers) -> None:
    elsewhere = replace(consumer("a"), namespace="elsewhere")
    assert sees(late, producer(annotations=DECIDED), elsewhere, consumer("b", group="h")) == []


def test_foreign_pods_are_ignored(late: LateConsumers) -> None:
    theirs = consumer("a", scheduler="default-scheduler")
    assert sees(late, producer(annotations=DECIDED), theirs, replace(consumer("b"), labels={})) == []


def test_pods_missing_from_a_new_list_are_gone(late: LateConsumers, clock: Clock) -> None:
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


async def test_many_are_released_though_writes_fail(clock: Clock) -> None:
    releases = Releases(
        errors=[ClusterError("HTTP 500", 500), Gone("gone", 404), ClusterError("HTTP 500", 500)]
    )
    reconciler = LateConsumerReconciler(releases, clock)
    consumers = [consumer(f"c{number}") for number in range(40)]
    reconciler.observe(Listed(Pod, (producer(annotations=DECIDED), *consumers)))
    await reconciler.round()
    assert len(releases.released) == 38
    clock.now += REPEAT
    await reconciler.round()
    assert {pod.name for pod in consumers} == set(releases.released)
    assert releases.marked == ["c0"]


def test_pods_with_other_gates_only_are_not_released(late: LateConsumers) -> None:
    assert sees(late, producer(annotations=DECIDED), consumer("a", gates=("others", GATE))) == []
    assert READY_GATE not in consumer("a", gates=("others", GATE)).gates
