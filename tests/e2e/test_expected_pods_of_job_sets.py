"""JobSets whose Jobs' pods the service places before they exist."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest

from fluence_extender.model.names import (
    NODES_ANNOTATION,
    SUSPENDED_FOR_ANNOTATION,
)
from tests.e2e.expected_pods import bound_at_birth, held, is_direct, path_of, ranks, refusal
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, phase_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.job_sets import API, job_set, replicated
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import ours

pytestmark = pytest.mark.usefixtures("job_set_controller")

TOLERATIONS = [
    {"key": f"example.com/{letter}", "operator": "Exists", "tolerationSeconds": 9, "effect": "NoExecute"}
    for letter in "abcd"
]
STILL = 3.0
"""Seconds in which a controller that tries again at each change would have changed the Job many times."""


def workers(name: str, replicas: int, pods: int, cpu: str = "1", **spec: Any) -> Manifest:
    """A replicated job whose pods ask for so much CPU each."""
    template = ours("x", cpu=cpu)
    template["spec"]["tolerations"] = TOLERATIONS
    return replicated(name, replicas, pods, template, **spec)


def jobs_of(namespace: Namespace, count: int) -> list[Manifest]:
    """The Jobs of the namespace by name, once there are so many."""
    path = path_of(namespace, "").rstrip("/")
    return wait_for(
        lambda: found if len(found := namespace.api.get(path)["items"]) == count else None,
        what=f"{count} Jobs",
    )


def running(namespace: Namespace, count: int) -> list[Manifest]:
    """The running pods of the namespace, once there are so many and no others."""

    def all_run(pods: Sequence[Manifest]) -> bool:
        living = [one for one in pods if phase_of(one) not in ("Failed", "Succeeded")]
        return len(living) == count and all(phase_of(one) == "Running" for one in living)

    return [
        one for one in namespace.wait_for_pods(all_run, f"{count} running pods") if phase_of(one) == "Running"
    ]


def suspend(namespace: Namespace, name: str, suspended: bool) -> None:
    """Suspend or resume a JobSet, as its user."""
    path = f"/apis/{API}/namespaces/{namespace.name}/jobsets/{name}"
    namespace.api.patch(path, {"spec": {"suspend": suspended}})


def born(pods: list[Manifest]) -> bool:
    """Whether all of the pods were created with their nodes."""
    return all(bound_at_birth(one) == node_of(one) for one in pods)


def end(namespace: Namespace, one: Manifest, phase: str) -> None:
    """Write that a pod has ended."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{one['metadata']['name']}/status"
    namespace.api.patch(path, {"status": {"phase": phase}})


def untouched(namespace: Namespace) -> bool:
    """Whether nobody writes to the Jobs of the namespace for a while."""
    path = path_of(namespace, "").rstrip("/")

    def versions() -> list[str]:
        return [one["metadata"]["resourceVersion"] for one in namespace.api.get(path)["items"]]

    before = versions()
    time.sleep(STILL)
    return versions() == before


def test_all_jobs_of_a_job_set_are_placed_together_before_their_pods_exist(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(job_set("train", workers("driver", 1, 1), workers("w", 2, 3)))
    pods = running(namespace, 7)
    assert born(pods)
    gang = fluence.wait_for_state(namespace.name, "train", "bound")
    assert gang["size"] == 7
    plans = [annotations_of(one["spec"]["template"])[NODES_ANNOTATION] for one in jobs_of(namespace, 3)]
    assert sorted(map(len, (plan.split(",") for plan in plans))) == [1, 3, 3]


def test_waiting_jobs_of_a_job_set_have_no_pods_and_stay_as_they_are(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(job_set("small", workers("w", 1, 2)))
    running(namespace, 2)
    namespace.create(job_set("large", workers("driver", 1, 1), workers("w", 2, 1)))
    fluence.wait_for_reason(namespace.name, "large", "busy")
    waiting = [one for one in jobs_of(namespace, 4) if held(one)]
    assert len(waiting) == 3
    wait_for(lambda: untouched(namespace), what="nobody to write to the Jobs")
    assert [one["spec"]["template"]["spec"]["tolerations"] for one in jobs_of(namespace, 4)] == [
        TOLERATIONS
    ] * 4
    assert len(namespace.pods()) == 2
    for one in namespace.pods():
        end(namespace, one, "Succeeded")
    assert born(running(namespace, 3))


def test_user_suspends_and_resumes_a_job_set_that_waits(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(job_set("small", workers("w", 1, 2)))
    running(namespace, 2)
    namespace.create(job_set("later", workers("w", 2, 1)))
    fluence.wait_for_reason(namespace.name, "later", "busy")
    suspend(namespace, "later", True)
    wait_for(lambda: fluence.gang(namespace.name, "later") is None, what="it not to be planned any more")
    for one in namespace.pods():
        end(namespace, one, "Succeeded")
    fluence.wait_for_state(namespace.name, "small", "finished")
    time.sleep(1)
    assert all(held(one) for one in jobs_of(namespace, 3) if one["metadata"]["name"].startswith("later"))
    suspend(namespace, "later", False)
    assert born(running(namespace, 2))


def test_user_suspends_and_resumes_a_job_set_that_runs(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(job_set("train", workers("w", 2, 2)))
    running(namespace, 4)
    suspend(namespace, "train", True)
    namespace.wait_for_pods(lambda pods: not pods, "no pods")
    wait_for(lambda: not fluence.allocations(namespace.name), what="its share to be given back")
    assert not any(held(one) for one in jobs_of(namespace, 2))
    suspend(namespace, "train", False)
    running(namespace, 4)
    fluence.wait_for_state(namespace.name, "train", "bound")


def test_job_set_that_its_user_creates_suspended_is_his_to_resume(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(job_set("train", workers("w", 2, 2), suspend=True))
    jobs = jobs_of(namespace, 2)
    assert not any(held(one) for one in jobs)
    time.sleep(1)
    assert all(one["spec"]["suspend"] for one in jobs_of(namespace, 2))
    suspend(namespace, "train", False)
    running(namespace, 4)


def test_jobs_of_a_restarted_job_set_are_placed_before_their_pods_exist(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    spec = {"failurePolicy": {"maxRestarts": 2}}
    namespace.create(job_set("train", workers("w", 2, 2, backoffLimit=0), **spec))
    before = {one["metadata"]["uid"] for one in running(namespace, 4)}
    end(namespace, random.choice(namespace.pods()), "Failed")
    namespace.wait_for_pods(
        lambda pods: not before & {one["metadata"]["uid"] for one in pods}, "the first run to go"
    )
    pods = running(namespace, 4)
    assert born(pods)
    fluence.wait_for_state(namespace.name, "train", "bound")


def test_each_stage_of_a_job_set_is_placed_before_its_pods_exist(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    spec = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    namespace.create(job_set("train", workers("first", 1, 1), workers("then", 1, 3), **spec))
    assert born(running(namespace, 4))
    for stage in ("first", "then"):
        fluence.wait_for_state(namespace.name, f"train/{stage}", "bound")


def test_job_without_the_annotation_is_resumed_by_its_job_set(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="1")
    namespace.create(job_set("train", workers("w", 1, 2)))
    fluence.wait_for_reason(namespace.name, "train", "unsatisfiable")
    path = path_of(namespace, "train-w-0")
    assert not refusal(lambda: namespace.api.patch(path, {"spec": {"suspend": False}}))
    assert held(namespace.api.get(path))
    namespace.api.patch(path, {"metadata": {"annotations": {SUSPENDED_FOR_ANNOTATION: None}}})
    pods = namespace.wait_for_pods(lambda pods: len(pods) == 2, "pods that wait")
    assert all(map(is_direct, pods))
    own_nodes(1, cpu="1")
    running(namespace, 2)


def test_restart_of_the_service_while_a_job_set_waits(
    fluence: Fluence, installation: Installation, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    installation.crash()
    namespace.create(job_set("train", workers("w", 2, 1)))
    jobs_of(namespace, 2)
    suspend(namespace, "train", True)
    installation.revive()
    time.sleep(2)
    assert all(map(held, jobs_of(namespace, 2)))
    suspend(namespace, "train", False)
    assert born(running(namespace, 2))


def test_preempted_job_set_goes_back_in_line_and_no_restart_is_counted(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(job_set("low", workers("w", 2, 2, backoffLimit=0), failurePolicy={"maxRestarts": 0}))
    before = {one["metadata"]["uid"] for one in running(namespace, 4)}
    high = ranks("high", 4, ours("x", cpu="1", priorityClassName="system-cluster-critical"))
    namespace.create(high)

    def replaced() -> bool:
        found = [one for one in namespace.pods() if phase_of(one) == "Running"]
        return len(found) == 4 and not before & {one["metadata"]["uid"] for one in found}

    wait_for(replaced, what="the other Job to run", seen=lambda: namespace.pods())
    waiting = [one for one in jobs_of(namespace, 3) if held(one)]
    assert [one["metadata"]["name"] for one in waiting] == ["low-w-0", "low-w-1"]
    namespace.api.request("DELETE", path_of(namespace, "high"), {"propagationPolicy": "Background"})
    assert born(running(namespace, 4))
    status = namespace.api.get(f"/apis/{API}/namespaces/{namespace.name}/jobsets/low").get("status", {})
    assert not status.get("restarts")
    assert not any(one["status"].get("failed") for one in jobs_of(namespace, 2))
