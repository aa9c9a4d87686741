"""Controllers and kubelets of an embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.kubelets import EmbeddedKubelets
from fluence_extender.embeddedcluster.workloads import EmbeddedWorkloads
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.model.names import COMPLETION_INDEX
from fluence_extender.model.pod import Pod
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

    @property
    def job(self) -> Job:
        found = self.cluster.find(Job, "default", "x")
        assert found is not None
        return found

    def remove(self, one: Pod | Job) -> None:
        async def removed() -> None:
            self.cluster.remove(one)

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


def test_evicted_pod_is_replaced_where_its_job_does_not_count_it(lab: Lab) -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    ends = {"demo.fluence.flux-framework.org/fail-after": "30s"}
    lab.apply("Job", {"backoffLimit": 0, "podFailurePolicy": policy}, ends)
    for _ in range(3):
        lab.bind_all()
        lab.advance(1)
        (pod,) = lab.cluster.pods()
        lab.run(lab.cluster.evict(pod, "why"))
        lab.advance(5)
        assert pod.uid not in {one.uid for one in lab.cluster.pods()}
    lab.bind_all()
    lab.advance(60)
    assert lab.phases == ["Failed"]
    assert lab.job.finished


def test_evicted_pod_counts_where_its_job_has_no_such_policy(lab: Lab) -> None:
    lab.apply("Job", {"backoffLimit": 0})
    lab.bind_all()
    lab.advance(1)
    lab.run(lab.cluster.evict(lab.cluster.pods()[0], "why"))
    lab.advance(5)
    assert lab.job.finished


GANG = {
    "completionMode": "Indexed",
    "parallelism": 2,
    "completions": 2,
    "activeDeadlineSeconds": 60,
}


def test_job_that_its_user_suspends_makes_no_pods_and_is_not_held(lab: Lab) -> None:
    lab.apply("Job", {**GANG, "suspend": True})
    lab.advance(1)
    assert lab.cluster.pods() == ()
    assert (lab.job.suspended, lab.job.held_for_placement) == (True, False)


def test_gang_is_created_suspended_and_makes_no_pods_until_it_is_resumed(lab: Lab) -> None:
    lab.apply("Job", GANG)
    lab.advance(1)
    assert lab.cluster.pods() == ()
    assert (lab.job.held_for_placement, lab.job.ends) == (True, None)
    lab.run(lab.cluster.resume(lab.job, ("n1", "n0"), "2 job/x", bound=True))
    lab.advance(1)
    assert {pod.annotations[COMPLETION_INDEX]: pod.node for pod in lab.cluster.pods()} == {
        "0": "n1",
        "1": "n0",
    }
    assert lab.job.ends is not None


def test_job_that_is_resumed_without_nodes_makes_pods_that_wait(lab: Lab) -> None:
    lab.apply("Job", GANG)
    lab.run(lab.cluster.resume(lab.job, ()))
    lab.advance(1)
    assert [(pod.node, pod.withheld) for pod in lab.cluster.pods()] == [("", True)] * 2


def test_pods_of_a_job_that_is_suspended_again_go_and_do_not_count_as_failed(lab: Lab) -> None:
    lab.apply("Job", {**GANG, "backoffLimit": 0})
    for _ in range(3):
        lab.run(lab.cluster.resume(lab.job, ("n0", "n1")))
        lab.advance(1)
        assert len(lab.cluster.pods()) == 2
        lab.bind_all()
        lab.advance(1)
        assert lab.phases == ["Running"] * 2
        lab.run(lab.cluster.hold_job(lab.job, (0.0, 0)))
        lab.advance(1)
        assert lab.cluster.pods() == ()
        assert (lab.job.held_for_placement, lab.job.ends, lab.job.finished) == (True, None, False)


def test_replaced_index_gets_its_node_only_while_the_plan_is_fresh(lab: Lab) -> None:
    lab.apply("Job", GANG)
    lab.run(lab.cluster.resume(lab.job, ("n0", "n1"), "2 job/x", bound=True))
    lab.advance(1)
    lab.remove(lab.cluster.pods()[0])
    assert sorted(pod.node for pod in lab.cluster.pods()) == ["n0", "n1"]
    lab.advance(BINDS_FOR)
    lab.remove(next(pod for pod in lab.cluster.pods() if pod.node == "n0"))
    assert sorted((pod.node, pod.direct) for pod in lab.cluster.pods()) == [("", True), ("n1", True)]


def test_status_of_a_job_names_the_indexes_that_are_done_and_its_end(lab: Lab) -> None:
    lab.apply("Job", GANG, {"demo.fluence.flux-framework.org/run-for": "10s"})
    lab.run(lab.cluster.resume(lab.job, ("n0", "n1")))
    lab.advance(1)
    second = next(pod for pod in lab.cluster.pods() if pod.annotations[COMPLETION_INDEX] == "1")
    lab.run(lab.cluster.bind(second, "n1", {}))
    lab.advance(20)
    assert (lab.job.done, lab.job.finished) == (((1, 1),), False)
    lab.run(lab.cluster.hold_job(lab.job, (0.0, 0)))
    lab.advance(1)
    assert lab.phases == ["Succeeded"]
    lab.run(lab.cluster.resume(lab.job, ("n0", "n1")))
    lab.advance(1)
    assert lab.phases == ["Pending", "Succeeded"]
    lab.bind_all()
    lab.advance(20)
    assert (lab.job.done, lab.job.finished) == (((0, 1),), True)


def test_job_whose_pods_fail_too_often_is_finished(lab: Lab) -> None:
    lab.apply("Job", {"backoffLimit": 0}, {"demo.fluence.flux-framework.org/fail-after": "1s"})
    lab.bind_all()
    lab.advance(3)
    assert lab.job.finished


def test_pods_of_a_deleted_job_go_too(lab: Lab) -> None:
    lab.apply("Job", {"parallelism": 2})
    assert len(lab.cluster.pods()) == 2
    lab.remove(lab.job)
    assert lab.cluster.pods() == ()


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
