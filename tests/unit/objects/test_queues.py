"""Queues and Reservations are decoded; a field that can't be read isn't in force, and the rest is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.model.pod import Requirement
from fluence_extender.objects.queues import (
    KueueQueue,
    Namespace,
    NamespaceSelector,
    NodeReservation,
    OverrunAction,
    PastUse,
    PolicyName,
    PriorityClass,
    Queue,
    QueueLimits,
    QueuePreemption,
    QueueStatus,
    Quota,
    Reclaim,
    ReservationStatus,
    SchedulingOptions,
    Stop,
    Within,
    read_kueue_queue,
    read_namespace,
    read_priority_class,
    read_queue,
    read_reservation,
)

META = {"name": "physics", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z"}
START = "1970-01-01T00:02:00Z"


def raw(spec: Any, status: Any = None) -> bytes:
    return json.dumps({"metadata": META, "spec": spec, "status": status}).encode()


def test_past_use_is_read_and_what_cannot_have_been_used_is_not_believed() -> None:
    usage = {"at": START, "amounts": {"cpu": 1.5}, "users": {"ab": {"cpu": 0.5}}}
    status = {"conditions": [{"type": "Accepted", "status": "True"}], "share": 0.5, "used": {"cpu": "2"}}
    read = read_queue(raw({}, {**status, "usage": usage})).status
    assert read.past == PastUse(120.0, {"cpu": 1.5}, {"ab": {"cpu": 0.5}})
    assert (read.share, read.used) == (0.5, {"cpu": "2"})
    forged = read_queue(raw({}, {**status, "usage": {**usage, "amounts": {"cpu": -1}}}))
    assert (forged.status.past, forged.problems) == (None, ())


def test_queue_in_full() -> None:
    selector = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["c"]}],
    }
    spec = {
        "namespaces": {"names": ["ns"], "selector": selector},
        "defaultFor": ["physics-ns"],
        "scheduling": {
            "policy": "hybrid",
            "reservationDepth": 8,
            "queueDepth": 1000,
            "starvationAfter": "6h",
            "admissionTimeout": "5m",
        },
        "defaults": {"duration": "1h", "priorityClassName": "high"},
        "maxDuration": "1d",
        "overrun": "Requeue",
        "max": {"running": 1, "queued": 2, "runningPerUser": 3, "queuedPerUser": 4},
        "stop": "Drain",
        "parent": "research",
        "guaranteed": {"cpu": "1.5", "fluxion.flux-framework.org/qpu": 1},
        "limit": {"memory": "1Gi", "cpu": 0},
        "lendable": {"cpu": "500m"},
        "weight": 2,
        "halfLife": "7d",
        "ageing": {"classStep": "1h"},
        "preemption": {"reclaim": "Borrowed", "within": "Never", "minRuntime": "10m", "by": "Suspend"},
    }
    assert read_queue(raw(spec)) == Queue(
        "physics",
        NamespaceSelector(
            frozenset({"ns"}), (Requirement("team", "In", ("a",)), Requirement("b", "NotIn", ("c",)))
        ),
        frozenset({"physics-ns"}),
        SchedulingOptions(PolicyName.HYBRID, 8, 1000, 21600.0, 300.0),
        3600.0,
        "high",
        86400.0,
        OverrunAction.REQUEUE,
        QueueLimits(1, 2, 3, 4),
        Stop.DRAIN,
        "research",
        Quota({"cpu": 1500, "fluxion.flux-framework.org/qpu": 1}, {"memory": 2**30, "cpu": 0}, {"cpu": 500}),
        2.0,
        604800.0,
        3600.0,
        QueuePreemption(Reclaim.BORROWED, Within.NEVER, 600.0),
        uid="u",
        created=60.0,
    )


@pytest.mark.parametrize(
    "spec", [None, {}, {"namespaces": None, "scheduling": {}, "max": {}, "defaults": {}}]
)
def test_empty_queue_leaves_all_open(spec: Any) -> None:
    assert read_queue(raw(spec)) == Queue("physics", uid="u", created=60.0)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"maxDuration": "soon"},
            "spec.maxDuration is 'soon', which isn't in force: it must be a time of more than 0",
        ),
        ({"maxDuration": "0"}, "spec.maxDuration is '0'"),
        ({"defaults": {"duration": "-1h"}}, "spec.defaults.duration is '-1h'"),
        (
            {"overrun": "Kill"},
            "spec.overrun is 'Kill', which isn't in force: it must be one of Extend, Requeue, Evict",
        ),
        (
            {"stop": "Now"},
            "spec.stop is 'Now', which isn't in force: it must be one of None, Hold, Drain, Evict",
        ),
        ({"scheduling": {"policy": "lottery"}}, "spec.scheduling.policy is 'lottery'"),
        ({"scheduling": {"reservationDepth": 0}}, "spec.scheduling.reservationDepth is '0'"),
        (
            {"max": {"running": "many"}},
            "spec.max.running is 'many', which isn't in force: it must be 0 or more",
        ),
        (
            {"defaultFor": "ns2"},
            "spec.defaultFor is 'ns2', which isn't in force: Expected `array`, got `str`",
        ),
        ({"weight": 0}, "spec.weight is '0', which isn't in force: it must be more than 0"),
        ({"weight": -3}, "spec.weight is '-3'"),
        ({"halfLife": "never"}, "spec.halfLife is 'never'"),
        ({"preemption": {"reclaim": "All"}}, "spec.preemption.reclaim is 'All', which isn't in force"),
        ({"preemption": {"within": "Any"}}, "spec.preemption.within is 'Any'"),
        ({"preemption": {"minRuntime": "0"}}, "spec.preemption.minRuntime is '0'"),
        ({"preemption": {"by": "Evict"}}, "spec.preemption.by is 'Evict'"),
        (
            {"guaranteed": {"cpu": "-1"}},
            "spec.guaranteed.cpu is '-1', which isn't in force: it must be from 0",
        ),
        ({"limit": {"cpu": "1e99"}}, "spec.limit.cpu is '1e99'"),
        ({"limit": {"cpu": "lots"}}, "spec.limit.cpu is 'lots', which isn't in force: it must be a quantity"),
        ({"lendable": {"a b": 1}}, "spec.lendable.a b is '1', which isn't in force: that is no name of a"),
        ({"limit": "all"}, "spec.limit is 'all', which isn't in force: Expected `object`, got `str`"),
        ({"max": {"running": -3}}, "spec.max.running is '-3', which isn't in force: it must be 0 or more"),
        (
            {"namespaces": {"names": 5}},
            "spec.namespaces.names is '5', which isn't in force: Expected `array`",
        ),
        ({"maxDuration": "9" * 200}, "spec.maxDuration is '9999999999999999999999999999999999999999', "),
    ],
)
def test_field_that_cannot_be_read_is_told_and_the_others_count(spec: dict[str, Any], problem: str) -> None:
    found = read_queue(raw({"defaultFor": ["ns"], **spec}))
    (told,) = found.problems
    assert told.startswith(problem)
    assert (found.max_duration, found.overrun, found.stop) == (None, OverrunAction.EXTEND, Stop.NONE)
    assert found.scheduling == SchedulingOptions()
    assert (found.quota, found.weight, found.half_life) == (Quota(), None, None)
    assert found.default_for == (frozenset() if "defaultFor" in spec else {"ns"})


def test_negative_limits_are_none() -> None:
    assert read_queue(raw({"max": {"running": -3, "queued": 2}})).limits == QueueLimits(queued=2)


def test_every_problem_is_told_and_the_siblings_of_a_field_count() -> None:
    spec = {"max": {"running": "many", "queued": 3}, "limit": {"cpu": "lots", "memory": "1Gi"}, "weight": 0}
    queue = read_queue(raw(spec, {"waiting": "few", "admitted": 1}))
    assert [problem.partition(" ")[0] for problem in queue.problems] == [
        "spec.limit.cpu",
        "spec.max.running",
        "spec.weight",
        "status.waiting",
    ]
    assert (queue.limits, queue.quota) == (QueueLimits(queued=3), Quota(limit={"memory": 2**30}))
    assert queue.status.admitted == 1


def test_status_of_a_queue_is_read_back() -> None:
    conditions = [{"type": "Accepted", "status": "False", "message": "why", "lastTransitionTime": START}]
    status = {
        "waiting": 3,
        "admitted": 1,
        "conditions": conditions,
    }
    found = read_queue(raw({}, status)).status
    assert found == QueueStatus(3, 1, None, "why")
    assert found.since == START
    assert read_queue(raw({}, {"waiting": 3})).status.since == ""


def test_queue_knows_since_when_it_is_stopped() -> None:
    status = {"stoppedSince": START, "conditions": [{"type": "Accepted", "status": "True"}]}
    assert read_queue(raw({"stop": "Drain"}, status)).stopped_since == 120.0
    assert read_queue(raw({"stop": "None"}, status)).stopped_since is None
    assert read_queue(raw({"stop": "Drain"})).stopped_since is None


def test_reservation_in_full() -> None:
    spec = {
        "start": START,
        "duration": "3h",
        "nodes": {"names": ["n1"], "selector": {"matchLabels": {"rack": "7"}}},
        "queues": ["physics"],
        "reason": "firmware",
    }
    status = {"nodes": 4, "conditions": [{"type": "Accepted", "status": "True", "lastTransitionTime": START}]}
    found = read_reservation(raw(spec, status))
    rack = (Requirement("rack", "In", ("7",)),)
    assert found == NodeReservation(
        "physics", 120.0, 10800.0, frozenset({"n1"}), rack, frozenset({"physics"}), "firmware", uid="u"
    )
    assert found.end == 10920.0
    assert found.status == ReservationStatus(4)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"start": START},
        {"start": "tomorrow", "duration": "3h"},
        {"start": START, "duration": "long"},
        {"start": START, "duration": "3h", "nodes": ["n1"]},
        {"start": START, "duration": "3h", "nodes": {"names": "n1"}},
        {"start": START, "duration": "3h", "queues": "physics"},
    ],
)
def test_reservation_that_cannot_be_read_closes_nothing(spec: dict[str, Any]) -> None:
    found = read_reservation(raw(spec))
    assert found.duration == 0
    assert found.problems or not spec.get("duration") or not spec.get("start")


def test_kinds_of_others() -> None:
    assert read_namespace(b'{"metadata":{"name":"a","labels":{"x":"y"}}}') == Namespace("a", {"x": "y"})
    assert read_kueue_queue(b'{"metadata":{"name":"a","namespace":"b"}}') == KueueQueue("b", "a")
    assert read_priority_class(b'{"metadata":{"name":"a"},"value":7}') == PriorityClass("a", 7)
    given = b'{"metadata":{"name":"b"},"value":7,"globalDefault":true}'
    assert read_priority_class(given) == PriorityClass("b", 7, is_default=True)


def test_what_the_service_writes_by_itself_makes_no_other_queue() -> None:
    queue, written = Queue("physics"), Queue("physics", status=QueueStatus(3))
    assert queue == written
    assert not queue != written  # noqa: SIM202 - Structs have two operators.
    assert queue != Queue("physics", uid="u")
    assert QueueStatus(past=PastUse(1.0, {}), since="then") == QueueStatus()
    assert not QueueStatus(since="then") != QueueStatus()  # noqa: SIM202
    assert QueueStatus(1) != QueueStatus()


@pytest.mark.parametrize("told", [["all of it"], 5, None])
def test_an_object_cannot_state_its_own_problems(told: Any) -> None:
    assert read_queue(raw({"problems": told})).problems == ()


@pytest.mark.parametrize(("value", "shown"), [(True, "true"), ({"a": 1}, '{"a": 1}'), ("x" * 99, "x" * 40)])
def test_a_problem_quotes_the_begin_of_a_value(value: Any, shown: str) -> None:
    (problem,) = read_queue(raw({"halfLife": value})).problems
    assert problem.startswith(f"spec.halfLife is {shown!r}, which isn't in force")
