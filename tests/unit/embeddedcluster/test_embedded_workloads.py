"""Controllers and kubelets of an embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.kubelets import EmbeddedKubelets
from fluence_extender.embeddedcluster.workloads import EmbeddedWorkloads
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.pod import Pod
from fluence_extender.whatif.documents import BadManifest
from tests.core.clock import VirtualLoop


class Lab:
    """A cluster with controllers and kubelets, and without a scheduler."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.cluster = EmbeddedCluster()
        self.workloads = self.run(self._begin())

    async def _begin(self) -> EmbeddedWorkloads:
        EmbeddedKubelets(self.cluster)
        return EmbeddedWorkloads(self.cluster, parse_resources(""))

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def apply(self, kind: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> None:
        template: dict[str, Any] = {
            "metadata": {"annotations": annotations or {}},
            "spec": {"schedulerName": "fluence", "containers": [{"name": "main"}]},
        }
        version = {"Job": "batch/v1", "Deployment": "apps/v1", "Pod": "v1"}.get(kind, "v1")
        body = template["spec"] if kind == "Pod" else {**spec, "template": template}

        async def applied() -> None:
            self.workloads.apply(
                {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": body}
            )

        self.run(applied())

    def advance(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def bind_all(self) -> None:
        for pod in self.cluster.pods():
            if not pod.node:
                self.cluster.put(replace(pod, gates=(), node="n0"))

    @property
    def phases(self) -> list[str]:
        return sorted(pod.phase for pod in self.cluster.pods())

    def remove(self, pod: Pod) -> None:
        async def removed() -> None:
            self.cluster.remove(pod)

        self.run(removed())
        self.advance(0.1)


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.loop.close()


def test_job_makes_its_pods_and_they_end_after_their_time(lab: Lab) -> None:
    lab.apply("Job", {"parallelism": 2, "completions": 2}, {"demo.fluence.flux-framework.org/run-for": "10s"})
    assert lab.phases == ["Pending"] * 2
    assert {pod.owner.kind for pod in lab.cluster.pods() if pod.owner} == {"Job"}
    lab.bind_all()
    lab.advance(1)
    assert lab.phases == ["Running"] * 2
    lab.advance(10)
    assert lab.phases == ["Succeeded"] * 2
    lab.advance(60)
    assert len(lab.cluster.pods()) == 2


def test_failed_pods_of_a_job_are_replaced_up_to_its_limit(lab: Lab) -> None:
    lab.apply("Job", {"backoffLimit": 2}, {"demo.fluence.flux-framework.org/fail-after": "1s"})
    for _ in range(5):
        lab.bind_all()
        lab.advance(3)
    assert lab.phases == ["Failed"] * 3


def test_pod_of_a_deployment_that_goes_is_replaced_under_another_name(lab: Lab) -> None:
    lab.apply("Deployment", {"replicas": 3})
    lab.bind_all()
    lab.advance(1)
    before = {pod.name for pod in lab.cluster.pods()}
    lab.remove(lab.cluster.pods()[0])
    after = {pod.name for pod in lab.cluster.pods()}
    assert len(before) == len(after) == 3
    assert len(after - before) == 1


def test_bare_pod_that_goes_is_not_replaced(lab: Lab) -> None:
    lab.apply("Pod", {})
    lab.remove(lab.cluster.pods()[0])
    assert lab.cluster.pods() == ()


def test_deleted_pod_terminates_and_goes(lab: Lab) -> None:
    lab.apply("Pod", {})
    lab.bind_all()
    lab.advance(1)

    async def deleted() -> None:
        lab.cluster.delete(lab.cluster.pods()[0])

    lab.run(deleted())
    assert lab.cluster.pods()[0].deleting
    lab.advance(1)
    assert lab.cluster.pods() == ()


def test_object_without_a_controller_is_refused_by_name(lab: Lab) -> None:
    with pytest.raises(BadManifest, match="no controller for Service web"):
        lab.workloads.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {}})
