"""Each convention on the real control plane, with objects and pods as the projects' own controllers write them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from fluence_extender.model.names import GATE, GROUP_SIZE_ANNOTATION, SCHEDULE_TIMEOUT_ANNOTATION
from tests.core import manifests
from tests.e2e.expected_pods import resumed_by_user
from tests.e2e.harness import Manifest, Namespace, job, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.operators import installed, written
from tests.e2e.service import Fluence
from tests.e2e.test_gangs import condition
from tests.e2e.workloads import gang, grouped, labelled, ours, pod_group
from tests.localcluster import Api, ApiError

GROUP = "scheduling.x-k8s.io/pod-group"
ADMISSION = "kueue.x-k8s.io/admission"


def member(like: Manifest, cpu: str = "1", **shape: Any) -> Manifest:
    """A pod with the name, labels and annotations of ``like``."""
    meta = like["metadata"]
    return ours(meta["name"], cpu=cpu, labels=meta["labels"], annotations=meta["annotations"], **shape)


def of_job(name: str, like: Manifest, parallelism: int, cpu: str = "1") -> Manifest:
    """An indexed Job whose template has the labels and annotations of ``like``, but for those Jobs set themselves."""
    own = ("batch.kubernetes.io/", "job-name")
    labels, annotations = (
        {key: value for key, value in like["metadata"][part].items() if not key.startswith(own)}
        for part in ("labels", "annotations")
    )
    made = job(
        name,
        ours("x", cpu=cpu, labels=labels, annotations=annotations),
        parallelism=parallelism,
        completionMode="Indexed",
    )
    made["metadata"]["labels"] = labels
    return made


def status(api: Api, namespace: str, group: str) -> dict[str, Any]:
    """The status of a PodGroup of scheduling.x-k8s.io."""
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups/{group}"
    return dict(api.get(path).get("status") or {})


def wait_for_status(namespace: Namespace, group: str, **fields: object) -> None:
    """Wait until the PodGroup's status shows these fields."""

    def shown() -> dict[str, Any]:
        return status(namespace.api, namespace.name, group)

    wait_for(lambda: fields.items() <= shown().items(), what=f"PodGroup {group} to be {fields}", seen=shown)


# The kind of PodGroup that a cluster needn't have.


def test_pod_groups_may_be_installed_later(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, installation: Installation
) -> None:
    nodes(1, cpu="4")
    namespace.create(*(member(manifests.coscheduled(f"late-{number}", "late")) for number in range(2)))
    fluence.wait_for_reason(namespace.name, "late", f"waiting for PodGroup {namespace.name}/late to exist")
    with installed(installation.plane.api, "CoschedulingGroup"):
        namespace.create(written("CoschedulingGroup", "late", minMember=2))
        namespace.wait_until_bound(2, timeout=120)
        wait_for_status(namespace, "late", phase="Running", running=2)
        for number in range(2):
            namespace.delete_pod(f"late-{number}")


def test_labels_of_flux_k8s_need_no_pod_group(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    pods = [member(manifests.flux_k8s(f"lammps-{number}", "lammps", "3")) for number in range(3)]
    namespace.create(*pods[:2])
    fluence.wait_for_reason(namespace.name, "lammps", "waiting for members (2 of 3 exist)")
    assert not history.bound
    namespace.create(pods[2])
    namespace.wait_until_bound(3)


# PodGroups of scheduling.x-k8s.io.


def test_pod_group_says_the_size_and_shows_where_the_gang_stands(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    namespace.create(written("CoschedulingGroup", "trio", minMember=3))
    namespace.create(*(member(manifests.coscheduled(f"trio-{number}", "trio")) for number in range(2)))
    fluence.wait_for_reason(namespace.name, "trio", "waiting for members (2 of 3 exist)")
    wait_for_status(namespace, "trio", phase="Pending", running=0)
    assert not history.bound
    namespace.create(member(manifests.coscheduled("trio-2", "trio"), run_for="5s"))
    namespace.wait_until_bound(3)
    wait_for_status(namespace, "trio", phase="Running", succeeded=1, running=2)
    assert status(namespace.api, namespace.name, "trio")["scheduleStartTime"].endswith("Z")


def test_pod_group_times_out_by_its_own_limit_and_is_placed_all_the_same(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    namespace.create(written("CoschedulingGroup", "slow", minMember=2, scheduleTimeoutSeconds=3))
    namespace.create(member(manifests.coscheduled("slow-0", "slow")))
    reason = "timed out after 3 s: waiting for members (1 of 2 exist)"
    fluence.wait_for_reason(namespace.name, "slow", reason)
    assert not fluence.allocations(namespace.name)
    namespace.create(member(manifests.coscheduled("slow-1", "slow")))
    namespace.wait_until_bound(2)


def test_pod_group_deleted_under_its_pods_leaves_them_where_they_are(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    namespace.create(written("CoschedulingGroup", "orphan", minMember=2))
    namespace.create(*(member(manifests.coscheduled(f"orphan-{number}", "orphan")) for number in range(2)))
    namespace.wait_until_bound(2)
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace.name}/podgroups/orphan"
    namespace.api.delete(path)
    namespace.create(member(manifests.coscheduled("orphan-2", "orphan")))
    fluence.wait_for_reason(
        namespace.name, "orphan", f"waiting for PodGroup {namespace.name}/orphan to exist"
    )
    assert sum(bool(node_of(one)) for one in namespace.pods()) == 2


# Ours, and what people get wrong.


def test_gang_times_out_by_its_annotation(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    (one,) = gang("lonely", 1, size=2, cpu="1")
    one["metadata"]["annotations"][SCHEDULE_TIMEOUT_ANNOTATION] = "2"
    namespace.create(one)
    fluence.wait_for_reason(
        namespace.name, "lonely", "timed out after 2 s: waiting for members (1 of 2 exist)"
    )
    assert not history.bound


def test_two_jobs_that_claim_one_gang_with_different_sizes_are_both_named(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, history: History
) -> None:
    # Too small for either: the first Job's pods are a whole gang until the second Job's are seen.
    room(1, cpu="8")
    for name, parallelism in (("first", 2), ("second", 3)):
        namespace.create(job(name, labelled(ours("x", cpu="5"), "both"), parallelism=parallelism))
    reason = (
        f"members of gang {namespace.name}/both disagree on its size: Job first says 2, Job second says 3"
    )
    fluence.wait_for_reason(namespace.name, "both", reason)
    assert not history.bound
    namespace.api.delete(
        f"/apis/batch/v1/namespaces/{namespace.name}/jobs/first", propagationPolicy="Background"
    )
    room(1, cpu="10")
    namespace.wait_until_bound(3)


def test_members_that_name_another_scheduler_are_said(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    mine, other = gang("mixed", 2, cpu="1")
    other["spec"]["schedulerName"] = "somebody-else"
    namespace.create(mine, other)
    reason = "waiting for members (1 of 2 exist; 1 more names scheduler somebody-else, not fluence)"
    fluence.wait_for_reason(namespace.name, "mixed", reason)


def test_names_as_long_as_they_may_be(fluence: Fluence, namespace: Namespace, nodes: NodeFactory) -> None:
    nodes(1, cpu="4")
    long = "g" * 253
    namespace.create(pod_group(long, 2))
    namespace.create(
        *(grouped(ours(f"{'p' * 251}-{number}", cpu="1"), long) for number in range(2)),
        labelled(ours("q" * 253, cpu="1"), "l" * 63, 1),
    )
    namespace.wait_until_bound(3)
    assert fluence.wait_for_state(namespace.name, long, "bound")["size"] == 2


def test_native_gang_with_more_members_than_it_needs_runs_with_its_minimum(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(pod_group("elastic", 2))
    namespace.create(*(grouped(ours(f"elastic-{number}", cpu="1"), "elastic") for number in range(3)))
    namespace.wait_until_bound(2)
    wait_for(lambda: condition(namespace, "elastic").get("status") == "True", what="it to be Scheduled")
    fluence.wait_for_reason(namespace.name, "elastic", "busy")
    namespace.delete_pod(next(one["metadata"]["name"] for one in namespace.pods() if node_of(one)))
    namespace.wait_until_bound(2)
    fluence.wait_for_state(namespace.name, "elastic", "bound")


# Kueue.


@pytest.mark.parametrize("by_annotation", [False, True])
def test_kueue_group_starts_when_kueue_has_admitted_all_of_it(
    by_annotation: bool, fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    like = [manifests.kueue(f"sample-{number}", "sample", "2", by_annotation) for number in range(2)]
    namespace.create(*(member(one, schedulingGates=[{"name": ADMISSION}]) for one in like))
    fluence.wait_for_reason(namespace.name, "sample", f"waiting for scheduling gates of others: {ADMISSION}")
    assert not fluence.allocations(namespace.name)
    for one in like:
        admit(namespace, one["metadata"]["name"])
    namespace.wait_until_bound(2)
    assert len(history.names()) <= 2


def admit(namespace: Namespace, name: str) -> None:
    """Remove Kueue's gate, as Kueue does, and leave ours; who comes in between makes it try again."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"

    def admitted() -> bool:
        pod = namespace.pod(name)
        gates = [one["name"] for one in pod["spec"].get("schedulingGates") or ()]
        assert set(gates) <= {ADMISSION, GATE}
        pod["spec"]["schedulingGates"] = [{"name": gate} for gate in gates if gate != ADMISSION]
        try:
            namespace.api.request("PUT", path, pod)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return False
        return True

    wait_for(admitted, what=f"{name} to be admitted")


# JobSet, LeaderWorkerSet, MPI Operator, Trainer, KubeRay.


def replicated(name: str, replicas: int, parallelism: int, after: str = "") -> Manifest:
    """A replicatedJob of a JobSet."""
    spec = {"parallelism": parallelism, "completions": parallelism}
    depends = {"dependsOn": [{"name": after, "status": "Complete"}]} if after else {}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **depends}


def test_job_set_is_one_gang_of_all_its_jobs(
    operators: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="4")
    jobs = [replicated("driver", 1, 1), replicated("workers", 2, 2)]
    namespace.create(written("JobSet", "train", replicatedJobs=jobs))
    driver = of_job("train-driver-0", manifests.job_set_pod("train", "driver", 0, 0, 1, 3), 1)
    workers = [
        of_job(f"train-workers-{number}", manifests.job_set_pod("train", "workers", number, 0, 2, 3), 2)
        for number in range(2)
    ]
    namespace.create(driver, workers[0])
    fluence.wait_for_reason(namespace.name, "train", "unsatisfiable: 4 of 5 members")
    own_nodes(1, cpu="1")
    fluence.wait_for_reason(namespace.name, "train", "waiting for members (3 of 5 exist)")
    assert not history.bound
    namespace.create(workers[1])
    namespace.wait_until_bound(5)


def test_stage_of_a_train_job_that_comes_later_is_not_waited_for(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    label = {GROUP: "train"}
    jobs = [replicated("initializer", 1, 1), replicated("node", 1, 2, after="initializer")]
    namespace.create(
        written("JobSet", "train", replicatedJobs=jobs),
        written("CoschedulingGroup", "train", minMember=3, scheduleTimeoutSeconds=60),
    )
    first = manifests.job_set_pod("train", "initializer", 0, 0, 1, 2, labels=label)
    node = manifests.job_set_pod("train", "node", 0, 0, 1, 2, labels=label)
    namespace.create(of_job("train-initializer-0", first, 1))
    namespace.wait_until_bound(1)
    namespace.create(of_job("train-node-0", node, 2))
    namespace.wait_until_bound(3)
    assert fluence.wait_for_state(namespace.name, "train/node", "bound")["size"] == 2
    wait_for_status(namespace, "train", phase="Running", running=3)


def test_leaders_of_a_job_set_with_exclusive_placement_do_not_wait_for_those_who_follow(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    job_set = written("JobSet", "train", replicatedJobs=[replicated("w", 2, 2)])
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    job_set["metadata"]["annotations"] = {key: "kubernetes.io/hostname"}
    namespace.create(job_set)

    def index(job_number: int, number: int) -> Manifest:
        return member(manifests.job_set_pod("train", "w", job_number, number, 2, 2))

    # JobSet's own webhook lets nobody else of a Job be created before its first pod has a node.
    namespace.create(index(0, 0))
    fluence.wait_for_reason(namespace.name, "train/leaders", "waiting for members (1 of 2 exist)")
    assert not history.bound
    namespace.create(index(1, 0))
    namespace.wait_until_bound(2)
    namespace.create(index(0, 1))
    fluence.wait_for_reason(namespace.name, "train/followers", "waiting for members (1 of 2 exist)")
    namespace.create(index(1, 1))
    namespace.wait_until_bound(4)


def test_each_group_of_a_leader_worker_set_is_a_gang(
    operators: None, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="3")
    namespace.create(written("LeaderWorkerSet", "vllm", startupPolicy="LeaderCreated"))
    for group in range(2):
        namespace.create(
            *(member(manifests.leader_worker_pod("vllm", group, worker, 2)) for worker in range(2))
        )
    namespace.wait_until_bound(2)
    wait_for(
        lambda: sorted(one["state"] for one in fluence.gangs(namespace.name)) == ["bound", "waiting"],
        what="one to be bound and one to wait",
        seen=lambda: fluence.gangs(namespace.name),
    )
    history.wait(2)
    first, second = history.names()
    assert first.split("-")[1] == second.split("-")[1]


def test_leader_that_has_to_be_ready_first_is_not_held_up_by_its_workers(
    operators: None, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    namespace.create(written("LeaderWorkerSet", "lws", startupPolicy="LeaderReady"))
    namespace.create(member(manifests.leader_worker_pod("lws", 0, 0, 3)))
    namespace.wait_until_bound(1)
    namespace.create(*(member(manifests.leader_worker_pod("lws", 0, worker, 3)) for worker in (1, 2)))
    namespace.wait_until_bound(3)


@pytest.mark.parametrize("gang_scheduling", [False, True], ids=["by its labels", "by its PodGroup"])
def test_launcher_that_waits_for_ready_workers_does_not_hold_them_up(
    gang_scheduling: bool,
    operators: None,
    fluence: Fluence,
    namespace: Namespace,
    nodes: NodeFactory,
    history: History,
) -> None:
    nodes(1, cpu="4")
    specs = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    policy = "WaitForWorkersReady"
    namespace.create(written("MPIJob", "pi", launcherCreationPolicy=policy, mpiReplicaSpecs=specs))
    label = {GROUP: "pi"} if gang_scheduling else {}
    if gang_scheduling:
        namespace.create(written("CoschedulingGroup", "pi", minMember=3, scheduleTimeoutSeconds=0))
    namespace.create(member(manifests.mpi_pod("pi", 0, **label)))
    fluence.wait_for_reason(namespace.name, "pi", "waiting for members (1 of 2 exist)")
    assert not history.bound
    namespace.create(member(manifests.mpi_pod("pi", 1, **label)))
    namespace.wait_until_bound(2)
    namespace.create(member(manifests.mpi_pod("pi", None, **label)))
    namespace.wait_until_bound(3)
    fluence.wait_for_state(namespace.name, "pi", "bound")


def test_ray_cluster_is_a_gang_where_its_owner_wants_it(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    template: Manifest = {"spec": {}}
    workers = [{"groupName": "workers", "replicas": 2, "numOfHosts": 1, "template": template}]
    groups: Manifest = {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers}
    wanted = {"ray.io/gang-scheduling-enabled": "true"}
    namespace.create(
        written("RayCluster", "ray", labels=wanted, **groups), written("RayCluster", "loose", **groups)
    )
    namespace.create(
        member(manifests.ray_pod("ray", "ray-head", "head")),
        member(manifests.ray_pod("ray", "ray-worker-a")),
        member(manifests.ray_pod("loose", "loose-head", "head")),
    )
    namespace.wait_for_phase("loose-head", "Running")
    fluence.wait_for_reason(namespace.name, "ray", "waiting for members (2 of 3 exist)")
    history.wait(1)
    assert history.names() == ["loose-head"]
    namespace.create(member(manifests.ray_pod("ray", "ray-worker-b")))
    namespace.wait_until_bound(4)


# Jobs and StatefulSets as they are.


def test_indexed_job_is_a_gang_and_any_other_job_is_not(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(job("gang", ours("x", cpu="1"), parallelism=3, completionMode="Indexed"))
    fluence.wait_for_reason(namespace.name, "gang", "unsatisfiable: 2 of 3 members")
    assert not history.bound
    namespace.create(job("queue", ours("x", cpu="1"), parallelism=3, completions=6, completionMode="Indexed"))
    namespace.wait_until_bound(2)
    history.wait(2)
    assert {name.partition("-")[0] for name in history.names()} == {"queue"}


def test_job_that_is_resumed_does_not_wait_for_the_index_that_has_failed(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    limits = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 3}
    namespace.create(job("sweep", ours("x", cpu="1"), parallelism=3, completionMode="Indexed", **limits))
    first = namespace.wait_until_bound(3)[0]["metadata"]["name"]
    namespace.wait_for_phase(first, "Running")
    pods, path = (
        f"/api/v1/namespaces/{namespace.name}/pods",
        f"/apis/batch/v1/namespaces/{namespace.name}/jobs",
    )
    namespace.api.patch(f"{pods}/{first}/status", {"status": {"phase": "Failed"}})
    wait_for(
        lambda: namespace.api.get(f"{path}/sweep")["status"].get("failedIndexes") == "0",
        what="the index to have failed",
        seen=lambda: namespace.api.get(f"{path}/sweep")["status"],
    )
    namespace.api.patch(f"{path}/sweep", {"spec": {"suspend": True}})
    namespace.wait_for_pods(lambda left: len(left) == 1, "the Job to be suspended")
    wait_for(
        lambda: resumed_by_user(namespace, "sweep"), what="its plan not to bind pods any more", timeout=120
    )
    namespace.wait_until_bound(3)
    assert fluence.wait_for_state(namespace.name, "sweep", "bound")["size"] == 2


def test_annotated_stateful_set_is_a_gang(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    template = ours("x", cpu="1", labels={"app": "db"}, annotations={GROUP_SIZE_ANNOTATION: "3"})
    namespace.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db"},
            "spec": {
                "replicas": 2,
                "podManagementPolicy": "Parallel",
                "serviceName": "db",
                "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": template["metadata"] | {"name": None},
                    "spec": template["spec"],
                },
            },
        }
    )
    fluence.wait_for_reason(namespace.name, "db", "waiting for members (2 of 3 exist)")
    assert not history.bound
    path = f"/apis/apps/v1/namespaces/{namespace.name}/statefulsets/db"
    namespace.api.patch(path, {"spec": {"replicas": 3}})
    namespace.wait_until_bound(3)
    namespace.api.patch(path, {"spec": {"replicas": 4}})
    namespace.wait_until_bound(4)
