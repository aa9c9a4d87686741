"""Gangs that owners make: JobSets, LeaderWorkerSets, MPIJobs, RayClusters, Jobs and whoever carries a size."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.leaderworkerset import LeaderWorkerSet
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.kinds.replicas import StatefulSet
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.manifests import (
    Manifest,
    job_pod,
    job_set_pod,
    leader_worker_pod,
    manifest,
    mpi_pod,
    ray_pod,
)
from tests.unit.gangs.memberships import is_alone, key, membership, told

# JobSet.


def test_job_set_is_one_gang_of_all_its_jobs() -> None:
    jobs = (ReplicatedJob("driver", 1), ReplicatedJob("workers", 8))
    job_set = JobSet("default", "js", "u", jobs)
    for body in (job_set_pod("js", "driver", 0, 0, 1, 3), job_set_pod("js", "workers", 1, 3, 2, 3)):
        assert told(body, job_set) == (key("js", Convention.JOB_SET), 9)


def test_job_set_is_waited_for_because_its_order_stands_there_alone() -> None:
    body = job_set_pod("js", "workers", 0, 0, 2, 2)
    assert told(body)[1] == "waiting for JobSet default/js to be seen"


def test_job_set_in_order_is_a_gang_for_each_kind_of_jobs() -> None:
    jobs = (ReplicatedJob("driver", 1), ReplicatedJob("workers", 8))
    job_set = JobSet("default", "js", "u", jobs, in_order=True)
    driver, worker = job_set_pod("js", "driver", 0, 0, 1, 3), job_set_pod("js", "workers", 0, 0, 2, 3)
    assert told(driver, job_set) == (key("js", Convention.JOB_SET, "driver"), 1)
    assert told(worker, job_set) == (key("js", Convention.JOB_SET, "workers"), 8)


def test_jobs_of_a_job_set_that_depend_on_the_same_come_together() -> None:
    jobs = (
        ReplicatedJob("init", 1),
        ReplicatedJob("tool", 1),
        ReplicatedJob("server", 2, ("init",)),
        ReplicatedJob("worker", 4, ("init",)),
        ReplicatedJob("report", 1, ("worker",)),
    )
    job_set = JobSet("default", "js", "u", jobs)
    sizes = {one.name: told(job_set_pod("js", one.name, 0, 0, 1, 5), job_set)[1] for one in jobs}
    parts = {membership(job_set_pod("js", one.name, 0, 0, 1, 5), job_set).key.part for one in jobs}
    assert sizes == {"init": 2, "tool": 2, "server": 6, "worker": 6, "report": 1}
    assert parts == {"init", "server", "report"}


def test_pods_that_wait_for_the_leader_of_their_job_are_not_waited_for() -> None:
    jobs = (
        ReplicatedJob("driver", 1),
        ReplicatedJob("workers", 8, leaders=2),
        ReplicatedJob("late", 3, ("driver",)),
    )
    job_set = JobSet("default", "js", "u", jobs[:2])

    def stage(kind: str, index: int, known: JobSet = job_set) -> tuple[str, object]:
        found, size = told(job_set_pod("js", kind, 1, index, 2, 3), known)
        return found.part, size

    assert stage("driver", 0) == stage("workers", 0) == ("leaders", 3)
    assert stage("workers", 1) == stage("workers", 3) == ("followers", 6)
    in_stages = JobSet("default", "js", "u", jobs)
    assert stage("workers", 0, in_stages) == ("driver-leaders", 3)
    assert stage("workers", 1, in_stages) == ("driver-followers", 6)
    assert stage("late", 1, in_stages) == ("late", 3)


def test_job_set_that_can_not_be_read_any_more_leaves_the_labels_and_the_job() -> None:
    body = job_set_pod("js", "workers", 0, 0, 2, 3)
    job = Job("default", "js-workers-0", "u", 4, 4, indexed=True)
    expected = (key("js", Convention.JOB_SET, "workers"), 8)
    assert told(body, job, unserved=[JobSet]) == expected
    assert told(body, unserved=[JobSet])[1] == "waiting for Job default/js-workers-0 to be seen"


def test_label_of_a_job_set_on_a_pod_of_no_job_is_called_invalid() -> None:
    body = job_set_pod("js", "workers", 0, 0, 2, 3)
    del body["metadata"]["ownerReferences"]
    why = (
        "pod js-workers-0-0-abcde says that it is of JobSet js, but has no owning Job; "
        "annotation fluence.flux-framework.org/group-size can say the gang's size instead"
    )
    found = membership(body, unserved=[JobSet])
    assert found.key == key("js", Convention.JOB_SET, "workers")
    assert found.size == Reason(ReasonCode.INVALID_REQUEST, why)
    body["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    ]
    assert membership(body, unserved=[JobSet]).size == Reason(ReasonCode.INVALID_REQUEST, why)
    body["metadata"]["annotations"][GROUP_SIZE_ANNOTATION] = "3"
    assert membership(body, unserved=[JobSet]).size == 3


# LeaderWorkerSet.


def test_leader_and_workers_are_a_gang_of_the_size_they_carry() -> None:
    for worker in (0, 1, 2):
        assert told(leader_worker_pod("lws", 1, worker, 3)) == (
            key("lws-1", Convention.LEADER_WORKER_SET, "5c5fc"),
            3,
        )


def test_groups_and_revisions_of_a_leader_worker_set_are_different_gangs() -> None:
    bodies = (
        leader_worker_pod("lws", 0, 0, 3),
        leader_worker_pod("lws", 1, 0, 3),
        leader_worker_pod("lws", 1, 0, 4, revision="77777"),
    )
    assert len({membership(body).key for body in bodies}) == 3


@pytest.mark.parametrize("why", ["leader ready", "exclusive topology"])
def test_leader_that_has_to_come_first_is_a_gang_of_its_own(why: str) -> None:
    exclusive = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    notes = exclusive if why == "exclusive topology" else {}
    known = [LeaderWorkerSet("default", "lws", "u", leader_first=why == "leader ready")]
    leader = told(leader_worker_pod("lws", 0, 0, 3, **notes), *known)
    worker = told(leader_worker_pod("lws", 0, 2, 3, **notes), *known)
    assert leader == (key("lws-0", Convention.LEADER_WORKER_SET, "5c5fc-leader"), 1)
    assert worker == (key("lws-0", Convention.LEADER_WORKER_SET, "5c5fc-workers"), 2)


# MPI Operator, KubeRay.


def test_mpi_job_is_its_workers_and_its_launcher() -> None:
    job = MpiJob("default", "pi", "u", workers=2)
    for worker in (0, 1, None):
        assert told(mpi_pod("pi", worker), job) == (key("pi", Convention.MPI_JOB), 3)


@pytest.mark.parametrize(
    ("job", "size"),
    [
        (MpiJob("default", "pi", "u", 4, launcher_last=True), 4),
        (MpiJob("default", "pi", "u", 4, min_available=2), 2),
        (MpiJob("default", "pi", "u", 4, launcher_last=True, min_available=5), 4),
        (MpiJob("default", "pi", "u", 0), 1),
        (MpiJob("default", "pi", "u", 0, launcher_last=True), 1),
    ],
)
def test_mpi_job_waits_only_for_what_comes(job: MpiJob, size: int) -> None:
    assert told(mpi_pod("pi", None), job)[1] == size


def test_mpi_job_is_waited_for_where_there_are_mpi_jobs() -> None:
    assert told(mpi_pod("pi", 0))[1] == "waiting for MPIJob default/pi to be seen"
    assert is_alone(mpi_pod("pi", 0), unserved=[MpiJob])


def test_pod_of_another_training_operator_is_no_mpi_job() -> None:
    body = mpi_pod("pi", 0, **{"training.kubeflow.org/operator-name": "pytorchjob-controller"})
    assert is_alone(body)


def test_ray_cluster_is_a_gang_where_its_owner_wants_it() -> None:
    body = ray_pod("ray", "ray-worker-x")
    assert told(body, RayCluster("default", "ray", "u", 4, gang=True)) == (
        key("ray", Convention.RAY_CLUSTER),
        4,
    )
    assert is_alone(body, RayCluster("default", "ray", "u", 4))
    assert told(body)[1] == "waiting for RayCluster default/ray to be seen"
    assert is_alone(body, unserved=[RayCluster])


def test_pod_that_cleans_up_after_a_ray_cluster_is_alone() -> None:
    head = ray_pod("ray", "ray-head", "head")
    cleaner = ray_pod("ray", "ray-redis-cleanup-x", "redis-cleanup")
    cluster = RayCluster("default", "ray", "u", 4, gang=True)
    assert not is_alone(head, cluster)
    assert is_alone(cleaner, cluster)
    cleaner["metadata"]["labels"] |= {"scheduling.x-k8s.io/pod-group": "ray", GROUP_LABEL: "ray"}
    assert is_alone(cleaner, cluster)


# Jobs and other owners.


def test_indexed_job_that_runs_all_at_once_is_a_gang() -> None:
    job = Job("default", "j", "u", 3, 3, indexed=True)
    assert told(job_pod("j", 2), job) == (key("j", Convention.JOB), 3)


@pytest.mark.parametrize(
    "job",
    [
        Job("default", "j", "u", 3, 9, indexed=True),
        Job("default", "j", "u", 3, None),
        Job("default", "j", "u", 1, 1, indexed=True),
    ],
)
def test_other_jobs_are_queues_of_independent_pods(job: Job) -> None:
    assert is_alone(job_pod("j", 0 if job.indexed else None), job)


def test_indexes_that_have_failed_for_good_are_not_waited_for() -> None:
    body = job_pod("sweep", 1)
    job = Job("default", "sweep", "u", 4, 4, indexed=True, failed_indexes=3)
    assert told(body, job) == (key("sweep", Convention.JOB), 1)
    body["metadata"]["labels"][GROUP_LABEL] = "g"
    assert told(body, replace(job, failed_indexes=1)) == (key("g", Convention.LABEL), 3)


def test_plain_pod_of_a_job_is_alone() -> None:
    assert is_alone(job_pod("j", None))
    assert is_alone(job_pod("j", None), Job("default", "j", "u", 3, 3))


def test_size_of_one_sets_the_pods_of_an_owner_free() -> None:
    body = job_pod("j", 0, annotations={GROUP_SIZE_ANNOTATION: "1"})
    assert is_alone(body, Job("default", "j", "u", 3, 3, indexed=True))
    loose = job_set_pod("js", "w", 0, 0, 1, 1, annotations={GROUP_SIZE_ANNOTATION: "1"})
    assert is_alone(loose, JobSet("default", "js", "u", (ReplicatedJob("w", 4),)))


def test_annotated_size_counts_before_that_of_an_owner() -> None:
    body = job_set_pod("js", "w", 0, 0, 1, 1, annotations={GROUP_SIZE_ANNOTATION: "3"})
    assert told(body, JobSet("default", "js", "u", (ReplicatedJob("w", 4),))) == (
        key("js", Convention.JOB_SET),
        3,
    )


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "MiniCluster"])
def test_annotated_pods_of_any_owner_are_a_gang(kind: str) -> None:
    body = manifest("p-0", annotations={GROUP_SIZE_ANNOTATION: "3"}, owner=("apps/v1", kind, "p"))
    assert told(body) == (key("p", Convention.OWNER, uid="uid-p"), 3)
    del body["metadata"]["annotations"][GROUP_SIZE_ANNOTATION]
    assert is_alone(body)
    body["metadata"]["labels"]["fluence.group-size"] = "2"
    assert told(body)[1] == 2


@pytest.mark.parametrize("version", ["pod-template-hash", "rollouts-pod-template-hash"])
def test_pods_of_both_replica_sets_of_a_rollout_are_one_gang(version: str) -> None:
    def pod(replica_set: str, label: str) -> Manifest:
        return manifest(
            "p", {version: label}, {GROUP_SIZE_ANNOTATION: "2"}, ("apps/v1", "ReplicaSet", replica_set)
        )

    assert told(pod("serve-1a", "1a")) == told(pod("serve-2b", "2b")) == (key("serve", Convention.OWNER), 2)
    assert told(pod("serve-1a", "else"))[0] == key("serve-1a", Convention.OWNER, uid="uid-serve-1a")


ONE_BY_ONE = StatefulSet("default", "db", "u", 1, 3)


def of_stateful_set(labels: dict[str, str], notes: dict[str, str]) -> Manifest:
    return manifest("db-0", labels, notes, ("apps/v1", "StatefulSet", "db"))


@pytest.mark.parametrize(
    ("labels", "notes"),
    [
        ({}, {GROUP_SIZE_ANNOTATION: "3"}),
        ({}, {GROUP_SIZE_ANNOTATION: "5"}),
        ({"fluence.group-size": "2"}, {}),
        ({GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: "3"}),
        ({"scheduling.x-k8s.io/pod-group": "g", "fluence.group-size": "3"}, {}),
        ({"scheduling.x-k8s.io/pod-group": "pg"}, {}),
        ({"kueue.x-k8s.io/pod-group-name": "g"}, {"kueue.x-k8s.io/pod-group-total-count": "3"}),
    ],
)
def test_stateful_set_that_creates_its_pods_one_by_one_makes_no_gang(
    labels: dict[str, str], notes: dict[str, str]
) -> None:
    body = of_stateful_set(labels, notes)
    said = membership(body, ONE_BY_ONE, CoschedulingGroup("default", "pg", "u", 3)).size
    assert isinstance(said, Reason)
    assert said.code is ReasonCode.INVALID_REQUEST
    assert said.text.startswith(
        "StatefulSet db creates each pod once the one before is ready, so its pods are"
    )
    at_once = replace(ONE_BY_ONE, pods=3)
    assert isinstance(membership(body, at_once, CoschedulingGroup("default", "pg", "u", 3)).size, int)


@pytest.mark.parametrize(
    ("labels", "notes", "size"),
    [
        ({}, {GROUP_SIZE_ANNOTATION: "1"}, 1),
        ({GROUP_LABEL: "g"}, {}, 1),
        ({GROUP_LABEL: "g"}, {GROUP_SIZE_ANNOTATION: "4"}, 4),
    ],
)
def test_stateful_set_that_creates_its_pods_one_by_one_may_have_single_pods_and_be_a_part_of_a_gang(
    labels: dict[str, str], notes: dict[str, str], size: int
) -> None:
    assert told(of_stateful_set(labels, notes), ONE_BY_ONE)[1] == size


def test_native_pod_group_of_a_stateful_set_that_creates_its_pods_one_by_one_is_refused() -> None:
    body = of_stateful_set({}, {})
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert "never a gang of 3" in str(told(body, ONE_BY_ONE, PodGroup("default", "g", "u", 3))[1])


def test_basic_pod_group_states_no_gang() -> None:
    body = job_pod("j", 0)
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    job = Job("default", "j", "u", 4, 4, indexed=True)
    assert told(body, job, PodGroup("default", "g", "u", None)) == (key("j", Convention.JOB), 4)
    assert told(body, job, PodGroup("default", "g", "u", 1)) == (key("g", Convention.POD_GROUP), 1)


def test_members_of_a_pod_group_that_are_disrupted_together_are_indivisible() -> None:
    body = job_pod("j", 0)
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert membership(body, PodGroup("default", "g", "u", 2, indivisible=True)).indivisible
    assert not membership(body, PodGroup("default", "g", "u", 2)).indivisible


def test_basic_pod_group_of_the_job_controller_changes_no_gang() -> None:
    """Kubernetes 1.38 may make one for every Job; pods that are expected don't name it."""
    kinds: tuple[tuple[Job, dict[str, str], dict[str, str]], ...] = (
        (Job("default", "j", "u", 4, 4, indexed=True), {}, {}),
        (Job("default", "j", "u", 4, 8), {}, {}),
        (Job("default", "j", "u", 4, 4, indexed=True), {GROUP_LABEL: "mine"}, {}),
        (Job("default", "j", "u", 4, 4, indexed=True), {}, {GROUP_SIZE_ANNOTATION: "2"}),
        (
            Job("default", "j", "u", 4, 4),
            {"scheduling.x-k8s.io/pod-group": "co", "fluence.group-size": "3"},
            {},
        ),
    )
    for job, labels, notes in kinds:
        plain = job_pod("j", 0)
        plain["metadata"]["labels"].update(labels)
        plain["metadata"]["annotations"].update(notes)
        named = copy.deepcopy(plain)
        named["spec"]["schedulingGroup"] = {"podGroupName": "j-workers"}
        assert told(named, job, PodGroup("default", "j-workers", "u", None)) == told(plain, job)


def test_size_without_group_or_owner_says_nothing() -> None:
    assert is_alone(manifest("p", annotations={GROUP_SIZE_ANNOTATION: "3"}))


def test_two_pods_of_one_name_are_two_gangs() -> None:
    first, second = manifest("p"), manifest("p")
    second["metadata"]["uid"] = "another"
    assert membership(first).key != membership(second).key
