"""What-if says what the queue would do with a gang: wait behind a reservation, be held, or not be taken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    DURATION_ANNOTATION,
    GATE,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
    QUEUE_LABEL,
)
from fluence_extender.model.notation import format_time
from fluence_extender.objects.queues import (
    DEFAULT_QUEUE,
    NodeReservation,
    Queue,
    QueueLimits,
    QueuePreemption,
    Quota,
    Reclaim,
    SchedulingOptions,
    Stop,
)
from fluence_extender.queueing.entry import PolicyName
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang
from tests.unit.gangs.test_queue_reservations import running, use
from tests.unit.whatif.conftest import job
from tests.unit.whatif.test_simulator import simulated


def asked(
    name: str, cpu: str, duration: str = "", priority: int = 0, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """A Job of one pod that declares how long it runs."""
    made = job(name, 1, cpu)
    template = made["spec"]["template"]
    if duration:
        template["metadata"]["annotations"] = {DURATION_ANNOTATION: duration}
    if priority:
        template["spec"]["priorityClassName"] = f"of-{priority}"
    made["metadata"]["annotations"] = annotations or {}
    return made


def answer(w: World, manifest: dict[str, Any]) -> tuple[bool, str]:
    """Whether it fits now, and the code of the reason why not."""
    (found,) = simulated(w, manifest)
    return found["fits"], found["why"]


@pytest.fixture
def behind_a_head(world: MakeWorld) -> World:
    """One node is full for 1,000 s, and a gang that needs both waits for it; one of them is free until then."""
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    assert w.controller.queue.reservations()
    return w


def test_long_job_would_wait_behind_the_reservation_and_a_short_one_would_start(behind_a_head: World) -> None:
    w = behind_a_head
    assert answer(w, asked("long", "3", "2h")) == (False, "BehindReservation")
    assert answer(w, asked("endless", "3")) == (False, "BehindReservation")
    assert answer(w, asked("short", "3", "5m")) == (True, "")
    assert answer(w, asked("urgent", "3", "2h", priority=10)) == (True, "")


def test_what_a_job_itself_says_about_its_end_counts(behind_a_head: World) -> None:
    for said, fits in ((600, True), (7200, False)):
        limited = asked("limited", "3")
        limited["spec"]["activeDeadlineSeconds"] = said
        noted = asked("noted", "3", annotations={DURATION_ANNOTATION: f"{said}"})
        assert [answer(behind_a_head, one)[0] for one in (limited, noted)] == [fits, fits]


@pytest.mark.parametrize(
    ("duration", "fitting"), [("2h", {"cpu": "1 cpu"}), ("5m", {"members": "1", "cpu": "2 cpu"})]
)
def test_what_would_fit_leaves_what_is_reserved(
    behind_a_head: World, duration: str, fitting: dict[str, str]
) -> None:
    manifest = job("two", 2, "3")
    manifest["spec"]["template"]["metadata"]["annotations"] = {DURATION_ANNOTATION: duration}
    (found,) = simulated(behind_a_head, manifest)
    assert (found["fits"], found["why"]) == (False, "Busy")
    assert {one["what"]: one["fitting"] for one in found["reductions"]} == fitting


@pytest.mark.parametrize(("duration", "starts"), [("2h", False), ("5m", True)])
def test_pods_beyond_the_size_are_not_said_to_start_where_room_is_reserved(
    behind_a_head: World, duration: str, starts: bool
) -> None:
    manifest = job("two", 2, "3")
    said = {DURATION_ANNOTATION: duration, GROUP_SIZE_ANNOTATION: "1"}
    manifest["spec"]["template"]["metadata"]["annotations"] = said
    (found,) = simulated(behind_a_head, manifest)
    assert not found["fits"]
    assert ("1 pod starts now all the same" in found["reason"]) is starts


def test_prediction_is_what_happens(behind_a_head: World) -> None:
    w = behind_a_head
    for name, seconds in (("long", 7200), ("short", 300)):
        fits, _ = answer(w, asked(name, "3", f"{seconds}s"))
        (pod,) = gang(w, name, 3000, duration=seconds)
        w.advance(1)
        assert bool(w.now(pod).node) is fits


def test_gangs_of_one_question_keep_out_of_the_way_of_the_first_that_waits(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    wide, long, short = job("wide", 2, "3"), asked("long", "3", "2h"), asked("short", "3", "5m")
    found = simulated(w, wide, long, short)
    assert [one["why"] for one in found] == ["Busy", "BehindReservation", ""]
    assert found[0]["earliestStart"] is not None
    assert [one["why"] for one in simulated(w, long)] == [""]


def test_each_gang_of_a_question_keeps_out_of_the_way_of_those_ahead_of_it_alone(
    behind_a_head: World,
) -> None:
    urgent = asked("urgent", "2", "2h", priority=10)
    found = simulated(behind_a_head, asked("long", "2", "2h"), urgent, asked("later", "2", "3h"))
    assert [one["why"] for one in found] == ["BehindReservation", "", "BehindReservation"]


def test_places_of_a_gang_that_goes_first_are_taken_for_those_behind_a_reservation(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    running(w, "runs", 3000, 1000)
    gang(w, "wide", 3000, 3000, 3000, duration=100)
    w.advance(1)
    assert w.controller.queue.reservations()
    found = simulated(
        w, asked("urgent", "4", "2h", priority=10), asked("short", "4", "5m"), asked("more", "4", "5m")
    )
    assert [(one["fits"], one["why"]) for one in found] == [(True, ""), (True, ""), (False, "Busy")]


def test_running_limit_holds_for_the_gangs_of_one_question_together(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.controller.queue.settings.put(Queue(DEFAULT_QUEUE, limits=QueueLimits(running=1)))
    w.advance(1)
    found = simulated(w, asked("first", "1"), asked("second", "1"))
    assert [one["why"] for one in found] == ["", "Queued"]


def test_earliest_start_is_beside_what_is_reserved_for_gangs_ahead(behind_a_head: World) -> None:
    w = behind_a_head
    (found,) = simulated(w, job("two", 2, "3"))
    (kept,) = w.controller.queue.reservations()
    assert kept.end is not None
    assert found["earliestStart"] == format_time(datetime.fromtimestamp(kept.end, UTC))


def test_nobody_overtakes_under_fcfs(behind_a_head: World) -> None:
    w = behind_a_head
    use(w, SchedulingOptions(policy=PolicyName.FCFS))
    w.advance(1)
    assert answer(w, asked("short", "3", "5m")) == (False, "Queued")


def test_nothing_of_a_question_is_left_in_the_queue(behind_a_head: World) -> None:
    w = behind_a_head
    before = w.controller.queue.line(), w.controller.queue.reservations(), w.controller.ledger.version
    answer(w, asked("long", "3", "2h"))
    assert before == (
        w.controller.queue.line(),
        w.controller.queue.reservations(),
        w.controller.ledger.version,
    )


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({HOLD_ANNOTATION: "true"}, "Held"),
        ({HOLD_ANNOTATION: "maybe"}, "InvalidRequest"),
        ({AFTER_ANNOTATION: "ok:job/prep"}, "WaitsFor"),
        ({AFTER_ANNOTATION: "prep"}, "InvalidRequest"),
    ],
)
def test_job_that_is_held_back_would_wait(world: MakeWorld, annotations: dict[str, str], why: str) -> None:
    assert answer(world(node("n0")), asked("a", "1", annotations=annotations)) == (False, why)


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        (Queue(DEFAULT_QUEUE, stop=Stop.HOLD), "QueueStopped"),
        (Queue(DEFAULT_QUEUE, stop=Stop.DRAIN, stopped_since=0.0), "QueueStopped"),
        (Queue(DEFAULT_QUEUE, max_duration=60.0), "InvalidRequest"),
        (Queue(DEFAULT_QUEUE, limits=QueueLimits(running=1)), "Queued"),
        (Queue(DEFAULT_QUEUE, limits=QueueLimits(running=2)), ""),
    ],
)
def test_queue_that_takes_nothing_is_named(world: MakeWorld, queue: Queue, why: str) -> None:
    w = world(node("n0"))
    running(w, "runs", 1000, 1000)
    w.controller.queue.settings.put(queue)
    w.advance(1)
    assert answer(w, asked("a", "1", "5m"))[1] == why


def test_queue_that_does_not_exist_is_named_with_the_nearest(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.controller.queue.settings.put(Queue("physics"))
    manifest = asked("a", "1")
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "phisics"}
    (found,) = simulated(w, manifest)
    assert (found["fits"], found["why"]) == (False, "NoQueue")
    assert "physics" in found["reason"]


def test_nodes_of_a_reservation_are_no_place_for_others(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.controller.queue.settings.put(Queue("upkeep"))
    start = w.loop.time() + 600
    w.controller.queue.settings.put(NodeReservation("rack7", start, 3600, queues=frozenset({"upkeep"})))
    w.advance(1)
    assert answer(w, asked("short", "1", "5m")) == (True, "")
    (long,) = simulated(w, asked("long", "1", "2h"))
    assert (long["fits"], long["reason"]) == (
        False,
        "behind a reservation: it would fit now, but Reservation rack7 closes nodes that it needs before it would end",
    )
    manifest = asked("upkeep", "1", "2h")
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "upkeep"}
    assert answer(w, manifest) == (True, "")


def test_what_a_queue_takes_back_is_named(world: MakeWorld) -> None:
    w = world(node("n0"))
    back = QueuePreemption(Reclaim.BORROWED)
    for name in ("owner", "borrower"):
        w.controller.queue.settings.put(
            Queue(name, quota=Quota(guaranteed={"cpu": 2000}), preemption=back, uid=name)
        )
    w.advance(1)
    for number in range(2):
        w.pod(f"pod-{number}", labels={QUEUE_LABEL: "borrower"}, requests=asks(2000, 1), gates=(GATE,))
        w.advance(1)
    manifest = asked("mine", "2")
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "owner"}
    (found,) = simulated(w, manifest)
    assert found["preemption"]["outcome"] == "Preempts"
    (victim,) = found["preemption"]["victims"]
    assert victim["gang"].startswith("default/pod-")
