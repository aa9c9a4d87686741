"""MPIJobs, RayClusters, RayJobs and TrainJobs of a queue on a real control plane: they wait without pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fluence_extender.model.names import (
    MET_ANNOTATION,
    QUEUE_LABEL,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    USER_ANNOTATION,
)
from tests.e2e.expected_pods import Leader, created, held, tried
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, phase_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.job_sets import controlled, job_set, replicated
from tests.e2e.nodes import NodeFactory
from tests.e2e.operators import KINDS, written
from tests.e2e.played_operators import PlayedOperators
from tests.e2e.service import Fluence
from tests.e2e.test_suspended_submission import delete, now, queued, running
from tests.e2e.workloads import gang, ours
from tests.localcluster import Api, ApiError

pytestmark = pytest.mark.usefixtures("operators")

GANG = {"ray.io/gang-scheduling-enabled": "true"}
Submit = Callable[..., Manifest]


@pytest.fixture
def played(installation: Installation) -> Iterator[PlayedOperators]:
    operator = PlayedOperators(installation.plane.api)
    operator.start()
    yield operator
    operator.stop()


def template(cpu: str, **shape: Any) -> Manifest:
    made = ours("x", cpu=cpu, **shape)
    return {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]}


def cluster_spec(large: str, small: str, **spec: Any) -> Manifest:
    """A head and two workers."""
    workers = {
        "groupName": "workers",
        "replicas": 2,
        "minReplicas": 2,
        "maxReplicas": 2,
        "rayStartParams": {},
        "template": template(small),
    }
    head = {"rayStartParams": {}, "template": template(large)}
    return {"headGroupSpec": head, "workerGroupSpecs": [workers], **spec}


def ray(name: str, large: str = "2", small: str = "1", **spec: Any) -> Manifest:
    labels = {QUEUE_LABEL: "default", **GANG}
    return written("RayCluster", name, labels=labels, **cluster_spec(large, small, **spec))


def ray_job(name: str, large: str = "2", small: str = "1", **spec: Any) -> Manifest:
    labels = {QUEUE_LABEL: "default", **GANG}
    made = cluster_spec(large, small)
    return written("RayJob", name, labels=labels, entrypoint="true", rayClusterSpec=made, **spec)


def mpi(name: str, large: str = "2", small: str = "1", **policy: Any) -> Manifest:
    """A launcher and two workers."""
    specs = {
        "Launcher": {"replicas": 1, "template": template(large)},
        "Worker": {"replicas": 2, "template": template(small)},
    }
    labels = {QUEUE_LABEL: "default"}
    return written("MPIJob", name, labels=labels, mpiReplicaSpecs=specs, runPolicy=policy)


def path_of(namespace: Namespace, manifest: Manifest) -> str:
    """The path of what is suspended: of a RayJob its cluster."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == "RayJob":
        kind, name = "RayCluster", f"{name}-x7k2p"
    group, version, plural, _ = KINDS[kind]
    return f"/apis/{group}/{version}/namespaces/{namespace.name}/{plural}/{name}"


def gang_of(manifest: Manifest) -> str:
    name: str = manifest["metadata"]["name"]
    return f"{name}-x7k2p" if manifest["kind"] == "RayJob" else name


def suspended(stored: Manifest) -> bool:
    spec = stored["spec"]
    return bool(spec.get("runPolicy", spec).get("suspend"))


def resume_patch(manifest: Manifest, suspend: bool = False) -> Manifest:
    part = {"suspend": suspend}
    return {"spec": {"runPolicy": part} if manifest["kind"] == "MPIJob" else part}


def pods_of(namespace: Namespace, manifest: Manifest) -> list[Manifest]:
    begins = manifest["metadata"]["name"] + "-"
    return [one for one in namespace.pods() if one["metadata"]["name"].startswith(begins)]


def wait_until_running(namespace: Namespace, manifest: Manifest, count: int = 3) -> list[Manifest]:
    wait_for(
        lambda: [phase_of(one) for one in pods_of(namespace, manifest)].count("Running") == count,
        what=f"{count} running pods of {manifest['metadata']['name']}",
        seen=lambda: [(one["metadata"]["name"], phase_of(one)) for one in pods_of(namespace, manifest)],
    )
    return pods_of(namespace, manifest)


def wait_until_resumed(namespace: Namespace, manifest: Manifest) -> Manifest:
    path = path_of(namespace, manifest)
    wait_for(lambda: not suspended(namespace.api.get(path)), what=f"{path} to be resumed")
    return namespace.api.get(path)


KIND = pytest.mark.parametrize("submit", [ray, mpi, ray_job])
OWN = pytest.mark.parametrize("submit", [ray, mpi])


@KIND
def test_it_waits_without_pods_and_runs_in_its_turn(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators, submit: Submit
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(queued("full", 4))
    running(namespace, "full", 4)
    first, second = submit("first"), submit("second")
    namespace.create(first)
    fluence.wait_for_reason(namespace.name, gang_of(first), "busy")
    namespace.create(second)
    fluence.wait_for_state(namespace.name, gang_of(second), "waiting")
    stored = namespace.api.get(path_of(namespace, first))
    assert suspended(stored)
    assert annotations_of(stored)[SUSPENDED_FOR_ANNOTATION] == "placement"
    assert not pods_of(namespace, first) + pods_of(namespace, second)
    delete(namespace, "full")
    pods = wait_until_running(namespace, first)
    assert len({node_of(one) for one in pods}) == 1
    assert SUSPENDED_FOR_ANNOTATION not in annotations_of(wait_until_resumed(namespace, first))
    assert suspended(namespace.api.get(path_of(namespace, second)))
    assert not pods_of(namespace, second)
    namespace.api.delete(namespace.api.path_of(first, namespace.name), propagationPolicy="Background")
    wait_until_running(namespace, second)


@OWN
def test_its_pods_take_the_places_that_were_held(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators, submit: Submit
) -> None:
    names = [*own_nodes(1, cpu="2"), *own_nodes(1, cpu="3")]
    workload = submit("wide", "3", "1")
    played.away = True
    namespace.create(workload)
    wait_until_resumed(namespace, workload)
    namespace.create(queued("later", 1))
    fluence.wait_for_state(namespace.name, "later-0", "waiting")
    played.away = False
    pods = wait_until_running(namespace, workload)
    assert sorted(map(node_of, pods)) == sorted([names[0], names[0], names[1]])
    assert now(namespace, "later")["spec"]["suspend"]


@OWN
def test_a_restart_between_resumption_and_pods_loses_nothing(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    played: PlayedOperators,
    installation: Installation,
    submit: Submit,
) -> None:
    own_nodes(1, cpu="4")
    played.away = True
    workload, waiting = submit("first"), submit("second")
    namespace.create(workload)
    wait_until_resumed(namespace, workload)
    namespace.create(waiting)
    fluence.wait_for_state(namespace.name, gang_of(waiting), "waiting")
    installation.crash()
    played.away = False
    wait_for(lambda: len(pods_of(namespace, workload)) == 3, what="the pods")
    installation.revive()
    wait_until_running(namespace, workload)
    assert not pods_of(namespace, waiting)
    namespace.api.delete(namespace.api.path_of(workload, namespace.name), propagationPolicy="Background")
    wait_until_running(namespace, waiting)


@OWN
def test_what_its_user_suspends_stays_so_until_he_resumes_it(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators, submit: Submit
) -> None:
    own_nodes(1, cpu="5")
    mine = submit("mine", suspend=True)
    mine["metadata"]["annotations"] = {SUSPENDED_FOR_ANNOTATION: "placement"}
    assert SUSPENDED_FOR_ANNOTATION not in annotations_of(created(namespace, mine))
    namespace.create(queued("ours"))
    running(namespace, "ours", 1)
    assert suspended(namespace.api.get(path_of(namespace, mine)))
    assert not pods_of(namespace, mine)
    namespace.api.patch(path_of(namespace, mine), resume_patch(mine))
    wait_until_running(namespace, mine)


@OWN
def test_a_user_who_resumes_it_early_gains_nothing(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators, submit: Submit
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(queued("full", 4))
    running(namespace, "full", 4)
    first, early = submit("first"), submit("early")
    namespace.create(first)
    fluence.wait_for_reason(namespace.name, gang_of(first), "busy")
    namespace.create(early)
    namespace.api.patch(path_of(namespace, early), resume_patch(early))
    assert SUSPENDED_FOR_ANNOTATION not in annotations_of(namespace.api.get(path_of(namespace, early)))
    wait_for(lambda: len(pods_of(namespace, early)) == 3, what="its pods")
    delete(namespace, "full")
    wait_until_running(namespace, first)
    assert [node_of(one) for one in pods_of(namespace, early)] == [""] * 3


@OWN
def test_what_is_deleted_while_it_is_resumed_leaves_nothing_behind(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, played: PlayedOperators, submit: Submit
) -> None:
    own_nodes(1, cpu="4")
    for number in range(10):
        gone = submit(f"gone-{number}")
        namespace.create(gone)
        namespace.api.delete(namespace.api.path_of(gone, namespace.name), propagationPolicy="Background")
    last = submit("last")
    namespace.create(last)
    wait_until_running(namespace, last)


@pytest.fixture
def trainer(installation: Installation, played: PlayedOperators, tmp_path: Path) -> Iterator[PlayedOperators]:
    """The Kubeflow Trainer, the runtime ``torch`` of three nodes, and JobSet's controller."""
    nodes = replicated("node", 1, 3, ours("x", cpu="1"))
    played.runtimes["torch"] = job_set("x", nodes)["spec"]
    with controlled(installation.plane.api, installation.plane.kubeconfig, tmp_path / "jobset.log"):
        yield played


def train(name: str, suspend: bool = False, **spec: Any) -> Manifest:
    labels = {QUEUE_LABEL: "default"}
    return written("TrainJob", name, labels=labels, runtimeRef={"name": "torch"}, suspend=suspend, **spec)


@pytest.mark.parametrize("submit", [mpi, ray_job, train])
def test_its_deadline_tells_when_those_behind_it_start(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    trainer: PlayedOperators,
    submit: Submit,
) -> None:
    own_nodes(1, cpu="4")
    ends = submit("ends", activeDeadlineSeconds=7200)
    namespace.create(ends)
    wait_until_running(namespace, ends)
    namespace.create(*gang("next", 2, cpu="2"))

    def expected() -> str:
        found = fluence.gang(namespace.name, "next")
        return found["expected_start"] or "" if found else ""

    wait_for(lambda: bool(expected()), what="an estimate of the start", seen=expected)
    left = datetime.fromisoformat(expected()) - datetime.now(UTC)
    assert timedelta(hours=1, minutes=50) < left <= timedelta(hours=2)


def test_label_of_a_train_job_names_its_queue_and_its_creator_is_its_user(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, trainer: PlayedOperators
) -> None:
    own_nodes(1, cpu="2")
    made = train("waits")
    made["metadata"]["labels"] = {QUEUE_LABEL: "none-such"}
    made = created(namespace, made)
    fluence.wait_for_reason(namespace.name, "waits", "no queue: there is no queue none-such")
    path = path_of(namespace, made)
    namespace.api.patch(path, {"metadata": {"labels": {QUEUE_LABEL: "default"}}})
    fluence.wait_for_reason(namespace.name, "waits", "unsatisfiable")
    (gang,) = fluence.gangs(namespace.name)
    assert (gang["queue"], gang["user"]) == ("default", annotations_of(made)[USER_ANNOTATION])


def test_train_job_waits_without_pods_and_runs_in_its_turn(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, trainer: PlayedOperators
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(queued("full", 4))
    running(namespace, "full", 4)
    first, second = train("first"), train("second")
    namespace.create(first)
    fluence.wait_for_reason(namespace.name, "first", "busy")
    namespace.create(second)
    fluence.wait_for_state(namespace.name, "second", "waiting")
    assert {one["queue"] for one in fluence.items("/v1/queue") if one["namespace"] == namespace.name} == {
        "default"
    }
    assert held(now(namespace, "first-node-0"))
    assert not pods_of(namespace, first) + pods_of(namespace, second)
    delete(namespace, "full")
    wait_until_running(namespace, first)
    assert held(now(namespace, "second-node-0"))
    namespace.api.delete(path_of(namespace, first), propagationPolicy="Background")
    wait_until_running(namespace, second)


def test_train_job_that_its_user_suspends_stays_so_until_he_resumes_it(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, trainer: PlayedOperators
) -> None:
    own_nodes(1, cpu="4")
    mine = train("mine", suspend=True)
    namespace.create(mine, queued("ours"))
    running(namespace, "ours", 1)
    assert not pods_of(namespace, mine)
    namespace.api.patch(path_of(namespace, mine), {"spec": {"suspend": False}})
    wait_until_running(namespace, mine)


def refusal(write: Callable[[], object]) -> str:
    with pytest.raises(ApiError) as refused:
        write()
    return str(refused.value)


@OWN
def test_only_what_names_a_queue_and_is_all_ours_is_suspended(namespace: Namespace, submit: Submit) -> None:
    assert suspended(tried(namespace, submit("plain")))
    unqueued = submit("unqueued")
    del unqueued["metadata"]["labels"][QUEUE_LABEL]
    assert not suspended(tried(namespace, unqueued))
    spec = unqueued["spec"]
    templates = (
        [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
        if submit is ray
        else list(spec["mpiReplicaSpecs"].values())
    )
    templates[-1]["template"]["metadata"]["labels"][QUEUE_LABEL] = "default"
    assert suspended(tried(namespace, unqueued))
    templates[-1]["template"]["spec"]["schedulerName"] = "default-scheduler"
    assert not suspended(tried(namespace, unqueued))
    for key, text in ((SUSPEND_LABEL, "never"), ("kueue.x-k8s.io/queue-name", "q")):
        other = submit("other")
        other["metadata"]["labels"][key] = text
        assert not suspended(tried(namespace, other))
    managed = submit("managed", managedBy="kueue.x-k8s.io/multikueue")
    assert not suspended(tried(namespace, managed))
    owned = submit("owned")
    for kind, of in (("RayService", "ray.io/v1"), ("RayJob", "other.io/v1")):
        owned["metadata"]["ownerReferences"] = [
            {"apiVersion": of, "kind": kind, "name": "s", "uid": "u", "controller": True}
        ]
        assert not suspended(tried(namespace, owned))


@OWN
def test_nobody_else_writes_why_it_is_suspended(namespace: Namespace, submit: Submit) -> None:
    mine = submit("mine", suspend=True)
    created(namespace, mine)
    path = path_of(namespace, mine)
    forged = {"metadata": {"annotations": {SUSPENDED_FOR_ANNOTATION: "placement"}}}
    assert "fluence-stamps-operators" in refusal(lambda: namespace.api.patch(path, forged))


@OWN
def test_the_service_may_resume_what_admission_has_suspended_and_nothing_else(
    namespace: Namespace, leader: Leader, submit: Submit
) -> None:
    api: Api = leader.api
    mine, waiting = submit("mine", suspend=True), submit("held", "100")
    created(namespace, mine)
    created(namespace, waiting)
    resume: Manifest = {
        "metadata": {"annotations": {SUSPENDED_FOR_ANNOTATION: None}},
        **resume_patch(waiting),
    }
    changes: list[Manifest] = [
        {"metadata": {"annotations": {"other": "x"}}},
        {"metadata": {"labels": {"other": "x"}}},
        {"spec": {"other": 1}},
        {"spec": {"runPolicy": {"cleanPodPolicy": "All"}} if submit is mpi else {"managedBy": "me"}},
    ]
    for change in changes:
        assert "fluence-accounts-operators" in refusal(
            lambda change=change: api.patch(path_of(namespace, waiting), change)  # type: ignore[misc]
        )
    assert "fluence-accounts-operators" in refusal(lambda: api.patch(path_of(namespace, mine), resume))
    forged = {"metadata": {"annotations": {SUSPENDED_FOR_ANNOTATION: "placement"}}}
    assert "fluence-accounts-operators" in refusal(lambda: api.patch(path_of(namespace, mine), forged))
    noted = {"metadata": {"annotations": {MET_ANNOTATION: "u ok:job/prep"}}}
    assert suspended(api.patch(path_of(namespace, waiting), noted))
    stored = api.patch(path_of(namespace, waiting), resume)
    assert not suspended(stored)
    assert SUSPENDED_FOR_ANNOTATION not in annotations_of(stored)
