"""How long pods and their workloads run, and the topology that a PodGroup requires, are decoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.gangs.queue.submissions import Ends
from fluence_extender.kinds.job import Job, decode_job
from fluence_extender.kinds.jobset import decode_job_set
from fluence_extender.kinds.leaderworkerset import decode_leader_worker_set
from fluence_extender.kinds.mpijob import decode_mpi_job
from fluence_extender.kinds.podgroups import decode_pod_group
from fluence_extender.kinds.ray import RayCluster, RayJob, decode_ray_cluster, decode_ray_job
from fluence_extender.kinds.replicas import decode_replica_set, decode_stateful_set
from fluence_extender.kinds.trainjob import decode_train_job
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.names import (
    DURATION_ANNOTATION,
    JOB_SET_NAME,
    KUEUE_LONGEST_LABEL,
    LWS_NAME,
    MPI_OPERATOR,
    RAY_CLUSTER,
    RAY_NODE,
    REPLICATED_JOB,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
)
from fluence_extender.model.pod import Owner, Pod
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


def owned(kind: str, group: str) -> list[dict[str, Any]]:
    return [{"apiVersion": f"{group}/v1", "kind": kind, "name": "w", "uid": "uid-w", "controller": True}]


KUEUES = {"metadata": {"labels": {KUEUE_LONGEST_LABEL: "40"}}}
NOTED = {"metadata": {"annotations": {DURATION_ANNOTATION: "40s"}}}
DEADLINE = {"spec": {"activeDeadlineSeconds": 40}}
STARTED = {**DEADLINE, "status": {"startTime": START}}
OF_TRAIN_JOB = {"metadata": {"ownerReferences": owned("TrainJob", "trainer.kubeflow.org")}}
OF_RAY_JOB = {"metadata": {"ownerReferences": owned("RayJob", "ray.io")}}
REPLICATED = {
    "spec": {"replicatedJobs": [{"name": "r", "template": DEADLINE}, {"name": "s", "template": NOTED}]}
}
IN_JOB_SET = {JOB_SET_NAME: "w", REPLICATED_JOB: "r"}
OF_MPI_JOB = {TRAINING_OPERATOR: MPI_OPERATOR, TRAINING_JOB_NAME: "w"}

Stated = tuple[Callable[[bytes], Workload], dict[str, Any]]
"""How an object is decoded, and what is in it beside its name."""


@pytest.mark.parametrize("said", [KUEUES, NOTED], ids=["Kueue's label", "annotation"])
@pytest.mark.parametrize(
    ("decode", "labels", "kind"),
    [
        (decode_job, {}, "Job"),
        (decode_job_set, IN_JOB_SET, ""),
        (decode_leader_worker_set, {LWS_NAME: "w"}, ""),
        (decode_mpi_job, OF_MPI_JOB, ""),
        (decode_mpi_job, {}, "MPIJob"),
        (decode_ray_cluster, {RAY_CLUSTER: "w"}, ""),
        (decode_replica_set, {}, "ReplicaSet"),
        (decode_stateful_set, {}, "StatefulSet"),
    ],
)
def test_each_workload_may_say_how_long_its_pods_run(
    decode: Callable[[bytes], Workload], labels: dict[str, str], kind: str, said: dict[str, Any]
) -> None:
    assert end_in(labels, kind, (decode, said)) == AT - 1 + 40
    assert end_in({}, "", (decode, said)) == NEVER


@pytest.mark.parametrize(
    ("labels", "stated", "end"),
    [
        (OF_MPI_JOB, [(decode_mpi_job, {"spec": {"runPolicy": DEADLINE["spec"]}})], AT - 1 + 40),
        (
            OF_MPI_JOB,
            [(decode_mpi_job, {"spec": {"runPolicy": DEADLINE["spec"]}, "status": STARTED["status"]})],
            AT - 1 + 40,
        ),
        (IN_JOB_SET, [(decode_job_set, REPLICATED)], AT - 1 + 40),
        ({**IN_JOB_SET, REPLICATED_JOB: "s"}, [(decode_job_set, REPLICATED)], AT - 1 + 40),
        ({**IN_JOB_SET, REPLICATED_JOB: "t"}, [(decode_job_set, REPLICATED)], NEVER),
        (IN_JOB_SET, [(decode_job_set, OF_TRAIN_JOB), (decode_train_job, DEADLINE)], AT - 1 + 40),
        (IN_JOB_SET, [(decode_job_set, OF_TRAIN_JOB), (decode_train_job, KUEUES)], AT - 1 + 40),
        (IN_JOB_SET, [(decode_job_set, {}), (decode_train_job, DEADLINE)], NEVER),
        ({RAY_CLUSTER: "w"}, [(decode_ray_cluster, OF_RAY_JOB), (decode_ray_job, DEADLINE)], AT - 1 + 40),
        ({RAY_CLUSTER: "w"}, [(decode_ray_cluster, OF_RAY_JOB), (decode_ray_job, KUEUES)], AT - 1 + 40),
        ({RAY_CLUSTER: "w"}, [(decode_ray_cluster, {}), (decode_ray_job, DEADLINE)], NEVER),
    ],
)
def test_deadlines_of_workloads_and_of_what_they_were_made_of_count(
    labels: dict[str, str], stated: list[Stated], end: float
) -> None:
    assert end_in(labels, "", *stated) == end


def test_deadline_of_a_workload_that_has_started_ends_pods_that_come_later() -> None:
    assert (
        end_in({RAY_CLUSTER: "w"}, "", (decode_ray_cluster, OF_RAY_JOB), (decode_ray_job, STARTED), at=9)
        == AT + 40
    )


def end_in(labels: dict[str, str], kind: str, *stated: Stated, at: float = -1) -> float:
    """When a pod ends that was placed ``at`` seconds after `AT`, whose owner is of this kind, among such objects."""
    workloads = WorkloadIndex()
    for decode, body in stated:
        meta = {"name": "w", "namespace": "d", "uid": "uid-w", **body.get("metadata", {})}
        workloads.put(decode(json.dumps({**body, "metadata": meta}).encode()))
    owner = Owner(kind, "w", "uid-w") if kind else None
    return Ends(workloads).end(Pod("d", "p", "u", labels=labels, owner=owner), AT + at)


def test_pods_of_a_ray_cluster_are_looked_at_again_when_its_ray_job_is_seen() -> None:
    workloads = WorkloadIndex()
    cluster = RayCluster("d", "w-x7k2p", "c", gang=True, made_of="w")
    workloads.put(cluster)
    workloads.add_pod(Pod("d", "p", "u", labels={RAY_CLUSTER: "w-x7k2p", RAY_NODE: "yes"}))
    stated = {"metadata": {"namespace": "d", "name": "w"}, "status": {"rayClusterName": "w-x7k2p"}}
    ray_job = decode_ray_job(json.dumps(stated).encode())
    assert workloads.put(ray_job) == ["u"]
    assert workloads.put(ray_job) == []
    assert workloads.put(RayJob("d", "other", "o", duration=40.0)) == []
    assert workloads.drop(RayJob("d", "w", "r")) == ["u"]


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
