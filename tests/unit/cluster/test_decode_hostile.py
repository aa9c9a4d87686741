"""Objects with hostile fields are decoded with their other fields, and never stop the watch of other objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import Changed, Kind, Listed
from fluence_extender.cluster.sources import Source, sources
from fluence_extender.kinds.job import decode_job
from fluence_extender.kinds.jobset import decode_job_set
from fluence_extender.kinds.leaderworkerset import decode_leader_worker_set
from fluence_extender.kinds.mpijob import MpiJob, decode_mpi_job
from fluence_extender.kinds.podgroups import decode_coscheduling_group, decode_pod_group
from fluence_extender.kinds.ray import decode_ray_cluster
from fluence_extender.kinds.replicas import decode_replica_set, decode_stateful_set
from fluence_extender.model.node import Node
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.objects.meta import decode_event, decode_page
from tests.unit.cluster.fake_api_server import FakeApiServer, eventually
from tests.unit.cluster.test_listwatch_faults import Mirror, running

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "Node": decode_node,
    "Pod": decode_pod,
    "Job": decode_job,
    "ReplicaSet": decode_replica_set,
    "StatefulSet": decode_stateful_set,
    "PodGroup": decode_pod_group,
    "CoschedulingGroup": decode_coscheduling_group,
    "JobSet": decode_job_set,
    "LeaderWorkerSet": decode_leader_worker_set,
    "MPIJob": decode_mpi_job,
    "RayCluster": decode_ray_cluster,
}

HOSTILE: tuple[Any, ...] = (
    5,
    -(10**400),
    10**30,
    1.5,
    True,
    "",
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5000,
    "\x00\ud7ff\ufffe",
    "x" * 2**20,
    [],
    [None],
    [5],
    [[]],
    [{}],
    {},
    {"a": 5},
    {"a": None},
    {"cpu": "9" * 200},
    {"cpu": 10**300, "memory": -1, "pods": "NaN"},
    [{"name": 5, "type": 5, "key": 5, "reason": {}}],
)
"""Values that no field, or few fields, may have."""

FIELDS = {
    "metadata": "labels annotations creationTimestamp deletionTimestamp ownerReferences",
    "spec": (
        "taints unschedulable schedulerName nodeName priority preemptionPolicy schedulingGates schedulingGroup "
        "tolerations nodeSelector affinity topologySpreadConstraints volumes resourceClaims containers initContainers "
        "overhead resources activeDeadlineSeconds parallelism completions completionMode backoffLimit replicas "
        "backoffLimitPerIndex podFailurePolicy schedulingPolicy schedulingConstraints minMember scheduleTimeoutSeconds "
        "replicatedJobs startupPolicy launcherCreationPolicy mpiReplicaSpecs runPolicy workerGroupSpecs "
        "podManagementPolicy"
    ),
    "status": (
        "allocatable conditions phase reason message startTime nominatedNodeName resize resources allocatedResources "
        "containerStatuses initContainerStatuses nodeAllocatableResourceClaimStatuses failed failedIndexes occupiedBy "
        "running succeeded scheduleStartTime"
    ),
}


def body(name: str, **parts: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"metadata": {**meta, **parts.pop("metadata", {})}, **parts}


def raw(name: str, **parts: Any) -> bytes:
    return json.dumps(body(name, **parts)).encode()


def nested(levels: int) -> str:
    """Return JSON that is nested so deep that reading it needs that many levels of recursion."""
    return '{"a":[' * levels + '"}]\\"{"' + "]}" * levels


@pytest.mark.parametrize("kind", DECODERS)
def test_every_field_may_have_any_value(kind: str) -> None:
    decode = DECODERS[kind]
    for part, names in FIELDS.items():
        for value in HOSTILE:
            assert decode(raw("p", **({part: value} if part != "metadata" else {}))).name == "p"
            for name in names.split():
                assert decode(raw("p", **{part: {name: value}})).name == "p", (part, name, value)


@pytest.mark.parametrize("kind", DECODERS)
def test_what_can_be_read_is_kept_and_the_problem_is_named(kind: str) -> None:
    found = DECODERS[kind](raw("p", metadata={"labels": {"a": 1}, "annotations": {"b": "c"}}))
    assert "`$.metadata.labels" in found.problem
    assert found.uid == "uid-p"
    assert DECODERS[kind](raw("p")).problem == ""


def test_pod_with_a_field_that_cannot_be_read_counts_with_its_requests() -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    found = decode_pod(
        raw(
            "p",
            metadata={"labels": {"app": "x"}},
            spec={"containers": containers, "nodeName": "n1", "tolerations": "all"},
            status={"phase": "Running", "conditions": 5},
        )
    )
    assert "tolerations" in found.problem
    assert (found.node, found.phase, found.labels) == ("n1", "Running", {"app": "x"})
    assert found.requests == Resources({"cpu": 2000, "pods": 1})


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"status": {"allocatable": {"cpu": "lots"}}}, "status.allocatable.cpu"),
        ({"spec": {"taints": "none"}}, "$.spec.taints"),
        ({"metadata": {"labels": {"zone": 1}}}, "$.metadata.labels"),
    ],
)
def test_problem_of_a_node_is_named(parts: dict[str, Any], problem: str) -> None:
    assert problem in decode_node(raw("n", **parts)).problem


def test_node_without_allocatable_has_no_problem() -> None:
    node = decode_node(raw("n"))
    assert (node.allocatable, node.problem) == (NOTHING, "")


def test_unreadable_part_of_a_job_says_so_and_spoils_no_other() -> None:
    found = decode_job(raw("j", spec={"parallelism": 4, "completions": "many"}))
    assert found.parallelism == 4
    assert "completions" in found.problem


def test_number_that_is_too_long_to_be_one_is_ignored() -> None:
    annotations = {"deployment.kubernetes.io/desired-replicas": "9" * 5000}
    found = decode_replica_set(raw("r", metadata={"annotations": annotations}, spec={"replicas": 3}))
    assert found.pods == 3


def test_problem_is_logged_once() -> None:
    with capture_logs() as logs:
        for version in range(3):
            meta = {"resourceVersion": str(version)}
            decode_node(raw("logged-once", metadata=meta, status={"allocatable": {"cpu": "lots"}}))
            decode_pod(raw("logged-once", metadata=meta, spec={"tolerations": 5}))
    assert [(one["kind"], one["object"]) for one in logs] == [
        ("Node", "ns/logged-once"),
        ("Pod", "ns/logged-once"),
    ]


def source(connection: Connection, kind: Kind) -> Source:
    return next(one for one in sources(connection) if one.kind is kind)


async def test_unreadable_node_neither_stops_nor_repeats_the_watch_of_the_others(
    server: FakeApiServer, connection: Connection
) -> None:
    path, mirror = "/api/v1/nodes", Mirror()
    await server.put(path, "bad", spec={"taints": 5}, status={"allocatable": {"cpu": "1"}})
    await server.put(path, "good", status={"allocatable": {"cpu": "1"}})
    async with running(connection, mirror, source(connection, Node)) as watch:
        await watch.synced.wait()
        await server.put(path, "bad", metadata={"labels": [5]}, status={"allocatable": {"cpu": "2"}})
        await server.put(path, "good", status={"allocatable": {"cpu": "2"}})
        await eventually(lambda: len(mirror.observations) == 3)
        assert watch.failure == ""
    assert mirror.lists == 1
    listed, bad, good = mirror.observations
    assert isinstance(listed, Listed)
    assert isinstance(bad, Changed)
    assert isinstance(good, Changed)
    assert [one.problem != "" for one in listed.objects if isinstance(one, Node)] == [True, False]
    assert isinstance(bad.object, Node)
    assert "labels" in bad.object.problem
    assert isinstance(good.object, Node)
    assert (good.object.allocatable["cpu"], good.object.problem) == (2000, "")


@pytest.mark.parametrize("levels", [1, 150, 4000])
def test_object_that_is_nested_deep_is_read_with_its_other_fields(levels: int) -> None:
    spec = f'{{"template": {nested(levels)}, "mpiReplicaSpecs": {{"Worker": {{"replicas": 3}}}}}}'
    text = f'{{"metadata": {{"name": "m", "namespace": "ns"}}, "spec": {spec}}}'
    event = decode_event(f'{{"type": "ADDED", "object": {text}}}'.encode())
    page = decode_page(f'{{"metadata": {{}}, "items": [{text}, {text}]}}'.encode())
    found = [decode_mpi_job(bytes(one)) for one in (event.object, *(page.items or ()))]
    assert found == [MpiJob("ns", "m", "", 3)] * 3


@pytest.mark.parametrize(
    "kind", ["Pod", "Job", "PodGroup", "CoschedulingGroup", "MPIJob", "RayCluster"], ids=str
)
def test_size_of_what_is_written_about_counts_fields_that_are_not_read(kind: str) -> None:
    raw = json.dumps(
        {
            "metadata": {"namespace": "a", "name": "x", "uid": "u"},
            "spec": {"unread": [{"args": ["x" * 50_000]}]},
        }
    ).encode()
    assert DECODERS[kind](raw).size == len(raw)
