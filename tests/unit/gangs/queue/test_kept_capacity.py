"""Capacity that other queues keep is capacity that isn't there: a gang that needs it is busy, and gets its turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.planning.view import Decided
from fluence_extender.gangs.queue.guarantees import MOST_TIMES
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import PolicyName, Queue, Quota
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import EPOCH, UNIT, Cluster, Slot, amounts, machine, rules

KEEPS = Queue("vip", quota=Quota({"cpu": UNIT}, lendable={"cpu": 0}), uid="vip")
"""A queue that keeps one core, and is idle."""

OPEN = Queue("open", uid="open"), Queue("other", uid="other")


def code(cluster: Cluster, gang: str) -> ReasonCode | None:
    reason = cluster.gang(gang).reason
    return None if reason is None else reason.code


def test_gang_that_would_need_what_is_kept_is_busy_and_gets_a_reservation() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4}, end=50)
    w.submit("wide", 8, 1, queue="open")
    assert w.decide(0) == []
    assert code(w, "wide") is ReasonCode.BUSY
    assert w.promised() == {"wide": 50}
    w.end("r")
    assert w.decide(50) == ["wide"]


@pytest.mark.parametrize("queue", ["open", "other", ""])
def test_stream_of_small_gangs_does_not_pass_a_wide_gang_for_ever(queue: str) -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    for number in range(4):
        w.submit(f"x{number}", duration=10 + number, queue=queue)
    assert len(w.decide(0)) == 4
    w.submit("wide", 8, 1, queue="open", duration=100)
    for step in range(1, 60):
        for name in [one for one in w.pods if one.startswith("x") and w.nodes_of(one)[0]]:
            (pod,) = w.pods[name]
            if pod.duration is not None and pod.started + pod.duration <= 1_000_000 + step:
                w.end(name)
        w.submit(f"x{step + 3}", duration=10 + step % 4, queue=queue)
        if "wide" in w.decide(step):
            break
    assert w.nodes_of("wide")[0]
    assert step <= 14


def test_gang_of_undeclared_duration_does_not_take_what_is_reserved_beyond_the_kept_part() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 2}, end=50)
    w.submit("wide", 11, 1, queue="open")
    w.submit("late", duration=NEVER, queue="other")
    w.submit("soon", duration=40, queue="other")
    assert w.decide(0) == ["soon"]
    assert code(w, "late") is ReasonCode.BEHIND_RESERVATION
    w.end("soon")
    w.end("r")
    assert w.decide(50) == ["wide"]


def test_what_a_reservation_leaves_of_the_rest_can_be_used() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4}, end=50)
    w.submit("wide", 8, 1, queue="open")
    w.run("s", {"n1": 1})
    w.submit("late", 2, 1, duration=NEVER, queue="other")
    assert w.decide(0) == ["late"]
    w.end("r")
    assert w.decide(50) == ["wide"]


def test_queue_may_always_use_what_it_keeps_whatever_is_reserved() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4}, end=50)
    w.submit("wide", 8, 1, queue="open", duration=1000)
    w.submit("mine", duration=NEVER, queue="vip")
    assert w.decide(0) == ["mine"]
    w.end("r")
    assert w.decide(50) == ["wide"]


def test_drained_for_a_gang_that_has_waited_for_too_long() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN, rules(starvation_after=100))
    for number in range(4):
        w.submit(f"x{number}", duration=NEVER, queue="open")
    w.decide(0)
    w.submit("wide", 8, 1, queue="open", duration=NEVER, created=1)
    w.end("x0")
    w.submit("x4", duration=NEVER, queue="other")
    assert w.decide(50) == ["x4"]
    assert w.promised() == {}
    w.submit("x5", duration=NEVER, queue="other")
    w.decide(102)
    assert w.promised() == {"wide": NEVER}
    w.end("x1")
    assert w.decide(103) == ["wide"]
    assert code(w, "x5") is not None


def test_request_beyond_what_is_ever_left_is_unsatisfiable_and_blocks_nobody() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN, rules(PolicyName.FCFS))
    w.submit("huge", 12, 1, queue="open")
    w.submit("x", queue="open")
    assert w.decide(0) == ["x"]
    assert code(w, "huge") is ReasonCode.UNSATISFIABLE
    reason = w.gang("huge").reason
    assert reason is not None
    assert (
        "it asks for 12 cpu, which is never free: of the 12 in the cluster, other queues keep too much"
        in reason.text
    )


@pytest.mark.parametrize("keeps", [True, False])
def test_gang_that_lacks_what_foreign_pods_use_is_busy(keeps: bool) -> None:
    w = Cluster(machine(4, 4, 4), *((KEEPS,) if keeps else ()), *OPEN)
    w.run("daemon", {"n0": 1}, foreign=True)
    w.submit("wide", 11 if keeps else 12, 1, queue="open")
    assert w.decide(0) == []
    assert code(w, "wide") is ReasonCode.BUSY
    w.end("daemon")
    assert w.decide(1) == ["wide"]


def test_gang_that_no_node_can_host_is_unsatisfiable_whatever_is_kept() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4, "n1": 3})
    w.submit("tall", 1, 5, queue="open")
    assert w.decide(0) == []
    assert code(w, "tall") is ReasonCode.UNSATISFIABLE


def test_first_come_first_served_waits_for_a_gang_that_needs_what_is_kept() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN, rules(PolicyName.FCFS))
    w.run("r", {"n0": 4})
    w.submit("wide", 8, 1, queue="open")
    w.submit("x", queue="other")
    assert w.decide(0) == []


def test_gang_starts_once_its_neighbor_keeps_less() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4})
    w.submit("wide", 8, 1, queue="open")
    assert w.decide(0) == []
    w.configure(*OPEN)
    assert w.decide(1) == ["wide"]


def test_limit_comes_before_what_others_keep() -> None:
    limited = Queue("open", quota=Quota(limit={"nvidia.com/gpu": 1}), uid="open")
    w = Cluster(machine((4, 4), (4, 4), (4, 4)), KEEPS, limited)
    w.run("r", {"n0": 4}, end=50)
    w.submit_slots("wide", [Slot((1, 1))] * 8, queue="open")
    w.submit("x", 1, 1)
    assert w.decide(0) == ["x"]
    assert code(w, "wide") is ReasonCode.OVER_QUOTA
    assert w.promised() == {}


def test_members_beyond_the_size_leave_what_is_kept_and_reserved() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.submit("grows", 12, 1, queue="open", duration=NEVER)
    for pod in list(w.pods["grows"]):
        w._put("grows", replace(pod, annotations={GROUP_SIZE_ANNOTATION: "2"}))
    w.decide(0)
    assert sum(1 for node in w.nodes_of("grows") if node) == 11
    assert w.controller.queue.admission.quotas.use.used("open")["cpu"] == 11 * UNIT


def growing(w: Cluster, slots: list[Slot], size: int) -> None:
    """Let a gang of open come that is whole with ``size`` of its pods."""
    w.submit_slots("grows", slots, NEVER, queue="open")
    for pod in list(w.pods["grows"]):
        w._put("grows", replace(pod, annotations={GROUP_SIZE_ANNOTATION: str(size)}))


def test_members_beyond_the_size_that_find_no_node_are_not_tried_in_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str] = []
    attempt = Pass._try

    def counted(self: Pass, decided: Decided, *rest: Any) -> None:
        tries.append(decided.after.key.name)
        assert len(tries) < 50
        attempt(self, decided, *rest)

    monkeypatch.setattr(Pass, "_try", counted)
    w = Cluster(machine(4, 4, 4, 4), KEEPS, *OPEN)
    # The pool has room for one more of them, and not for two. No node has room for any.
    growing(w, [Slot(3)] * 6, 2)
    w.decide(0)
    assert sum(map(bool, w.nodes_of("grows"))) == 4
    tries.clear()
    w.controller.ledger.changed()
    w.decide(1)
    assert len(tries) <= 2


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_member_beyond_the_size_that_is_too_large_keeps_back_none_behind_it(keeps: bool, begun: bool) -> None:
    w = Cluster(machine(4, 4, 4), *((KEEPS,) if keeps else ()), *OPEN)
    w.run("r", {"n0": 3})
    if begun:
        growing(w, [Slot(1), Slot(1)], 2)
        w.decide(0)
    first = len(w.pods.get("grows", ()))
    slots = [Slot(1), Slot(1), Slot(9), Slot(2), Slot(2)]
    for number, slot in enumerate(slots[first:], first):
        pod = Pod(
            "default",
            f"grows-{number}",
            f"grows-{number}-x",
            {GROUP_LABEL: "grows", QUEUE_LABEL: "open"},
            {GROUP_SIZE_ANNOTATION: "2"},
            gates=(GATE,),
            requests=amounts(slot.size),
            created=EPOCH,
        )
        w.pods.setdefault("grows", [])
        w._put("grows", pod)
    w.decide(1)
    assert [bool(node) for node in w.nodes_of("grows")] == [True, True, False, True, True]


def test_member_for_other_nodes_keeps_back_none_of_its_size() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4})
    growing(w, [Slot(1), Slot(1, ("n0",)), *[Slot(1)] * 8], 1)
    w.decide(0)
    assert [bool(node) for node in w.nodes_of("grows")] == [True, False, *[True] * 6, False, False]


def test_member_whose_port_is_taken_keeps_back_none_without_a_port() -> None:
    w = Cluster(machine(4, 4), *OPEN)
    growing(w, [Slot(1), Slot(1)], 2)
    w.decide(0)
    port = (HostPort(8080),)
    for number in range(2, 6):
        member = replace(
            w.pods["grows"][0], name=f"grows-{number}", uid=f"grows-{number}-x", node="", nominated=""
        )
        w._put("grows", replace(member, gates=(GATE,), host_ports=port if number < 5 else ()))
    for now in range(1, 4):
        w.controller.ledger.changed()
        w.decide(now)
    assert [bool(node) for node in w.nodes_of("grows")][2:] == [True, True, False, True]


def test_same_is_decided_after_a_restart() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4}, end=50)
    w.submit("wide", 8, 1, queue="open")
    w.decide(0)
    again = w.restarted()
    again.decide(1)
    assert again.promised() == w.promised() == {"wide": 50}


def test_what_is_free_by_many_times_is_kept_for_a_bounded_number_of_them() -> None:
    w = Cluster(machine(4, 4, 4), KEEPS, *OPEN)
    w.run("r", {"n0": 4}, end=50)
    w.decide(0)
    pool = w.controller.queue.pool
    for time in range(3 * MOST_TIMES):
        assert bool(pool.freed(EPOCH + time, EPOCH)) == (time >= 50)
        assert len(pool._ends.freed) <= MOST_TIMES
