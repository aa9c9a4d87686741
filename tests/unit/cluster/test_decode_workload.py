"""The objects that determine the size of gangs are decoded."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.kinds.job import Job, decode_job
from fluence_extender.kinds.jobset import EXCLUSIVE, NODE_SELECTOR, JobSet, ReplicatedJob, decode_job_set
from fluence_extender.kinds.leaderworkerset import LeaderWorkerSet, decode_leader_worker_set
from fluence_extender.kinds.mpijob import MpiJob, decode_mpi_job
from fluence_extender.kinds.podgroups import (
    CoschedulingGroup,
    MemberStatus,
    PodGroup,
    decode_coscheduling_group,
    decode_pod_group,
)
from fluence_extender.kinds.ray import RayCluster, decode_ray_cluster
from fluence_extender.kinds.replicas import ReplicaSet, StatefulSet, decode_replica_set, decode_stateful_set
from fluence_extender.model.names import (
    KUEUE_QUEUE_LABEL,
    NODES_ANNOTATION,
    QUEUE_LABEL,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    UNSATISFIABLE_CONDITION,
)

META = {"name": "p", "namespace": "ns", "uid": "u1", "resourceVersion": "7"}
ME = ("ns", "p", "u1")


def raw(spec: Any, status: Any = None, **labels: str) -> bytes:
    return json.dumps({"metadata": META | {"labels": labels}, "spec": spec, "status": status}).encode()


@pytest.mark.parametrize(
    ("spec", "status", "width"),
    [
        ({}, {}, 1),
        ({"parallelism": 0}, {}, 0),
        ({"parallelism": 4}, {"succeeded": 9}, 4),
        ({"parallelism": 4, "completions": 3}, {}, 3),
        ({"parallelism": 4, "completions": 9}, {"succeeded": 6}, 3),
        ({"parallelism": 4, "completions": 9}, {"succeeded": 4, "failedIndexes": "0-2"}, 2),
        ({"parallelism": 4, "completions": 4}, {"succeeded": 4}, 0),
    ],
)
def test_job_creates_as_many_pods_as_it_may_and_still_needs(spec: Any, status: Any, width: int) -> None:
    assert decode_job(raw(spec, status)).width == width


@pytest.mark.parametrize(
    ("labels", "template", "queued"),
    [
        ({QUEUE_LABEL: "q"}, {}, True),
        ({}, {QUEUE_LABEL: "q"}, True),
        ({KUEUE_QUEUE_LABEL: "q"}, {}, True),
        ({}, {KUEUE_QUEUE_LABEL: "q"}, False),
        ({QUEUE_LABEL: ""}, {}, False),
        ({}, {QUEUE_LABEL: 7}, False),
        ({}, None, False),
    ],
)
def test_job_or_its_template_names_a_queue(labels: dict[str, str], template: Any, queued: bool) -> None:
    body = raw({"template": {"metadata": {"labels": template}}}, **labels)
    assert decode_job(body).queued is queued


@pytest.mark.parametrize(
    ("spec", "parallelism", "completions", "indexed"),
    [
        ({}, 1, None, False),
        (None, 1, None, False),
        ({"parallelism": 0}, 0, None, False),
        ({"parallelism": 4, "completions": 8, "completionMode": "NonIndexed"}, 4, 8, False),
        ({"parallelism": 4, "completions": 4, "completionMode": "Indexed"}, 4, 4, True),
    ],
)
def test_parallelism_and_completions_of_a_job_are_read(
    spec: Any, parallelism: int, completions: int | None, indexed: bool
) -> None:
    assert decode_job(raw(spec)) == Job(*ME, parallelism, completions, indexed)


@pytest.mark.parametrize(
    ("spec", "noted", "pods"),
    [
        ({"replicas": 4}, None, 4),
        ({}, None, 1),
        (None, None, 1),
        ({"replicas": 0}, None, 1),
        ({"replicas": 3}, "9" * 5000, 3),
        # In a rollout the Deployment's replicas are spread over two ReplicaSets.
        ({"replicas": 1}, "4", 4),
        ({"replicas": 3}, "4", 4),
        ({"replicas": 3}, "0", 1),
        ({"replicas": 3}, "many", 3),
    ],
)
def test_replicas_of_a_replica_set_or_of_its_deployment_are_read(
    spec: Any, noted: str | None, pods: int
) -> None:
    notes = {} if noted is None else {"deployment.kubernetes.io/desired-replicas": noted}
    body = json.dumps({"metadata": META | {"annotations": notes}, "spec": spec}).encode()
    assert decode_replica_set(body) == ReplicaSet(*ME, pods)


@pytest.mark.parametrize(
    ("labels", "notes", "queues"),
    [
        ({QUEUE_LABEL: "a"}, {}, {QUEUE_LABEL: "a"}),
        ({}, {QUEUE_LABEL: "b"}, {QUEUE_LABEL: "b"}),
        ({QUEUE_LABEL: "a"}, {QUEUE_LABEL: ""}, {QUEUE_LABEL: "a"}),
        (
            {QUEUE_LABEL: "a", KUEUE_QUEUE_LABEL: "k"},
            {QUEUE_LABEL: "b"},
            {QUEUE_LABEL: "b", KUEUE_QUEUE_LABEL: "k"},
        ),
        ({}, {KUEUE_QUEUE_LABEL: "k", "example.com/queue": "x"}, {KUEUE_QUEUE_LABEL: "k"}),
    ],
)
def test_queue_of_a_replica_set_is_that_of_its_deployment_before_that_of_its_template(
    labels: dict[str, str], notes: dict[str, str], queues: dict[str, str]
) -> None:
    body = json.dumps({"metadata": META | {"labels": labels, "annotations": notes}}).encode()
    assert dict(decode_replica_set(body).submission.queues) == queues


def test_replicas_that_cannot_be_read_are_a_problem() -> None:
    assert decode_replica_set(raw({"replicas": "4"})).problem
    assert decode_stateful_set(raw({"replicas": "4"})).problem


@pytest.mark.parametrize(
    ("meta", "stated"),
    [
        ({"annotations": {"fluence.flux-framework.org/group-size": "3"}}, "3"),
        ({"labels": {"fluence.flux-framework.org/group-size": "3"}}, "3"),
        ({}, ""),
    ],
)
def test_size_on_a_job_itself_is_read(meta: dict[str, Any], stated: str) -> None:
    body = json.dumps({"metadata": META | meta, "spec": {"parallelism": 5}}).encode()
    assert decode_job(body).stated_size == stated


@pytest.mark.parametrize(
    ("spec", "pods", "replicas"),
    [
        ({"replicas": 4, "podManagementPolicy": "Parallel"}, 4, 4),
        ({"podManagementPolicy": "Parallel"}, 1, 1),
        ({"replicas": 4, "podManagementPolicy": "OrderedReady"}, 1, 4),
        ({"replicas": 4}, 1, 4),
    ],
)
def test_pods_that_a_stateful_set_creates_at_once_are_read(spec: Any, pods: int, replicas: int) -> None:
    assert decode_stateful_set(raw(spec)) == StatefulSet(*ME, pods, replicas)


@pytest.mark.parametrize(
    ("type_", "status", "why"),
    [
        (UNSATISFIABLE_CONDITION, "True", "too large"),
        (UNSATISFIABLE_CONDITION, "False", ""),
        ("Failed", "True", ""),
    ],
)
def test_own_condition_of_a_job_is_read(type_: str, status: str, why: str) -> None:
    conditions = [
        {"type": "Suspended", "status": "False"},
        {"type": type_, "status": status, "message": "too large"},
    ]
    assert decode_job(raw({}, {"conditions": conditions})).unsatisfiable == why


@pytest.mark.parametrize(
    ("text", "given_up"),
    [(None, 0), ("", 0), ("0", 1), ("1,3-5,7", 5), ("0-9999", 10000), ("1,x,3-", 1)],
)
def test_failed_indexes_are_counted(text: str | None, given_up: int) -> None:
    assert decode_job(raw({}, {"failedIndexes": text})).failed_indexes == given_up


def job_body(
    meta: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    template: dict[str, Any] | None = None,
) -> bytes:
    body = {"metadata": META | (meta or {}), "spec": {**(spec or {}), "template": template or {}}}
    return json.dumps(body).encode()


HELD = {"annotations": {SUSPENDED_FOR_ANNOTATION: "placement"}}


@pytest.mark.parametrize(
    ("meta", "suspend", "suspended", "held"),
    [
        ({}, None, False, False),
        ({}, False, False, False),
        ({}, True, True, False),
        (HELD, True, True, True),
        (HELD, False, False, False),
        ({"annotations": {SUSPENDED_FOR_ANNOTATION: "another queue"}}, True, True, False),
        ({"labels": {SUSPENDED_FOR_ANNOTATION: "placement"}}, True, True, False),
    ],
)
def test_job_is_held_only_where_admission_suspended_it_for_placement(
    meta: dict[str, Any], suspend: bool | None, suspended: bool, held: bool
) -> None:
    found = decode_job(job_body(meta, {"suspend": suspend}))
    assert (found.suspended, found.held_for_placement, found.version) == (suspended, held, "7")


def test_job_says_that_its_spec_has_changed() -> None:
    assert decode_job(json.dumps({"metadata": META | {"generation": 2}}).encode()).generation == 2


@pytest.mark.parametrize(
    ("template", "ours", "nodes"),
    [
        ({}, False, ()),
        ({"metadata": None, "spec": None}, False, ()),
        ({"spec": {"schedulerName": "fluence"}}, True, ()),
        ({"spec": {"schedulerName": "default-scheduler"}}, False, ()),
        ({"metadata": {"annotations": None}}, False, ()),
        ({"metadata": {"annotations": {NODES_ANNOTATION: ""}}}, False, ()),
        ({"metadata": {"annotations": {NODES_ANNOTATION: "n1"}}}, False, ("n1",)),
        ({"metadata": {"annotations": {NODES_ANNOTATION: "n2,n1,n2", "a": "b"}}}, False, ("n2", "n1", "n2")),
        (
            {"metadata": {"annotations": {NODES_ANNOTATION: "n1,n2;2026-06-30T12:00:00Z"}}},
            False,
            ("n1", "n2"),
        ),
    ],
)
def test_scheduler_and_nodes_in_the_template_of_a_job_are_read(
    template: dict[str, Any], ours: bool, nodes: tuple[str, ...]
) -> None:
    found = decode_job(job_body(template=template))
    assert (found.ours, found.nodes, found.problem) == (ours, nodes, "")


def test_template_that_cannot_be_read_leaves_the_rest_of_the_job() -> None:
    found = decode_job(job_body({}, {"parallelism": 4}, {"spec": {"schedulerName": 7}}))
    assert (found.parallelism, found.ours) == (4, False)
    assert found.problem


@pytest.mark.parametrize(
    ("type_", "status", "finished"),
    [
        ("Complete", "True", True),
        ("Failed", "True", True),
        ("SuccessCriteriaMet", "True", True),
        ("FailureTarget", "True", True),
        ("Failed", "False", False),
        ("Suspended", "True", False),
    ],
)
def test_job_that_has_ended_or_is_about_to_is_finished(type_: str, status: str, finished: bool) -> None:
    conditions = [{"type": "Other", "status": "True"}, {"type": type_, "status": status}]
    assert decode_job(raw({}, {"conditions": conditions})).finished is finished


INDEXES = st.frozensets(st.integers(0, 40), max_size=20)


def written(indexes: frozenset[int]) -> str:
    """Write indexes as the Job controller does: single ones, and ranges of two or more."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)


@given(completed=INDEXES, failed=INDEXES)
def test_done_indexes_are_those_completed_and_those_failed(
    completed: frozenset[int], failed: frozenset[int]
) -> None:
    status = {"completedIndexes": written(completed), "failedIndexes": written(failed)}
    found = decode_job(raw({}, status))
    assert [index for first, last in found.done for index in range(first, last + 1)] == sorted(
        completed | failed
    )
    assert all(before[1] + 1 < after[0] for before, after in pairwise(found.done))
    assert found.failed_indexes == len(failed)


@given(text=st.text("0123456789,-x ", max_size=60))
def test_any_text_of_indexes_is_read_in_order_and_without_overlap(text: str) -> None:
    done = decode_job(raw({}, {"completedIndexes": text})).done
    assert all(first <= last for first, last in done)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(done))


def test_what_no_size_depends_on_does_not_make_another_job() -> None:
    before = decode_job(job_body(HELD, {"suspend": True}))
    after = decode_job(
        job_body({}, {"suspend": False}, {"metadata": {"annotations": {NODES_ANNOTATION: "n1"}}})
    )
    assert before == after
    assert (before.suspended, before.nodes) != (after.suspended, after.nodes)


def test_labels_of_a_job_that_flux_k8s_reads() -> None:
    size = {"fluence.group-size": "3"}
    assert decode_job(raw({}, None, **size, app="x")).labels == (("fluence.group-size", "3"),)


def test_job_that_submits_a_ray_job_is_recognized_by_its_label() -> None:
    assert decode_job(raw({}, **{"ray.io/originated-from-crd": "RayJob"})).submits_ray_job
    assert not decode_job(raw({}, **{"ray.io/originated-from-crd": "RayService"})).submits_ray_job


@pytest.mark.parametrize(
    ("policy", "minimum"),
    [({"gang": {"minCount": 8}}, 8), ({"basic": {}}, None), ({}, None), ({"gang": {}}, 1), (None, None)],
)
def test_minimum_of_a_pod_group_is_read(policy: Any, minimum: int | None) -> None:
    assert decode_pod_group(raw({"schedulingPolicy": policy})) == PodGroup(*ME, minimum)


@pytest.mark.parametrize(
    ("mode", "indivisible"),
    [
        ({"all": {}}, True),
        ({"single": {}}, False),
        ("PodGroup", True),
        ("Pod", False),
        (None, False),
        ({}, False),
    ],
)
def test_what_pods_of_a_pod_group_are_disrupted_together_is_read(mode: Any, indivisible: bool) -> None:
    group = decode_pod_group(raw({"disruptionMode": mode, "priorityClassName": "urgent"}))
    assert (group.indivisible, group.priority_class, group.problem) == (indivisible, "urgent", "")


@pytest.mark.parametrize(
    ("notes", "leaders"),
    [({}, 0), ({EXCLUSIVE: "rack"}, 2), ({EXCLUSIVE: "rack", NODE_SELECTOR: "true"}, 0)],
)
@pytest.mark.parametrize("of_template", [False, True])
def test_exclusive_placement_creates_leaders_first(
    notes: dict[str, str], leaders: int, of_template: bool
) -> None:
    job = replicated("workers", 2, 4)
    meta: dict[str, Any] = {"name": "js"}
    (job["template"].setdefault("metadata", {}) if of_template else meta)["annotations"] = notes
    jobs = [job, replicated("one", 3, 1)]
    body = json.dumps({"metadata": meta, "spec": {"replicatedJobs": jobs}}).encode()
    assert [(one.pods, one.leaders) for one in decode_job_set(body).jobs] == [(8, leaders), (3, 0)]
    job["template"]["spec"]["completionMode"] = "NonIndexed"
    body = json.dumps({"metadata": meta, "spec": {"replicatedJobs": jobs}}).encode()
    assert not any(one.leaders for one in decode_job_set(body).jobs)


def test_job_without_pods_counts_as_no_pods_of_its_job_set() -> None:
    jobs = [replicated("idle", 2, 0), replicated("workers", 1, 3)]
    assert [one.pods for one in decode_job_set(raw({"replicatedJobs": jobs})).jobs] == [0, 3]


@pytest.mark.parametrize(
    ("spec", "minimum", "timeout"),
    [
        ({"minMember": 4, "scheduleTimeoutSeconds": 30, "minResources": {"cpu": "3"}}, 4, 30.0),
        ({"minMember": 4, "scheduleTimeoutSeconds": 0}, 4, None),
        ({"minMember": 0, "scheduleTimeoutSeconds": None}, 1, None),
        ({}, 1, None),
        (None, 1, None),
    ],
)
def test_coscheduling_group_is_read(spec: Any, minimum: int, timeout: float | None) -> None:
    assert decode_coscheduling_group(raw(spec)) == CoschedulingGroup(*ME, minimum, timeout)


def test_status_of_a_coscheduling_group_is_read() -> None:
    status = {
        "phase": "Running",
        "occupiedBy": "ns/owner",
        "running": 2,
        "succeeded": 1,
        "scheduleStartTime": "2026-01-01T00:00:00Z",
    }
    found = decode_coscheduling_group(raw({"minMember": 3}, status)).status
    assert found == MemberStatus("Running", "ns/owner", 2, 1, 0)
    assert found.schedule_start == "2026-01-01T00:00:00Z"
    empty = decode_coscheduling_group(raw({"minMember": 3}, {"scheduleStartTime": None})).status
    assert empty == MemberStatus()


def replicated(name: str, replicas: int | None, parallelism: int, **more: Any) -> dict[str, Any]:
    template = {"spec": {"parallelism": parallelism, "completions": parallelism}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def test_job_set_is_read() -> None:
    after = [{"name": "driver", "status": "Ready"}]
    jobs = [replicated("driver", None, 1), replicated("workers", 2, 4, dependsOn=after)]
    expected = (ReplicatedJob("driver", 1), ReplicatedJob("workers", 8, ("driver",)))
    assert decode_job_set(raw({"replicatedJobs": jobs})) == JobSet(*ME, expected)
    policy = {"startupPolicyOrder": "InOrder"}
    assert decode_job_set(raw({"replicatedJobs": [], "startupPolicy": policy})) == JobSet(*ME, (), True)
    assert decode_job_set(raw({"replicatedJobs": [{"name": "bare"}]})).jobs == (ReplicatedJob("bare", 1),)


@pytest.mark.parametrize(
    ("suspend", "suspended"), [({}, False), ({"suspend": None}, False), ({"suspend": True}, True)]
)
def test_job_set_tells_whether_it_is_suspended(suspend: dict[str, Any], suspended: bool) -> None:
    assert decode_job_set(raw({"replicatedJobs": [], **suspend})).suspended is suspended


OWNER = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "train",
    "uid": "1",
    "controller": True,
}


@pytest.mark.parametrize(
    ("owner", "job_set"),
    [
        (OWNER, "train"),
        ({**OWNER, "controller": False}, ""),
        ({**OWNER, "apiVersion": "example.com/v1"}, ""),
        ({**OWNER, "kind": "TrainJob"}, ""),
    ],
)
def test_job_names_the_job_set_that_controls_it(owner: dict[str, Any], job_set: str) -> None:
    assert decode_job(job_body({"ownerReferences": [owner]}, {})).job_set == job_set


@pytest.mark.parametrize(
    ("policy", "first"), [("LeaderReady", True), ("LeaderCreated", False), (None, False)]
)
def test_leader_worker_set_is_read(policy: str | None, first: bool) -> None:
    assert decode_leader_worker_set(raw({"startupPolicy": policy})) == LeaderWorkerSet(*ME, first)


def test_mpi_job_is_read() -> None:
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": {}}, "Worker": {"replicas": 4}},
        "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
    }
    assert decode_mpi_job(raw(spec)) == MpiJob(*ME, 4, True, 3)
    assert decode_mpi_job(raw({"mpiReplicaSpecs": {"Worker": None}})) == MpiJob(*ME)


@pytest.mark.parametrize(
    ("group", "workers"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 3, "numOfHosts": 2}, 6),
        ({"replicas": 1, "minReplicas": 2, "maxReplicas": 4}, 2),
        ({"replicas": 9, "minReplicas": 2, "maxReplicas": 4}, 4),
        ({"minReplicas": 2}, 2),
        ({"replicas": 3, "suspend": True}, 0),
        ({}, 0),
    ],
)
def test_ray_cluster_has_its_head_and_its_requested_workers(group: dict[str, Any], workers: int) -> None:
    assert decode_ray_cluster(raw({"workerGroupSpecs": [group]})) == RayCluster(*ME, 1 + workers)
    wanted = decode_ray_cluster(
        raw({"workerGroupSpecs": [group]}, **{"ray.io/gang-scheduling-enabled": "true"})
    )
    assert wanted.gang


OURS = {"spec": {"schedulerName": "fluence"}}
IN_QUEUE = {**OURS, "metadata": {"labels": {QUEUE_LABEL: "q"}}}


def waiting(
    kind: str, *templates: dict[str, Any], suspend: bool = True, labels: dict[str, str] | None = None
) -> MpiJob | RayCluster:
    """One that admission has suspended, with these templates."""
    notes = {SUSPENDED_FOR_ANNOTATION: "placement"}
    meta = META | {"labels": labels or {}, "annotations": notes, "generation": 2}
    meta |= {"creationTimestamp": "2026-01-02T03:04:05Z"}
    first, second = templates
    spec: dict[str, Any] = {"runPolicy": {"suspend": suspend}}
    spec["mpiReplicaSpecs"] = {"Launcher": {"template": first}, "Worker": {"replicas": 2, "template": second}}
    if kind == "RayCluster":
        workers = [{"groupName": "w", "replicas": 2, "template": second}]
        spec = {"suspend": suspend, "headGroupSpec": {"template": first}, "workerGroupSpecs": workers}
    text = json.dumps({"metadata": meta, "spec": spec}).encode()
    return decode_ray_cluster(text) if kind == "RayCluster" else decode_mpi_job(text)


BOTH = pytest.mark.parametrize("kind", ["RayCluster", "MPIJob"])


@BOTH
def test_operators_workload_says_whether_it_waits_and_for_how_many_pods(kind: str) -> None:
    found = waiting(kind, OURS, IN_QUEUE)
    assert (found.ours, found.suspended, found.held_for_placement, found.queued) == (True,) * 4
    assert (found.version, found.generation, found.finished) == ("7", 2, False)
    assert found.created > 0
    assert found.groups == ((1, 2) if kind == "RayCluster" else (2, 1))
    assert found.width == 3


@BOTH
def test_operators_workload_of_others_or_of_kueue_or_that_runs_is_not_held(kind: str) -> None:
    assert not waiting(kind, OURS, {"spec": {}}).ours
    assert not waiting(kind, OURS, {}).ours
    assert not waiting(kind, OURS, OURS, suspend=False).held_for_placement
    assert not waiting(kind, OURS, OURS, labels={"kueue.x-k8s.io/queue-name": "q"}).held_for_placement
    assert not waiting(kind, OURS, OURS).queued
    assert waiting(kind, OURS, OURS, labels={QUEUE_LABEL: "q"}).queued


@BOTH
def test_operators_workload_that_others_suspend_or_run_is_not_suspendable(kind: str) -> None:
    assert waiting(kind, OURS, OURS, suspend=False).suspendable
    assert not waiting(kind, OURS, OURS, labels={"kueue.x-k8s.io/queue-name": "q"}).suspendable
    assert not waiting(kind, OURS, OURS, labels={SUSPEND_LABEL: "never"}).suspendable
    run: dict[str, Any] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    managed = raw(run if kind == "RayCluster" else {"runPolicy": run})
    decode = decode_ray_cluster if kind == "RayCluster" else decode_mpi_job
    assert not decode(managed).suspendable
    own = {"managedBy": "ray.io/kuberay-operator"}
    assert decode(raw(own if kind == "RayCluster" else {"runPolicy": own})).suspendable


def test_cluster_of_a_ray_job_is_not_suspendable() -> None:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": "u", "controller": True}
    meta = {"namespace": "a", "name": "b", "uid": "c", "ownerReferences": [owner]}
    assert not decode_ray_cluster(json.dumps({"metadata": meta, "spec": {}}).encode()).suspendable


@pytest.mark.parametrize(("condition", "ended"), [("Succeeded", True), ("Failed", True), ("Running", False)])
def test_mpi_job_is_finished_once_its_condition_says_so(condition: str, ended: bool) -> None:
    status = {"conditions": [{"type": condition, "status": "True"}]}
    assert decode_mpi_job(raw({}, status)).finished is ended


def test_launcher_that_comes_last_is_not_foreseen_and_odd_counts_make_no_groups() -> None:
    spec = {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 2}}}
    assert decode_mpi_job(raw(spec | {"launcherCreationPolicy": "WaitForWorkersReady"})).groups == (2,)
    spec["mpiReplicaSpecs"]["Worker"] = {"replicas": -2}
    assert decode_mpi_job(raw(spec)).groups == (1,)
    assert decode_ray_cluster(raw({"workerGroupSpecs": [{"replicas": -5, "minReplicas": -7}]})).groups == (1,)
