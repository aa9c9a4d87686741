"""Optional kinds are found in the right version on API servers of several releases."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.port import DEVICE_KINDS, QUEUE_KINDS, WORKLOADS
from fluence_extender.cluster.sources import OPTIONAL, Discovery
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.replicas import ReplicaSet, StatefulSet
from fluence_extender.objects.queues import Namespace, PriorityClass
from tests.unit.cluster.fake_api_server import FakeApiServer, answer, refuse

V1 = ["priorityclasses"]
NATIVE = {
    "1.34, nothing": ({"v1": V1}, None),
    "1.35, Workload without PodGroup": ({"v1": V1, "v1alpha1": ["workloads"]}, None),
    "1.36": ({"v1": V1, "v1alpha2": ["podgroups", "podgroups/status", "workloads"]}, "v1alpha2"),
    "1.37": (
        {"v1": V1, "v1beta1": ["podgroups", "podgroups/status", "workloads"], "v1alpha3": ["podgroups"]},
        "v1beta1",
    ),
    "1.37, composite groups alone": ({"v1": V1, "v1alpha3": ["compositepodgroups", "podgroups"]}, "v1alpha3"),
    "some day": ({"v1": [*V1, "podgroups"], "v1beta1": ["podgroups"]}, "v1"),
}


def serve(server: FakeApiServer, groups: dict[str, dict[str, list[str]]]) -> None:
    """Answer discovery as an API server does that serves these resources, by group and version."""
    listed = [
        {
            "name": name,
            "versions": [{"groupVersion": f"{name}/{version}", "version": version} for version in versions],
            "preferredVersion": {"version": next(iter(versions), "")},
        }
        for name, versions in groups.items()
    ]
    server.faults["list", "/apis"].extend([answer({"kind": "APIGroupList", "groups": listed})] * 20)
    for name, versions in groups.items():
        for version, resources in versions.items():
            body = {"kind": "APIResourceList", "resources": [{"name": one} for one in resources]}
            server.faults["list", f"/apis/{name}/{version}"].extend([answer(body)] * 20)


@pytest.mark.parametrize("release", NATIVE)
async def test_native_pod_group_is_found_in_the_preferred_version(
    release: str, server: FakeApiServer, connection: Connection
) -> None:
    versions, expected = NATIVE[release]
    serve(server, {"apps": {"v1": ["deployments"]}, "scheduling.k8s.io": versions})
    found = await Discovery(connection).find(PodGroup)
    assert found == (expected and f"/apis/scheduling.k8s.io/{expected}/podgroups")


async def test_two_groups_of_the_same_plural_are_two_kinds(
    server: FakeApiServer, connection: Connection
) -> None:
    serve(server, {"scheduling.x-k8s.io": {"v1alpha1": ["elasticquotas", "podgroups"]}})
    discovery = Discovery(connection)
    assert await discovery.find(PodGroup) is None
    assert await discovery.find(CoschedulingGroup) == "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"


async def test_kinds_that_are_not_served_cost_one_request_together(
    server: FakeApiServer, connection: Connection
) -> None:
    serve(server, {"apps": {"v1": ["deployments"]}})
    discovery = Discovery(connection, fresh=60.0)
    assert [await discovery.find(kind) for kind in OPTIONAL] == [None] * len(OPTIONAL)
    assert [path for _, path, _ in server.requests] == ["/apis"]


async def test_unsupported_version_of_a_kind_is_not_used(
    server: FakeApiServer, connection: Connection
) -> None:
    serve(server, {"kubeflow.org": {"v1": ["mpijobs", "pytorchjobs"]}})
    assert await Discovery(connection).find(MpiJob) is None


async def test_unreadable_answers_count_as_nothing_served(
    server: FakeApiServer, connection: Connection
) -> None:
    server.faults["list", "/apis"].extend([answer("no"), refuse(404)])
    discovery = Discovery(connection)
    assert await discovery.find(JobSet) is None
    assert await discovery.find(JobSet) is None


def test_every_kind_except_those_of_kubernetes_itself_is_optional() -> None:
    always = {Job, ReplicaSet, StatefulSet, Namespace, PriorityClass}
    others = {*WORKLOADS, *QUEUE_KINDS, *DEVICE_KINDS}
    assert set(OPTIONAL) == others - always
