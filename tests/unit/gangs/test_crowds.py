"""What a crowd of one namespace costs others: what a rule blocks costs nothing, and what can't fit costs one turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from msgspec import structs

from fluence_extender.cluster.port import Changed, Deleted, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle.lifecycle import ALL_FIRST, EVALUATED_WITHIN
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.queue import guarantees, settings
from fluence_extender.gangs.queue.submissions import turn
from fluence_extender.model import pod_keys
from fluence_extender.model.gang import GangKey
from fluence_extender.model.hints import MOST_WORDS
from fluence_extender.model.names import AFTER_ANNOTATION, DOMAIN, HOLD_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import (
    DEFAULT_QUEUE,
    PolicyName,
    Queue,
    QueueLimits,
    Quota,
    SchedulingOptions,
    Stop,
)
from fluence_extender.queueing.entry import expected_end
from fluence_extender.queueing.shares import Ranking
from fluence_extender.room.ledger import Ledger
from tests.core.values import node
from tests.unit.gangs.crowds import (
    BLOCKED,
    CROWD,
    TEAM,
    Fields,
    Work,
    cluster,
    crowd,
    hub,
    incomplete,
    of_no_queue,
    of_other_shapes,
    of_team,
    pod,
    room_comes,
    settle,
    steered,
    steps_until_placed,
    toggled,
)


@pytest.mark.parametrize("kind", BLOCKED)
def test_what_a_rule_blocks_costs_nothing_but_its_own_changes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    says, queue, code = BLOCKED[kind]
    work = Work(monkeypatch)
    controller = cluster(work, queue)
    pods = crowd(controller, says)
    waiting = Counter(gang.reason.code for gang in controller.registry.gangs.values() if gang.reason)
    assert waiting[code] >= CROWD - 1
    work.reset()
    controller.ledger.changed()
    assert steps_until_placed(controller, pod("other", 1)) == 1
    assert work.done["attempts"] == 1
    assert work.done["looks"] <= 2
    work.reset()
    for changed in islice(toggled(pods[10:]), 40):
        controller.observe(Changed(changed))
        settle(controller)
    assert work.done["attempts"] == 0
    assert work.done["looks"] <= 40
    assert work.done["circles"] == 0


def test_crowd_that_can_not_fit_delays_others_by_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    controller = cluster(work)
    crowd(controller, of_other_shapes)
    for step in range(5):
        # The other pod is the last in order.
        room_comes(controller, step)
        work.reset()
        assert steps_until_placed(controller, pod("other", CROWD + step)) == 1
        assert work.done["attempts"] <= CROWD + 1
        controller.observe(Deleted(pod("other", CROWD + step)))


def test_service_tells_for_how_long_a_gang_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    controller = cluster(work)
    for number in range(20):
        controller.observe(Changed(pod("crowd", number, **of_other_shapes(number))))
    settle(controller)
    work.now += 1000
    assert controller.lifecycle.untried_for() == 0
    room_comes(controller, 0)
    view = controller.begin()
    assert view is not None
    controller.finish(None)
    work.now += 5
    assert controller.lifecycle.untried_for() == 5
    assert controller.begin() is None, "one pass at a time"
    controller.finish(controller.plan(view))
    assert controller.lifecycle.untried_for() == 0


def test_crowd_without_all_members_delays_others_by_a_constant_while_nodes_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch)
    never = Places.never

    def timed(*args: Any) -> Any:
        work.now += 0.0002
        work.done["judged"] += 1
        return never(*args)

    monkeypatch.setattr(Places, "never", timed)
    controller = cluster(work)
    crowd(controller, incomplete)
    work.reset()
    took: list[float] = []
    for step in range(20):
        room_comes(controller, step)
        other = pod("other", step)
        assert steps_until_placed(controller, other) <= ALL_FIRST + 2
        controller.observe(Deleted(other))
        began = work.now
        controller.step()
        took.append(work.now - began)
    assert max(took) <= 2 * EVALUATED_WITHIN
    settle(controller)
    # Events that come faster than gangs are looked at add nothing.
    assert work.done["judged"] <= 2 * CROWD


def test_crowd_of_changed_gangs_delays_others_by_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    controller = cluster(work)
    pods = crowd(controller, hub)
    steps = []
    for number in range(5):
        # All wait for this one, so each of its ends is looked at by all.
        controller.observe(Deleted(pods[1]) if number % 2 == 0 else Changed(pods[1]))
        steps.append(steps_until_placed(controller, pod("other", number)))
    assert max(steps) <= 20
    settle(controller)


def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that are compared with others from now on."""
    found: list[str] = []

    def match(word: str, *_: object, **__: object) -> list[str]:
        found.append(word)
        return []

    for module in (settings, pod_keys):
        monkeypatch.setattr(module, "get_close_matches", match)
    return found


def test_names_of_queues_are_not_compared_on_the_way_to_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = compared(monkeypatch)
    work = Work(monkeypatch)
    controller = cluster(work)
    crowd(controller, of_no_queue)
    controller.ledger.changed()
    assert steps_until_placed(controller, pod("other", 1)) == 1
    assert asked == []
    work.now += 100
    settle(controller)
    # Each of them has an Event, and the first ones have the name of a queue in it.
    assert len(asked) == MOST_WORDS


def test_unknown_keys_of_a_crowd_are_compared_for_a_bounded_number_of_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = compared(monkeypatch)
    controller = cluster(Work(monkeypatch))

    def misspelt(number: int) -> Fields:
        return {"annotations": {f"{DOMAIN}/hould-{number}-{other}": "true" for other in range(20)}}

    crowd(controller, misspelt)
    assert 0 < len(asked) <= MOST_WORDS


@pytest.mark.parametrize("before", [None, 3600.0], ids=["set", "changed"])
def test_duration_of_a_queue_is_taken_up_in_small_steps(
    before: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(monkeypatch)
    controller = cluster(work, Queue(TEAM, stop=Stop.HOLD, max_duration=before, uid="team"))
    pods = crowd(controller, of_team)
    edited = Queue(TEAM, stop=Stop.HOLD, max_duration=60.0, uid="team")
    controller.observe(Changed(edited))
    took: list[float] = []
    other = pod("other", 1)
    controller.observe(Changed(other))
    placed = False
    while controller.lifecycle.restless or not took:
        began = work.now
        placed |= "other/c0001" in steered(controller)
        assert placed or len(took) < 20
        took.append(work.now - began)
    assert max(took) <= 2 * EVALUATED_WITHIN
    assert all(controller.queue.ends.end(one, 0.0) == 60.0 for one in pods)


def test_shares_of_a_crowd_are_found_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    controller = cluster(work, Queue(TEAM, weight=2.0, uid="team"))
    entitlement, ranked = Ranking.entitlement, list[float]()

    def noted(*args: Any) -> Any:
        ranked.append(work.now)
        return entitlement(*args)

    monkeypatch.setattr(Ranking, "entitlement", noted)
    crowd(controller, lambda number: {**of_team(number), **of_other_shapes(number)})
    for number in range(5):
        assert steps_until_placed(controller, pod("other", CROWD + number)) <= 2
        ranked.clear()
        view = controller.begin()
        assert not ranked
        plan = None if view is None else controller.plan(view)
        ranked.clear()
        controller.finish(plan)
        assert not ranked
    settle(controller)
    waiting = [one.gang for one in controller.queue.turns.line]
    assert waiting == sorted(waiting, key=turn)


def test_gang_is_released_by_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = cluster(Work(monkeypatch))
    waiting = pod("crowd", 2, annotations={AFTER_ANNOTATION: "ok:gang/c0001"})
    first = pod("crowd", 1, annotations={HOLD_ANNOTATION: "true"})
    for one in (waiting, first):
        controller.observe(Changed(one))
    assert settle(controller) == []
    first = replace(first, annotations={})
    controller.observe(Changed(first))
    assert settle(controller) == ["crowd/c0001"]
    controller.observe(Changed(replace(first, gates=(), node="n0", phase="Running")))
    assert settle(controller) == []
    controller.observe(Changed(replace(first, gates=(), node="n0", phase="Succeeded")))
    assert settle(controller) == ["crowd/c0002"]


@pytest.mark.parametrize(
    "limits", [QueueLimits(running=2), QueueLimits(running_per_user=2)], ids=["running", "runningPerUser"]
)
def test_limit_lets_the_next_in_order_start(limits: QueueLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    controller = cluster(work, Queue(TEAM, limits=limits, uid="team"))
    for number in range(200):
        priority = int(number == 150)
        controller.observe(Changed(pod("crowd", number, priority=priority, **of_team(number))))
    assert sorted(settle(controller)) == ["crowd/c0000", "crowd/c0150"]
    work.reset()
    controller.observe(Deleted(pod("crowd", 150)))
    assert settle(controller) == ["crowd/c0001"]
    assert work.done["looks"] <= 40


def test_limit_lets_one_start_that_is_far_behind_if_those_before_it_have_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = cluster(Work(monkeypatch), Queue(TEAM, limits=QueueLimits(running=1), uid="team"))
    running = pod("crowd", 0, **of_team(0))
    controller.observe(Changed(running))
    assert settle(controller) == ["crowd/c0000"]
    for number in range(1, 200):
        fields = {**of_team(number), **of_other_shapes(number)} if number < 199 else of_team(number)
        controller.observe(Changed(pod("crowd", number, **fields)))
    assert settle(controller) == []
    controller.observe(Deleted(running))
    assert settle(controller) == ["crowd/c0199"]


def test_circle_is_found_by_all_on_it_when_it_closes_and_when_it_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch)
    controller = cluster(work)
    pods = [
        pod("crowd", number, annotations={AFTER_ANNOTATION: f"ok:gang/c{number + 1:04}"})
        for number in range(9)
    ]
    last = pod("crowd", 9, annotations={HOLD_ANNOTATION: "true"})
    for one in (*pods, last):
        controller.observe(Changed(one))
    settle(controller)

    def in_circle() -> int:
        gangs = controller.registry.gangs.values()
        return sum("in a circle" in one.reason.text for one in gangs if one.reason is not None)

    assert in_circle() == 0
    controller.observe(Changed(replace(last, annotations={AFTER_ANNOTATION: "ok:gang/c0000"})))
    settle(controller)
    assert in_circle() == 10
    work.reset()
    controller.ledger.changed()
    settle(controller)
    assert work.done["circles"] == 0
    controller.observe(Changed(last))
    settle(controller)
    assert in_circle() == 0


def test_room_that_comes_in_a_queue_is_given_in_order_and_tried_by_a_bounded_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(monkeypatch)
    quota = Quota(limit={"cpu": 350})
    controller = cluster(work, Queue(TEAM, quota=quota, uid="team"))
    pods = crowd(controller, lambda number: {**of_team(number), "requests": millicores(100 + number % 7)})
    running = [one for one in pods if controller.registry.gangs[key_of(controller, one)].reason is None]
    assert running == pods[:3]
    work.reset()
    controller.observe(Deleted(pods[1]))
    assert settle(controller) == ["crowd/c0003"]
    assert work.done["attempts"] <= 2
    work.reset()
    controller.observe(Deleted(pods[3]))
    controller.observe(Changed(pod("crowd", CROWD, **of_team(0))))
    # The newest fits as well, but it is the last in order.
    assert settle(controller) == ["crowd/c0004"]
    assert work.done["attempts"] <= 3


def test_reason_of_a_gang_over_quota_follows_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    queue = Queue(TEAM, quota=Quota(limit={"cpu": 150}), uid="team")
    controller = cluster(work, queue)
    pods = crowd(controller, of_team)
    last = controller.registry.gangs[key_of(controller, pods[-1])]
    assert last.reason is not None
    assert "queue team may use 150m cpu (limit.cpu)" in last.reason.text
    controller.observe(Changed(structs.replace(queue, quota=Quota(limit={"cpu": 180}))))
    settle(controller)
    assert "queue team may use 180m cpu (limit.cpu)" in last.reason.text
    work.reset()
    controller.observe(Changed(structs.replace(queue, quota=Quota(limit={"cpu": 250}))))
    assert settle(controller) == ["crowd/c0001"]
    assert "queue team may use 250m cpu (limit.cpu)" in last.reason.text


@pytest.mark.parametrize("wide", [0, 8], ids=["alone", "behind reservations"])
def test_crowd_short_of_what_queues_keep_is_judged_without_counting_all_that_runs_for_each(
    wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(monkeypatch)
    counted: Counter[str] = Counter()

    def counting(*args: float) -> float:
        counted["ends"] += 1
        return expected_end(*args)

    monkeypatch.setattr(guarantees, "expected_end", counting)
    keeps = Queue("vip", quota=Quota({"cpu": 300}, lendable={"cpu": 0}), uid="vip")
    ledger = Ledger()
    controller = Controller(ledger, clock=work, calendar=lambda: 1000 + work.now)
    # What queues keep is all that is free, or all but half a core if that is reserved.
    nodes = (node("n0", cpu=2000 * 100 + 300 + 500 * bool(wide), pods=10_000),)
    controller.observe(Listed(Node, nodes))
    rules = SchedulingOptions(PolicyName.CONSERVATIVE, 8)
    controller.observe(Listed(Queue, (Queue(DEFAULT_QUEUE, scheduling=rules, uid="default"), keeps)))
    controller.start()
    running = [
        pod("run", number, gates=(), node="n0", phase="Running", started=1000.0, duration=5000.0 + number)
        for number in range(CROWD)
    ]
    for one in running:
        controller.observe(Changed(one))
    for number in range(wide):
        fields: Fields = {"requests": millicores(2000 + 100 * number), "duration": 1e6}
        controller.observe(Changed(pod("wide", number, priority=9, preempts=False, **fields)))
    settle(controller)
    counted.clear()
    took: list[float] = []
    for number in range(CROWD):
        controller.observe(Changed(pod("crowd", number, duration=1e6 + number)))
    while controller.lifecycle.restless or not took:
        began = work.now
        assert steered(controller) == []
        took.append(work.now - began)
    assert max(took) <= 2 * EVALUATED_WITHIN
    codes = Counter(
        gang.reason.code for gang in controller.registry.gangs.values() if gang.reason is not None
    )
    assert codes[ReasonCode.BEHIND_RESERVATION if wide else ReasonCode.BUSY] >= CROWD
    assert counted["ends"] <= 3 * CROWD
    # Others that need nothing of it are served at once.
    vip = pod("other", 1, labels={QUEUE_LABEL: "vip"})
    assert steps_until_placed(controller, vip) == 1


def millicores(amount: int) -> Resources:
    return Resources({"cpu": amount, "pods": 1})


def key_of(controller: Controller, one: Pod) -> GangKey:
    found = controller.member(one.uid)
    assert found is not None
    return found[0].key
