"""Jobs of a queue on a real control plane: they wait without pods, and are resumed in their turn."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from hypothesis import settings

from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    MET_ANNOTATION,
    QUEUE_LABEL,
    SUSPENDED_FOR_ANNOTATION,
)
from tests.e2e.expected_pods import created, held, path_of
from tests.e2e.harness import Manifest, Namespace, annotations_of, job, node_of, phase_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import ours

NIGHTLY = settings().max_examples > 1_000

JOBS = 2_000 if NIGHTLY else 400
SLOTS = JOBS // 10
"""How many of their pods fit at the same time."""

DRAINED_WITHIN = 1_800.0 if NIGHTLY else 240.0
"""Seconds for a machine that has much else to do."""


def queued(name: str, count: int = 1, run_for: str | None = None, **spec: Any) -> Manifest:
    """A Job of the default queue that isn't Indexed; each of its pods asks for one core."""
    body = job(name, ours("x", cpu="1", run_for=run_for), parallelism=count, **spec)
    body["metadata"]["labels"] = {QUEUE_LABEL: "default"}
    return body


def now(namespace: Namespace, name: str) -> Manifest:
    return namespace.api.get(path_of(namespace, name))


def pods_of(namespace: Namespace, name: str) -> list[Manifest]:
    return namespace.pods(**{"batch.kubernetes.io/job-name": name})


def running(namespace: Namespace, name: str, count: int) -> None:
    """Wait until so many pods of the Job run."""
    wait_for(
        lambda: [phase_of(one) for one in pods_of(namespace, name)].count("Running") == count,
        what=f"{count} running pods of {name}",
        seen=lambda: [phase_of(one) for one in pods_of(namespace, name)],
    )


def delete(namespace: Namespace, name: str) -> None:
    """Delete a Job with its pods."""
    namespace.api.request("DELETE", path_of(namespace, name), {"propagationPolicy": "Background"})


def alive(namespace: Namespace, prefix: str) -> list[Manifest]:
    """The pods whose names begin so and that haven't ended, at one moment."""
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    found = namespace.api.get(path, fieldSelector="status.phase!=Succeeded")["items"]
    return [one for one in found if one["metadata"]["name"].startswith(prefix)]


@pytest.mark.timeout(4 * DRAINED_WITHIN)
def test_jobs_without_pods_drain_in_order(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(4, cpu=str(SLOTS // 4), pods=SLOTS)
    names = [f"job-{number:04}" for number in range(JOBS)]
    namespace.create(queued("full", SLOTS))
    running(namespace, "full", SLOTS)
    with ThreadPoolExecutor(4) as creators:
        made = list(creators.map(lambda name: created(namespace, queued(name, run_for="1s")), names))
    assert all(map(held, made))
    # The service orders what is created in the same second by the resourceVersion.
    made.sort(key=lambda one: (one["metadata"]["creationTimestamp"], int(one["metadata"]["resourceVersion"])))
    order = {one["metadata"]["name"]: place for place, one in enumerate(made)}
    wait_for(
        lambda: [one["state"] for one in fluence.gangs(namespace.name)].count("waiting") == JOBS,
        DRAINED_WITHIN,
        "all Jobs to be in line",
    )
    assert len(namespace.pods()) == SLOTS

    jobs = f"/apis/batch/v1/namespaces/{namespace.name}/jobs"
    delete(namespace, "full")
    over, most, left = time.monotonic() + DRAINED_WITHIN, 0, JOBS
    while left and time.monotonic() < over:
        most = max(most, len(alive(namespace, "job-")))
        left = len(namespace.api.get(jobs, fieldSelector="status.successful=0")["items"])
        time.sleep(1)
    assert not left
    assert 0 < most <= SLOTS
    # The startTime is when a Job was resumed, in whole seconds. Those whose places are found in one step are resumed by
    # writes that are under way at the same time.
    done = namespace.api.get(jobs)["items"]
    begun = sorted(done, key=lambda one: (one["status"]["startTime"], order[one["metadata"]["name"]]))
    late = max(abs(order[one["metadata"]["name"]] - turn) for turn, one in enumerate(begun))
    assert late <= SLOTS


def test_throttled_job_runs_no_more_pods_than_its_parallelism_and_waits_without_any(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="3")
    namespace.create(queued("full", 3))
    running(namespace, "full", 3)
    namespace.create(queued("array", 2, run_for="1s", completions=5))
    fluence.wait_for_reason(namespace.name, "array-0", "busy")
    assert not pods_of(namespace, "array")
    delete(namespace, "full")
    most = 0

    def complete() -> bool:
        nonlocal most
        most = max(most, len(alive(namespace, "array-")))
        return bool(now(namespace, "array")["status"].get("succeeded") == 5)

    wait_for(complete, what="the array to complete")
    assert most == 2


SAMPLE = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels:
    kueue.x-k8s.io/queue-name: default
spec:
  parallelism: 3
  completions: 3
  suspend: true
  template:
    spec:
      schedulerName: fluence
      containers:
      - name: dummy-job
        image: registry.k8s.io/e2e-test-images/agnhost:2.53
        command: [ "/bin/sh" ]
        args: [ "-c", "sleep 60" ]
        resources:
          requests:
            cpu: "1"
            memory: "200Mi"
      restartPolicy: Never
"""
"""A Job in the form of Kueue's examples, and for this scheduler."""


@pytest.mark.parametrize("labelled", [False, True], ids=["with Kueue's label", "with both labels"])
def test_jobs_as_written_for_kueue_wait_without_pods_and_are_resumed_in_their_turn(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, labelled: bool
) -> None:
    own_nodes(1, cpu="3")
    namespace.create(queued("full", 3))
    running(namespace, "full", 3)
    for name in ("first", "second"):
        body = yaml.safe_load(SAMPLE.format(name=name))
        if labelled:
            body["metadata"]["labels"][QUEUE_LABEL] = "default"
        assert held(created(namespace, body))
        fluence.wait_for_reason(namespace.name, f"{name}-0", "busy")
    assert not pods_of(namespace, "first") + pods_of(namespace, "second")
    delete(namespace, "full")
    running(namespace, "first", 3)
    assert now(namespace, "second")["spec"]["suspend"]
    delete(namespace, "first")
    running(namespace, "second", 3)


def test_met_dependencies_outlive_the_job_that_met_them_and_a_restart(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(1, cpu="3")
    namespace.create(queued("full", 2), job("prep", ours("x", cpu="1", run_for="1s")))
    running(namespace, "full", 2)
    after = {AFTER_ANNOTATION: "ok:job/prep"}
    main = queued("main", 3)
    main["metadata"]["annotations"] = after
    namespace.create(main, ours("solo", cpu="3", annotations=after))
    fluence.wait_for_reason(namespace.name, "solo", "busy")
    recorded = f"{now(namespace, 'main')['metadata']['uid']} ok:job/prep"
    wait_for(
        lambda: annotations_of(now(namespace, "main")).get(MET_ANNOTATION) == recorded,
        what="the Job's record",
    )
    wait_for(lambda: MET_ANNOTATION in annotations_of(namespace.pod("solo")), what="the pod's record")
    delete(namespace, "prep")
    wait_for(lambda: not pods_of(namespace, "prep"), what="the other Job to be gone")
    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, "solo", "busy")
    delete(namespace, "full")
    running(namespace, "main", 3)
    delete(namespace, "main")
    namespace.wait_for_phase("solo", "Running")


def test_job_that_its_user_resumes_early_gains_nothing(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(queued("full", 2))
    running(namespace, "full", 2)
    namespace.create(queued("first", 2))
    fluence.wait_for_reason(namespace.name, "first-0", "busy")
    namespace.create(queued("early", 2))
    namespace.api.patch(path_of(namespace, "early"), {"spec": {"suspend": False}})
    assert SUSPENDED_FOR_ANNOTATION not in annotations_of(now(namespace, "early"))
    wait_for(lambda: len(pods_of(namespace, "early")) == 2, what="the pods of the Job")
    assert [node_of(one) for one in pods_of(namespace, "early")] == ["", ""]
    assert not pods_of(namespace, "first")
    delete(namespace, "full")
    running(namespace, "first", 2)
    assert [node_of(one) for one in pods_of(namespace, "early")] == ["", ""]


@pytest.mark.usefixtures("fluence")
def test_job_that_its_user_suspends_stays_so(namespace: Namespace, own_nodes: NodeFactory) -> None:
    own_nodes(1, cpu="2")
    namespace.create(queued("mine", suspend=True), queued("ours"))
    running(namespace, "ours", 1)
    assert now(namespace, "mine")["spec"]["suspend"]
    assert not pods_of(namespace, "mine")
    namespace.api.patch(path_of(namespace, "mine"), {"spec": {"suspend": False}})
    running(namespace, "mine", 1)


@pytest.mark.usefixtures("fluence")
def test_jobs_that_are_deleted_while_they_are_resumed_leave_nothing_behind(
    namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    for number in range(20):
        namespace.create(queued(f"gone-{number}", 4))
        delete(namespace, f"gone-{number}")
    namespace.create(queued("last", 4))
    running(namespace, "last", 4)
