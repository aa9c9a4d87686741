"""Jobs that have to give their places back wait in line again on a real control plane, and no failure is counted."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from fluence_extender.model.names import DOMAIN, NODES_ANNOTATION, QUEUE_LABEL, QUEUED_SINCE_ANNOTATION
from tests.e2e.expected_pods import held, path_of, ranks, resumed_by_user
from tests.e2e.harness import (
    Cluster,
    Manifest,
    Namespace,
    annotations_of,
    job,
    node_of,
    phase_of,
    wait_for,
)
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.queue_objects import PATHS, queue_object
from tests.e2e.service import Fluence
from tests.e2e.workloads import labelled, ours
from tests.localcluster import ApiError

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
URGENT = "urgent-requeue"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture(autouse=True)
def urgent(cluster: Cluster) -> Iterator[None]:
    """The PriorityClass of the Jobs that preempt."""
    cluster.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": URGENT},
            "value": 1000,
        }
    )
    probe = ours("probe", priorityClassName=URGENT)

    def known() -> bool:
        try:
            cluster.api.request("POST", "/api/v1/namespaces/default/pods", probe, query={"dryRun": "All"})
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return False
        return True

    wait_for(known, what="new pods to be allowed the class")
    yield
    cluster.api.delete(f"{CLASSES}/{URGENT}")


@pytest.fixture
def queue(namespace: Namespace) -> Iterator[str]:
    """A queue that sends work back in line that runs longer than ten seconds."""
    name = f"strict-{namespace.name}"
    namespace.api.create(
        queue_object("Queue", name, overrun="Requeue", defaults={"duration": "10s"}, stop="None")
    )
    yield name
    namespace.api.delete(f"{PATHS['Queue']}/{name}")


def cores(name: str, count: int, **shape: Any) -> Manifest:
    """An Indexed Job that survives no failure."""
    return ranks(name, count, ours("x", cpu="1", **shape), backoffLimit=0)


def pods_of(namespace: Namespace, name: str) -> list[Manifest]:
    """The pods of a Job that aren't being deleted."""
    found = namespace.pods(**{"batch.kubernetes.io/job-name": name})
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


def wait_until_running(namespace: Namespace, name: str, count: int) -> list[Manifest]:
    def runs() -> bool:
        found = pods_of(namespace, name)
        return len(found) == count and all(phase_of(one) == "Running" for one in found)

    wait_for(runs, what=f"{count} pods of {name} to run", seen=lambda: namespace.pods())
    return pods_of(namespace, name)


def stored(namespace: Namespace, name: str) -> Manifest:
    return namespace.api.get(path_of(namespace, name))


def failures(namespace: Namespace, name: str) -> tuple[int, list[str]]:
    """How many failed pods the Job has counted, and its conditions that say it has failed."""
    status = stored(namespace, name)["status"]
    return status.get("failed", 0), [
        one["type"] for one in status.get("conditions") or () if one["type"].startswith("Fail")
    ]


def delete(namespace: Namespace, name: str) -> None:
    namespace.api.request("DELETE", path_of(namespace, name), {"propagationPolicy": "Background"})


def finish(namespace: Namespace, name: str) -> None:
    """Have all pods of a Job succeed, and wait until it is complete."""
    for one in pods_of(namespace, name):
        path = f"/api/v1/namespaces/{namespace.name}/pods/{one['metadata']['name']}/status"
        namespace.api.patch(path, {"status": {"phase": "Succeeded"}})

    def complete() -> bool:
        conditions = stored(namespace, name)["status"].get("conditions") or ()
        return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)

    wait_for(complete, what=f"Job {name} to be complete")


def notes(namespace: Namespace, name: str, reason: str) -> list[str]:
    """What Events of that reason say about an object."""
    told = namespace.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events")["items"]
    return [one["note"] for one in told if one["regarding"]["name"] == name and one["reason"] == reason]


def test_preempted_job_comes_back_in_its_place_and_finishes(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(cores("low", 4))
    wait_until_running(namespace, "low", 4)
    namespace.create(cores("behind", 4))
    fluence.wait_for_reason(namespace.name, "behind", "busy")
    namespace.create(cores("high", 4, priorityClassName=URGENT))
    wait_until_running(namespace, "high", 4)
    assert held(stored(namespace, "low"))
    assert not pods_of(namespace, "low")
    assert failures(namespace, "low") == (0, [])
    assert QUEUED_SINCE_ANNOTATION in annotations_of(stored(namespace, "low"))
    wait_for(lambda: notes(namespace, "low", "Requeued"), what="the Event")
    assert "preempted by" in notes(namespace, "low", "Requeued")[0]

    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, "low", "busy")
    delete(namespace, "high")
    wait_until_running(namespace, "low", 4)
    assert not pods_of(namespace, "behind")
    finish(namespace, "low")
    assert failures(namespace, "low") == (0, [])
    wait_until_running(namespace, "behind", 4)


def test_preempted_job_that_is_not_placed_at_birth_comes_back_in_its_place(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    body = job("low", labelled(ours("x", cpu="1"), "low", 4), parallelism=4, backoffLimit=0)
    namespace.create(body)
    wait_until_running(namespace, "low", 4)
    assert NODES_ANNOTATION not in annotations_of(stored(namespace, "low")["spec"]["template"])
    namespace.create(cores("behind", 4))
    fluence.wait_for_reason(namespace.name, "behind", "busy")
    namespace.create(cores("high", 4, priorityClassName=URGENT))
    wait_until_running(namespace, "high", 4)
    fluence.wait_for_reason(namespace.name, "low", "busy")
    assert not any(map(node_of, pods_of(namespace, "low")))
    delete(namespace, "high")
    wait_until_running(namespace, "low", 4)
    assert not pods_of(namespace, "behind")
    finish(namespace, "low")
    assert failures(namespace, "low") == (0, [])


SPARED: dict[str, Any] = {
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }
}
"""What makes evictions cost a Job nothing; admission adds it only to Jobs that it suspends."""


def test_preempted_pods_of_an_array_cost_its_job_nothing_and_a_real_failure_counts(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(job("low", ours("x", cpu="1"), parallelism=4, completions=4, backoffLimit=0, **SPARED))
    first = {one["metadata"]["uid"] for one in wait_until_running(namespace, "low", 4)}
    namespace.create(job("high", ours("x", cpu="2", priorityClassName=URGENT), parallelism=1))
    wait_until_running(namespace, "high", 1)

    def replaced() -> bool:
        return len({one["metadata"]["uid"] for one in pods_of(namespace, "low")} - first) == 2

    wait_for(replaced, what="two pods of the array to be replaced", seen=lambda: namespace.pods())
    assert len(pods_of(namespace, "low")) == 4
    assert failures(namespace, "low") == (0, [])
    delete(namespace, "high")
    running = wait_until_running(namespace, "low", 4)
    assert failures(namespace, "low") == (0, [])
    path = f"/api/v1/namespaces/{namespace.name}/pods/{running[0]['metadata']['name']}/status"
    namespace.api.patch(path, {"status": {"phase": "Failed"}})
    wait_for(lambda: "Failed" in failures(namespace, "low")[1], what="the Job to fail")


def test_overrun_job_goes_back_behind_nobody_who_was_behind_it(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, queue: str
) -> None:
    own_nodes(1, cpu="4")
    for name in ("runs", "behind"):
        body = cores(name, 4)
        body["metadata"]["labels"] = {QUEUE_LABEL: queue}
        namespace.create(body)
        if name == "runs":
            first = {one["metadata"]["uid"] for one in wait_until_running(namespace, "runs", 4)}
    wait_for(lambda: notes(namespace, "runs", "Requeued"), what="the Event")

    def runs_again() -> bool:
        found = pods_of(namespace, "runs")
        return len(found) == 4 and all(
            phase_of(one) == "Running" and one["metadata"]["uid"] not in first for one in found
        )

    wait_for(runs_again, what="the Job to run again")
    assert not pods_of(namespace, "behind")
    assert failures(namespace, "runs") == (0, [])
    delete(namespace, "runs")
    wait_until_running(namespace, "behind", 4)


def test_user_who_resumes_a_job_that_was_sent_back_gains_nothing(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(cores("low", 4))
    wait_until_running(namespace, "low", 4)
    namespace.create(cores("high", 4, priorityClassName=URGENT))
    wait_until_running(namespace, "high", 4)
    wait_for(lambda: held(stored(namespace, "low")), what="the Job to wait")
    wait_for(
        lambda: resumed_by_user(namespace, "low"),
        what="its former plan not to bind pods any more",
        timeout=120,
    )
    wait_for(lambda: _waits(namespace), what="its pods to wait", seen=lambda: namespace.pods())
    assert len(wait_until_running(namespace, "high", 4)) == 4
    delete(namespace, "high")
    wait_until_running(namespace, "low", 4)
    assert failures(namespace, "low") == (0, [])


def _waits(namespace: Namespace) -> bool:
    """Whether its pods wait without nodes."""
    found = pods_of(namespace, "low")
    return len(found) == 4 and not any(map(node_of, found))


def test_disruption_budget_keeps_a_job_from_being_sent_back(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, queue: str
) -> None:
    own_nodes(1, cpu="4")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "runs"}}},
    }
    namespace.create(budget)
    body = cores("runs", 4)
    body["metadata"]["labels"] = {QUEUE_LABEL: queue}
    namespace.create(body)
    before = {one["metadata"]["uid"] for one in wait_until_running(namespace, "runs", 4)}

    def refused() -> bool:
        story = fluence.get(f"/v1/gangs/{namespace.name}/runs")["history"]
        return any("PodDisruptionBudget" in one["detail"] for one in story)

    wait_for(refused, what="the budget to be asked", timeout=60)
    assert {one["metadata"]["uid"] for one in pods_of(namespace, "runs")} == before
    namespace.api.delete(f"{BUDGETS.format(namespace.name)}/all")
    wait_for(lambda: notes(namespace, "runs", "Requeued"), what="the Event", timeout=90)


def test_users_can_not_write_a_place_in_line(fluence: Fluence, namespace: Namespace) -> None:
    early = {QUEUED_SINCE_ANNOTATION: "2020-01-01T00:00:00Z"}
    copied = ranks("copied", 2, ours("x", cpu="64"))
    copied["metadata"]["annotations"] = early
    namespace.create(copied)
    assert QUEUED_SINCE_ANNOTATION not in annotations_of(stored(namespace, "copied"))
    with pytest.raises(ApiError, match=f"{DOMAIN}/queued-since"):
        namespace.api.patch(path_of(namespace, "copied"), {"metadata": {"annotations": early}})
