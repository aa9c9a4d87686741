"""Gangs that are held, and what may say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.queue.obstacles import hold_obstacle
from fluence_extender.kinds.jobset import JobSet
from fluence_extender.kinds.leaderworkerset import LeaderWorkerSet
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.kinds.replicas import ReplicaSet
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, HOLD_ANNOTATION
from fluence_extender.model.pod import Owner
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.submission import Submission
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld
from tests.unit.gangs.test_queue_obstacles import single, why


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, None),
        ("false", None),
        ("true", ReasonCode.HELD),
        ("yes", ReasonCode.INVALID_REQUEST),
        ("", ReasonCode.INVALID_REQUEST),
    ],
)
def test_hold_is_true_or_false(text: str | None, code: ReasonCode | None) -> None:
    found = hold_obstacle(text)
    assert (found.code if found else None) is code


def test_held_pod_waits_until_it_is_released(world: MakeWorld) -> None:
    w = world(node("n0"))
    pod = single(w, "a", hold="true")
    w.advance(3)
    assert why(w, "a")[0] == "Held"
    w.change(pod, annotations={HOLD_ANNOTATION: "false"})
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]


def test_held_job_gets_no_pods_and_starts_once_it_is_released(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit("a", 2)
    w.change_job(job, submission=Submission(hold="true"))
    w.advance(3)
    assert why(w, "a")[0] == "Held"
    w.jobs.quota = None
    w.advance(3)
    assert not w.jobs.pods(job)
    w.change_job(job, submission=Submission(hold="false"))
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0", "n0"]


def test_what_runs_is_not_held(world: MakeWorld) -> None:
    w = world(node("n0"))
    pod = single(w, "a")
    w.advance(3)
    w.change(pod, annotations={**w.now(pod).annotations, HOLD_ANNOTATION: "true"})
    w.advance(3)
    assert w.gang("a").state is GangState.BOUND


def test_word_of_the_workload_counts_before_that_of_its_pods(world: MakeWorld) -> None:
    w = world(node("n0"))
    owner = Owner("ReplicaSet", "web", "uid-web", "apps/v1")
    w.cluster.put(ReplicaSet("default", "web", "uid-web", 1, submission=Submission(hold="true")))
    w.advance(1)
    pod = single(w, "web-1", owner=owner)
    w.advance(3)
    assert why(w, "web-1")[0] == "Held"
    w.cluster.put(ReplicaSet("default", "web", "uid-web", 1, submission=Submission(hold="false")))
    w.change(pod, annotations={HOLD_ANNOTATION: "true"})
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]


@pytest.mark.parametrize(
    ("thing", "labels"),
    [
        (JobSet("default", "js", "u1"), {"jobset.sigs.k8s.io/jobset-name": "js"}),
        (
            LeaderWorkerSet("default", "lw", "u1"),
            {"leaderworkerset.sigs.k8s.io/name": "lw", "leaderworkerset.sigs.k8s.io/group-index": "0"},
        ),
        (PodGroup("default", "pg", "u1", 1), {}),
    ],
    ids=["jobset", "leaderworkerset", "podgroup"],
)
def test_gang_is_held_by_the_object_it_is_named_after(
    world: MakeWorld, thing: JobSet | LeaderWorkerSet | PodGroup, labels: dict[str, str]
) -> None:
    w = world(node("n0"))
    w.cluster.put(replace(thing, submission=Submission(hold="true")))
    pod = w.pod(
        "member",
        labels=labels,
        annotations={"leaderworkerset.sigs.k8s.io/size": "1"},
        group="pg" if isinstance(thing, PodGroup) else "",
        gates=(GATE,),
        requests=asks(1000, 1),
    )
    w.advance(3)
    (found,) = w.controller.registry.gangs.values()
    assert found.reason is not None
    assert found.reason.code is ReasonCode.HELD
    w.cluster.put(thing)
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]
