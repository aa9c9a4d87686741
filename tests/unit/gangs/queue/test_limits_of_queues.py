"""A pass judges limits and quotas: what they keep waiting starts once they allow it, and holds up nobody else."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import PolicyName, Queue, QueueLimits, Quota
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import Cluster, machine, rules

LIMITS = {
    "max.running": Queue("a", limits=QueueLimits(running=1), uid="a"),
    "max.runningPerUser": Queue("a", limits=QueueLimits(running_per_user=1), uid="a"),
    "quota": Queue("a", quota=Quota(limit={"cpu": 1000}), uid="a"),
}
CODES = (ReasonCode.QUEUED, ReasonCode.OVER_USER_LIMIT, ReasonCode.OVER_QUOTA)


@pytest.fixture(params=LIMITS)
def queue(request: pytest.FixtureRequest) -> Queue:
    return LIMITS[request.param]


def waits_for_limit(w: Cluster, name: str) -> bool:
    reason = w.gang(name).reason
    return reason is not None and reason.code in CODES


@pytest.mark.parametrize("policy", list(PolicyName))
def test_gang_that_a_limit_keeps_waiting_stops_nobody_behind_it(queue: Queue, policy: PolicyName) -> None:
    w = Cluster(machine(4), rules(policy), queue)
    for name, where in (("a1", "a"), ("a2", "a"), ("b1", ""), ("b2", "")):
        w.submit(name, queue=where)
    assert w.decide(0) == ["a1", "b1", "b2"]
    assert waits_for_limit(w, "a2")
    assert w.promised() == {}
    w.end("a1")
    assert w.decide(1) == ["a2"]


def test_nothing_stays_reserved_for_a_gang_whose_limit_is_reached_by_one_behind_it() -> None:
    w = Cluster(machine(8, 1), rules(PolicyName.EASY), LIMITS["max.running"])
    w.run("long", {"n0": 6}, end=1000)
    w.submit("large", size=8, queue="a")
    assert w.decide(0) == []
    assert w.promised() == {"large": 1000}
    # Without a known end, a start tells nothing new about when nodes come free.
    w.submit("small", nodes=("n1",), queue="a", duration=NEVER)
    w.submit("other", nodes=("n0",), duration=5000)
    assert w.decide(1) == ["small", "other"]
    assert waits_for_limit(w, "large")
    assert w.promised() == {}
    assert w.gang("large").starts_about is None
    w.end("small")
    assert w.decide(2) == []
    assert w.promised() == {"large": 5001}


def test_gang_is_one_of_those_in_line_once_an_older_one_has_started() -> None:
    w = Cluster(machine(4), Queue("a", limits=QueueLimits(queued=1), uid="a"))
    w.submit("older", queue="a")
    w.submit("higher", queue="a", priority=5)
    # In the order of the line, the older one starts after the other was found to be too many.
    assert w.decide(0) == ["older", "higher"]


def test_decision_of_a_pass_is_dropped_if_a_limit_was_stated_meanwhile(queue: Queue) -> None:
    w = Cluster(machine(4), Queue("a", quota=Quota(limit={"cpu": 4000}), uid="a"))
    w.submit("a1", queue="a")
    w.submit("a2", queue="a")
    view = w.controller.begin()
    assert view is not None
    plan = w.controller.plan(view)
    w.configure(queue)
    # Meanwhile the event loop looks at the gangs again.
    assert w.controller.begin() is None
    w.controller.finish(None)
    w.controller.finish(plan)
    assert all(w.gang(name).placeless() for name in ("a1", "a2"))
    assert w.decide(1) == ["a1"]
    assert waits_for_limit(w, "a2")


def test_many_gangs_that_wait_for_the_same_limit_are_not_tried_one_by_one(queue: Queue) -> None:
    w = Cluster(machine(4), queue)
    for number in range(50):
        w.submit(f"a{number:02}", queue="a")
    tries: list[str] = []
    decide = Pass.decide

    def counted(made: Pass, gang, rank):  # type: ignore[no-untyped-def]
        tries.append(gang.key.name)
        return decide(made, gang, rank)

    with patch.object(Pass, "decide", counted):
        assert w.decide(0) == ["a00"]
        w.end("a00")
        assert w.decide(1) == ["a01"]
    assert tries == ["a00", "a01"]
    assert all(waits_for_limit(w, f"a{number:02}") for number in range(2, 50))
