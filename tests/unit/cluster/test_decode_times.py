"""How long pods and Jobs run, and the topology that a PodGroup requires, are decoded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.decode.pod_groups import decode_pod_group
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.gangs.queue.ends import Ends
from fluence_extender.model.names import DURATION_ANNOTATION, KUEUE_LONGEST_LABEL
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.workload import Job
from fluence_extender.queueing.entry import NEVER

START = "2026-01-01T00:00:00Z"
AT = 1_767_225_600.0


def pod(spec: dict[str, Any], annotation: str | None = None, start: str | None = START) -> Any:
    notes = {DURATION_ANNOTATION: annotation} if annotation is not None else {}
    document = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": notes},
        "spec": {"containers": [], **spec},
        "status": {"startTime": start} if start else {},
    }
    return decode_pod(json.dumps(document).encode())


def end_of(one: Pod, job: Job | None = None, usual: float | None = None) -> float:
    """When a pod ends that was placed a second before `AT`, with its Job and its queue's default."""
    workloads = WorkloadIndex()
    if job is not None:
        workloads.put(job)
        one = replace(one, owner=Owner("Job", job.name, job.uid))
    return Ends(workloads, lambda _: usual).end(one, AT - 1)


@pytest.mark.parametrize(
    ("deadline", "annotation", "seconds"),
    [
        (None, None, None),
        (60, None, 60),
        (None, "2m", 120),
        (60, "2m", 60),
        (600, "2m", 120),
        (60, "soon", 60),
        (0, None, None),
    ],
)
def test_pod_runs_for_the_shorter_of_its_duration_and_its_deadline(
    deadline: int | None, annotation: str | None, seconds: float | None
) -> None:
    one = pod({"activeDeadlineSeconds": deadline} if deadline is not None else {}, annotation)
    assert one.duration == seconds
    assert end_of(one) == (NEVER if seconds is None else AT + seconds)


def test_kueues_label_limits_pods_and_jobs() -> None:
    labels = {KUEUE_LONGEST_LABEL: "40"}
    raw: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": labels},
        "spec": {"containers": [], "activeDeadlineSeconds": 60},
        "status": {"startTime": START},
    }
    assert decode_pod(json.dumps(raw).encode()).duration == 40
    raw["metadata"]["labels"] = {KUEUE_LONGEST_LABEL: "soon"}
    assert decode_pod(json.dumps(raw).encode()).duration == 60
    raw["metadata"]["labels"] = labels
    assert decode_job(json.dumps(raw).encode()).duration == 40


def test_pod_that_has_not_started_is_to_run_from_its_placement_on() -> None:
    one = pod({"activeDeadlineSeconds": 60}, start=None)
    assert (one.started, one.duration, end_of(one)) == (0.0, 60, AT - 1 + 60)


def test_queues_default_counts_where_nothing_else_tells_the_end() -> None:
    assert end_of(pod({}), usual=20) == AT + 20
    assert end_of(pod({"activeDeadlineSeconds": 60}), usual=20) == AT + 60


def test_pod_that_ends_after_the_last_date_has_no_known_end() -> None:
    assert end_of(pod({}, "999999999d")) == NEVER
    assert end_of(pod({"activeDeadlineSeconds": 10**18}, "2m"), Job("d", "j", "u", 1, ends=1e18)) == AT + 120


def test_job_with_a_deadline_has_an_end() -> None:
    document = {
        "metadata": {"name": "j", "namespace": "d", "uid": "u"},
        "spec": {"activeDeadlineSeconds": 30},
        "status": {"startTime": START},
    }
    job = decode_job(json.dumps(document).encode())
    assert (job.duration, job.ends) == (30, AT + 30)
    assert end_of(pod({}), job) == AT + 30
    assert end_of(pod({"activeDeadlineSeconds": 10}), job) == AT + 10
    assert end_of(pod({}), Job("d", "j", "u", 1)) == NEVER


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        ({"spec": {"activeDeadlineSeconds": 30}}, 30),
        ({"metadata": {"annotations": {DURATION_ANNOTATION: "1m"}}}, 60),
        (
            {
                "metadata": {"annotations": {DURATION_ANNOTATION: "10s"}},
                "spec": {"activeDeadlineSeconds": 30},
            },
            10,
        ),
        ({"metadata": {"labels": {KUEUE_LONGEST_LABEL: "40"}}}, 40),
        ({"metadata": {"annotations": {DURATION_ANNOTATION: "soon"}}}, None),
        ({}, None),
    ],
)
def test_job_that_has_not_started_says_how_long_its_pods_run(
    job: dict[str, Any], seconds: float | None
) -> None:
    meta = {"name": "j", "namespace": "d", "uid": "u", **job.get("metadata", {})}
    made = decode_job(json.dumps({"metadata": meta, "spec": job.get("spec", {})}).encode())
    assert made.ends is None
    assert end_of(pod({}, start=None), made) == (NEVER if seconds is None else AT - 1 + seconds)
    assert end_of(pod({}, "5s", start=None), made) == AT - 1 + 5


@pytest.mark.parametrize(
    ("constraints", "levels"),
    [
        (None, ()),
        ({}, ()),
        ({"topology": None}, ()),
        ({"topology": [{"key": "example.com/rack"}]}, ("example.com/rack",)),
        ({"topology": [{}, {"key": "b"}]}, ("b",)),
    ],
)
def test_topology_constraints_of_a_pod_group_are_its_levels(
    constraints: object, levels: tuple[str, ...]
) -> None:
    document = {
        "metadata": {"name": "g", "namespace": "d", "uid": "u"},
        "spec": {"schedulingConstraints": constraints},
    }
    assert decode_pod_group(json.dumps(document).encode()).levels == levels
