"""The writes about Jobs against scripted answers: what is sent, and the error for each refusal or lost answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from fluence_extender.cluster.api import ApiCluster, open_cluster
from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.errors import (
    ClusterError,
    Conflict,
    Denied,
    Gone,
    Invalid,
    NotLeading,
    PodsUnknown,
)
from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.cluster.reads import try_pod
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.kinds.registry import KIND_OF
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GATE,
    MET_ANNOTATION,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUED_SINCE_ANNOTATION,
    SUSPENDED_FOR_ANNOTATION,
)
from fluence_extender.model.pod import Owner
from tests.unit.cluster.fake_api_server import FakeApiServer, answer, drop, refuse

JOB = Job("ns", "j", "u1", 2, 2, True, version="7")
PATH = "/apis/batch/v1/namespaces/ns/jobs/j"
GET, PATCH, POST = ("GET", PATH), ("PATCH", PATH), ("POST", "/api/v1/namespaces/ns/pods")
SINCE = (1767323045.0, -1)
MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "j",
        "namespace": "ns",
        "uid": "u1",
        "creationTimestamp": "2026-01-02T03:04:05Z",
    },
    "spec": {
        "completionMode": "Indexed",
        "template": {
            "metadata": {
                "creationTimestamp": None,
                "labels": {"app": "x", "batch.kubernetes.io/job-name": "j"},
                "annotations": {NODES_ANNOTATION: "n1,n2", "note": "y"},
            },
            "spec": {
                "schedulerName": "fluence",
                "restartPolicy": "Never",
                "initContainers": [{"name": "i", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}],
                "containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}],
            },
        },
    },
}


def stored(
    uid: str = "u1", suspend: bool = True, nodes: str = "", active: int = 0, held: bool = False
) -> Any:
    notes = {SUSPENDED_FOR_ANNOTATION: "placement"} if held else {}
    template = {"metadata": {"annotations": {NODES_ANNOTATION: nodes} if nodes else {}}}
    return answer(
        {
            "metadata": {**MANIFEST["metadata"], "uid": uid, "annotations": notes},
            "spec": {"suspend": suspend, "template": template},
            "status": {"active": active},
        }
    )


def first_pod(job: dict[str, Any]) -> Any:
    (pod,) = KIND_OF[Job].first_pods(job)
    return pod


def tried(**spec: Any) -> Any:
    meta = {"name": "j-0-trial", "namespace": "ns", "uid": "p", "annotations": {COMPLETION_INDEX: "0"}}
    admitted = {"schedulerName": "fluence", "schedulingGates": [{"name": GATE}], "priority": 7, **spec}
    return answer({"metadata": meta, "spec": admitted})


@pytest.fixture
async def cluster(connection: Connection) -> Any:
    async with open_cluster(connection) as opened:
        yield opened


async def test_first_pod_is_tried_and_not_created(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[GET].append(answer(MANIFEST))
    server.scripts[POST].append(tried())
    (pod,) = await cluster.dry_run(JOB)
    assert (pod.gates, pod.priority, pod.node, pod.ours) == ((GATE,), 7, "", True)
    assert pod.created == 1767323045.0
    assert server.requests == [("list", PATH, {}), ("POST", POST[1], {"dryRun": "All"})]
    assert server.bodies == [first_pod(MANIFEST)]


def test_first_pod_is_built_as_the_job_controller_does() -> None:
    pod = first_pod(MANIFEST)
    meta, spec = pod["metadata"], pod["spec"]
    names = {"batch.kubernetes.io/job-name": "j", "job-name": "j"}
    assert meta["labels"] == {"app": "x", **names, COMPLETION_INDEX: "0"}
    assert meta["annotations"] == {"note": "y", COMPLETION_INDEX: "0"}
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "u1", True)
    assert owner["blockOwnerDeletion"] is False
    assert spec["hostname"] == "j-0"
    assert spec["restartPolicy"] == "Never"
    assert [one["name"] for one in spec["containers"][0]["env"]] == ["A", "JOB_COMPLETION_INDEX"]
    assert spec["initContainers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    assert "env" in MANIFEST["spec"]["template"]["spec"]["containers"][0]
    assert len(MANIFEST["spec"]["template"]["spec"]["containers"][0]["env"]) == 1


def test_name_of_the_first_pod_is_stable_and_never_too_long() -> None:
    meta = {**MANIFEST["metadata"], "name": "j" * 61}
    pod = first_pod({**MANIFEST, "metadata": meta})
    assert pod["metadata"]["name"] == f"{'j' * 55}-0-trial"
    assert len(pod["metadata"]["name"]) == 63
    assert first_pod({**MANIFEST, "metadata": meta}) == pod


def test_pod_of_a_job_that_is_not_indexed_has_no_index() -> None:
    spec = {"completionMode": "NonIndexed", "template": MANIFEST["spec"]["template"]}
    pod = first_pod({**MANIFEST, "spec": spec})
    assert pod["metadata"]["labels"] == {"app": "x", "batch.kubernetes.io/job-name": "j", "job-name": "j"}
    assert pod["metadata"]["annotations"] == {"note": "y"}
    assert pod["spec"] == MANIFEST["spec"]["template"]["spec"]


def test_first_pod_of_the_smallest_template() -> None:
    template = {"spec": {"containers": [{"name": "c"}]}}
    pod = first_pod({**MANIFEST, "spec": {"completionMode": "Indexed", "template": template}})
    assert pod["metadata"]["annotations"] == {COMPLETION_INDEX: "0"}
    assert "initContainers" not in pod["spec"]


async def test_foreseen_pod_has_the_owner_of_the_trial(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[GET].append(answer(MANIFEST))
    server.scripts[POST].append(answer(first_pod(MANIFEST)))
    (pod,) = await cluster.dry_run(JOB)
    assert pod.owner == Owner("Job", "j", "u1", "batch/v1")


@pytest.mark.parametrize(("status", "kind"), [(403, Denied), (422, Invalid)])
async def test_refused_trial_keeps_the_words_of_the_api_server(
    server: FakeApiServer, cluster: ApiCluster, status: int, kind: type[ClusterError]
) -> None:
    server.scripts[GET].append(answer(MANIFEST))
    server.scripts[POST].append(refuse(status, "exceeded quota: team, requested: pods=1"))
    with pytest.raises(kind, match="exceeded quota: team"):
        await cluster.dry_run(JOB)


async def test_job_of_another_uid_is_not_foreseen(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[GET].extend([stored("u2"), refuse(404, "not found")])
    for _ in range(2):
        with pytest.raises(Gone):
            await cluster.dry_run(JOB)
    assert [verb for verb, _, _ in server.requests] == ["list", "list"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [({"nodeName": "n9"}, "on node n9"), ({"schedulerName": "default-scheduler"}, "for scheduler default")],
)
async def test_pod_that_is_not_ours_to_place_cannot_be_foreseen(
    server: FakeApiServer, cluster: ApiCluster, spec: dict[str, str], why: str
) -> None:
    server.scripts[GET].append(answer(MANIFEST))
    server.scripts[POST].append(tried(**spec))
    with pytest.raises(PodsUnknown, match=why):
        await cluster.dry_run(JOB)


async def test_webhook_that_allows_no_trial_is_named(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[GET].append(answer(MANIFEST))
    server.scripts[POST].append(refuse(400, 'admission webhook "a.b.c" does not support dry run'))
    with pytest.raises(PodsUnknown, match=r"a\.b\.c"):
        await cluster.dry_run(JOB)


async def test_resumption_is_one_patch_of_the_observed_version(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].extend([stored(), stored()])
    await cluster.resume(JOB, ("n1", "n2"), "2 job/a")
    await cluster.resume(JOB, ())
    observed = {"uid": "u1", "resourceVersion": "7", "annotations": {SUSPENDED_FOR_ANNOTATION: None}}
    assert server.bodies == [
        {
            "metadata": observed,
            "spec": {
                "suspend": False,
                "template": {
                    "metadata": {"annotations": {NODES_ANNOTATION: nodes, PLACED_ANNOTATION: placed_with}}
                },
            },
        }
        for nodes, placed_with in (("n1,n2", "2 job/a"), (None, None))
    ]


async def test_plan_that_binds_says_until_when(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[PATCH].extend([stored(), stored()])
    await cluster.resume(JOB, ("n1", ""), "2 job/a", bound=True)
    await cluster.resume(JOB, (), bound=True)
    planned, unplanned = (one["spec"]["template"]["metadata"]["annotations"] for one in server.bodies)
    names, _, until = planned[NODES_ANNOTATION].partition(";")
    left = datetime.strptime(until, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) - datetime.now(UTC)
    assert names == "n1,"
    assert left <= timedelta(seconds=BINDS_FOR)
    assert unplanned[NODES_ANNOTATION] is None


async def test_holding_is_one_patch_of_the_observed_version(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].append(stored())
    await cluster.hold_job(JOB, SINCE)
    held = {SUSPENDED_FOR_ANNOTATION: "placement", QUEUED_SINCE_ANNOTATION: "2026-01-02T03:04:05Z"}
    assert server.bodies == [
        {
            "metadata": {"uid": "u1", "resourceVersion": "7", "annotations": held},
            "spec": {"suspend": True},
        }
    ]


@pytest.mark.parametrize("refusal", [refuse(409, "the object has been modified"), refuse(422, "uid")])
async def test_write_to_another_job_of_that_name_raises_gone(
    server: FakeApiServer, cluster: ApiCluster, refusal: Any
) -> None:
    server.scripts[PATCH].extend([refusal, refusal])
    server.scripts[GET].extend([stored("u2")] * 4)
    with pytest.raises(Gone, match="another one of that name"):
        await cluster.resume(JOB, ("n1", "n2"))
    with pytest.raises(Gone, match="another one of that name"):
        await cluster.hold_job(JOB, SINCE)


async def test_job_that_has_changed_is_neither_resumed_nor_held(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].extend([refuse(409, "the object has been modified")] * 2)
    server.scripts[GET].extend([stored(), stored(suspend=False)])
    with pytest.raises(Conflict, match="resume Job ns/j"):
        await cluster.resume(JOB, ("n1", "n2"))
    with pytest.raises(Conflict, match="suspend Job ns/j"):
        await cluster.hold_job(JOB, SINCE)


async def test_write_whose_answer_was_lost_succeeds_where_it_was_carried_out(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].extend([drop, refuse(409, "the object has been modified")] * 2)
    server.scripts[GET].extend([stored(suspend=False, nodes="n1,n2"), stored(held=True)])
    await cluster.resume(JOB, ("n1", "n2"))
    await cluster.hold_job(JOB, SINCE)


async def test_job_that_was_resumed_with_other_nodes_is_a_conflict(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].append(refuse(409, "the object has been modified"))
    server.scripts[GET].append(stored(suspend=False, nodes="n2,n1"))
    with pytest.raises(Conflict):
        await cluster.resume(JOB, ("n1", "n2"))


@pytest.mark.parametrize(("active", "kind"), [(1, Conflict), (0, Invalid)])
async def test_template_that_cannot_be_changed_yet_is_a_conflict_and_one_that_never_can_is_invalid(
    server: FakeApiServer, cluster: ApiCluster, active: int, kind: type[ClusterError]
) -> None:
    server.scripts[PATCH].append(refuse(422, "spec.template: field is immutable"))
    server.scripts[GET].extend([stored(active=active)] * 2)
    with pytest.raises(kind):
        await cluster.resume(JOB, ("n1", "n2"))


async def test_without_permission_nothing_is_written(
    server: FakeApiServer, cluster: ApiCluster, connection: Connection
) -> None:
    def forbid() -> None:
        raise NotLeading("not the leader")

    connection.permit = forbid
    server.scripts[GET].append(answer(MANIFEST))
    attempts = (
        cluster.resume(JOB, ()),
        cluster.hold_job(JOB, SINCE),
    )
    for attempt in attempts:
        with pytest.raises(NotLeading):
            await attempt
    assert server.bodies == []


def of_operator(spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "r",
            "namespace": "ns",
            "uid": "u1",
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            **meta,
        },
        "spec": spec,
    }


def template(cpu: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"schedulerName": "fluence", "containers": [container]},
    }


RAY = RayCluster("ns", "r", "u1", 3, groups=(1, 2), version="7", generation=3)
RAY_PATH = "/apis/ray.io/v1/namespaces/ns/rayclusters/r"
RAY_SPEC: dict[str, Any] = {
    "enableInTreeAutoscaling": True,
    "headGroupSpec": {"template": template("2")},
    "workerGroupSpecs": [
        {"groupName": "none", "replicas": 0, "template": template("9")},
        {"groupName": "gpus", "replicas": 2, "template": template("1")},
    ],
}
MPI = MpiJob("ns", "r", "u1", workers=2, groups=(2, 1), version="7", generation=3)
MPI_PATH = "/apis/kubeflow.org/v2beta1/namespaces/ns/mpijobs/r"
MPI_SPEC: dict[str, Any] = {
    "mpiReplicaSpecs": {
        "Launcher": {"restartPolicy": "ExitCode", "template": template("2")},
        "Worker": {"replicas": 2, "template": template("1")},
    }
}


async def test_one_pod_of_each_group_of_a_ray_cluster_is_tried(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts["GET", RAY_PATH].append(answer(of_operator(RAY_SPEC)))
    server.scripts[POST].extend([tried(), tried()])
    assert len(await cluster.dry_run(RAY)) == len(RAY.groups)
    head, worker = server.bodies
    assert [one["metadata"]["labels"]["ray.io/group"] for one in (head, worker)] == ["headgroup", "gpus"]
    assert [one["metadata"]["labels"]["ray.io/node-type"] for one in (head, worker)] == ["head", "worker"]
    assert head["metadata"]["labels"].items() >= {"app": "x", "ray.io/cluster": "r"}.items()
    (owner,) = head["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == ("ray.io/v1", "RayCluster", "u1")
    assert [one["name"] for one in head["spec"]["containers"]] == ["c", "autoscaler"]
    assert [one["name"] for one in worker["spec"]["initContainers"]] == ["wait-gcs-ready"]


async def test_one_worker_and_the_launcher_of_an_mpi_job_are_tried(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    last = {**MPI_SPEC, "launcherCreationPolicy": "WaitForWorkersReady"}
    server.scripts["GET", MPI_PATH].extend([answer(of_operator(MPI_SPEC)), answer(of_operator(last))])
    server.scripts[POST].extend([tried()] * 3)
    assert len(await cluster.dry_run(MPI)) == len(MPI.groups)
    assert len(await cluster.dry_run(MPI)) == 1
    role = "training.kubeflow.org/job-role"
    assert [one["metadata"]["labels"][role] for one in server.bodies] == ["worker", "launcher", "worker"]
    assert {one["spec"]["restartPolicy"] for one in server.bodies} == {"Never"}


async def test_workload_whose_spec_has_changed_is_foreseen_later(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts["GET", RAY_PATH].append(answer(of_operator(RAY_SPEC, generation=4)))
    with pytest.raises(Conflict):
        await cluster.dry_run(RAY)
    assert not server.bodies


async def test_pods_of_a_spec_that_is_nested_too_deep_cannot_be_foreseen(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    text = json.dumps(of_operator({"headGroupSpec": "deep"})).replace('"deep"', "[" * 5000 + "]" * 5000)

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, content_type="application/json")

    server.scripts["GET", RAY_PATH].append(handler)
    with pytest.raises(PodsUnknown):
        await cluster.dry_run(RAY)


@pytest.mark.parametrize("spec", [{}, {"headGroupSpec": {}}, {"headGroupSpec": {"template": {}}}])
async def test_pods_of_an_odd_spec_cannot_be_foreseen(
    server: FakeApiServer, cluster: ApiCluster, spec: dict[str, Any]
) -> None:
    server.scripts["GET", RAY_PATH].append(answer(of_operator(spec)))
    with pytest.raises(PodsUnknown):
        await cluster.dry_run(RAY)


@pytest.mark.parametrize(
    ("thing", "path", "spec"),
    [
        (RAY, RAY_PATH, {"suspend": False}),
        (MPI, MPI_PATH, {"runPolicy": {"suspend": False}}),
    ],
)
async def test_operators_workload_is_resumed_by_one_patch_of_the_observed_version(
    server: FakeApiServer, cluster: ApiCluster, thing: RayCluster | MpiJob, path: str, spec: dict[str, Any]
) -> None:
    server.scripts["PATCH", path].extend([answer({}), refuse(409, "the object has been modified")])
    await cluster.resume(thing, ())
    observed = {"uid": "u1", "resourceVersion": "7", "annotations": {SUSPENDED_FOR_ANNOTATION: None}}
    assert server.bodies == [{"metadata": observed, "spec": spec}]
    server.scripts["GET", path].append(answer(of_operator(spec)))
    await cluster.resume(thing, ())


@pytest.mark.parametrize(
    ("thing", "path"), [(JOB, f"{PATH}/status"), (RAY, RAY_PATH), (MPI, MPI_PATH)], ids=["Job", "Ray", "MPI"]
)
async def test_met_dependencies_are_recorded_by_a_patch_of_annotations_alone(
    server: FakeApiServer, cluster: ApiCluster, thing: Job | RayCluster | MpiJob, path: str
) -> None:
    server.scripts["PATCH", path].append(answer({}))
    await cluster.note_job(thing, {"ok:job/prep"})
    noted = {MET_ANNOTATION: "u1 ok:job/prep"}
    assert server.bodies == [{"metadata": {"uid": "u1", "annotations": noted}}]


async def test_warnings_of_a_trial_are_read(server: FakeApiServer, connection: Connection) -> None:
    server.scripts[POST].append(answer({"metadata": {}, "spec": {}}, warning='299 - "unknown \\"mode\\""'))
    trial = await try_pod(connection, first_pod(MANIFEST), "try it")
    assert trial.warnings == ('unknown "mode"',)


async def test_field_that_does_not_exist_is_refused_in_the_words_of_the_api_server(
    server: FakeApiServer, connection: Connection
) -> None:
    words = 'strict decoding error: unknown field "spec.containers[0].resorces"'
    server.scripts[POST].append(refuse(400, words))
    with pytest.raises(ClusterError) as raised:
        await try_pod(connection, first_pod(MANIFEST), "try it", strict=True)
    assert not isinstance(raised.value, PodsUnknown)
    assert raised.value.words == words
    assert server.requests == [("POST", POST[1], {"dryRun": "All", "fieldValidation": "Strict"})]
