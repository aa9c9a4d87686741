"""Workloads that state absurd numbers of members wait for a reason of their own; pods of others get their places."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle.rules import Rules
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.kinds.jobset import decode_job_set
from fluence_extender.kinds.leaderworkerset import decode_leader_worker_set
from fluence_extender.kinds.mpijob import decode_mpi_job
from fluence_extender.kinds.ray import decode_ray_cluster
from fluence_extender.model import names
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from tests.core.engine import EMBEDDED
from tests.core.values import node

MOST = 2**31 - 1
"""The largest count that the API server accepts."""

TEMPLATE = {"template": {"spec": {"schedulerName": "fluence", "containers": [{"name": "c"}]}}}
JOB = {"spec": {"parallelism": MOST, "completions": MOST, **TEMPLATE}}

WORKLOADS: dict[str, tuple[Callable[[bytes], Any], dict[str, Any], dict[str, str], Owner]] = {
    "RayCluster": (
        decode_ray_cluster,
        {
            "headGroupSpec": TEMPLATE,
            "workerGroupSpecs": [
                {"groupName": f"g{at}", "replicas": MOST, "numOfHosts": MOST, **TEMPLATE} for at in range(20)
            ],
        },
        {"ray.io/cluster": "w"},
        Owner("RayCluster", "w", "w", "ray.io/v1"),
    ),
    "JobSet": (
        decode_job_set,
        {"replicatedJobs": [{"name": f"r{at}", "replicas": MOST, "template": JOB} for at in range(20)]},
        {"jobset.sigs.k8s.io/jobset-name": "w", "jobset.sigs.k8s.io/replicatedjob-name": "r0"},
        Owner("Job", "w-r0-0", "w-r0-0", "batch/v1"),
    ),
    "MPIJob": (
        decode_mpi_job,
        {"mpiReplicaSpecs": {role: {"replicas": MOST, **TEMPLATE} for role in ("Worker", "Launcher")}},
        {"training.kubeflow.org/job-name": "w", "training.kubeflow.org/replica-type": "worker"},
        Owner("MPIJob", "w", "w", "kubeflow.org/v2beta1"),
    ),
    "LeaderWorkerSet": (
        decode_leader_worker_set,
        {"replicas": MOST, "leaderWorkerTemplate": {"size": MOST, "workerTemplate": TEMPLATE["template"]}},
        {"leaderworkerset.sigs.k8s.io/name": "w", "leaderworkerset.sigs.k8s.io/group-index": "0"},
        Owner("StatefulSet", "w-0", "w-0", "apps/v1"),
    ),
}


def scene() -> Controller:
    controller = Controller(EMBEDDED.ledger())
    controller.observe(Listed(Node, (node("n0"), node("n1"))))
    controller.start()
    return controller


def pod(namespace: str, name: str, **fields: Any) -> Pod:
    requests = Resources({"cpu": 1, "pods": 1})
    return Pod(namespace, name, f"{namespace}-{name}", requests=requests, gates=(names.GATE,), **fields)


def is_placed(controller: Controller, uid: str) -> bool:
    """Return whether a pod has its place after a few steps."""
    for _ in range(8):
        controller.step()
    found = controller.member(uid)
    return found is not None and found[1].assignment is not None


@pytest.mark.parametrize("kind", WORKLOADS)
def test_absurd_size_of_a_workload_keeps_nobody_else_waiting(kind: str) -> None:
    decode, spec, labels, owner = WORKLOADS[kind]
    controller = scene()
    gang = {"ray.io/gang-scheduling-enabled": "true"}
    metadata = {"name": "w", "namespace": "hostile", "uid": "w", "labels": gang}
    controller.observe(Changed(decode(json.dumps({"metadata": metadata, "spec": spec}).encode())))
    controller.observe(Changed(pod("hostile", "p", labels=labels, owner=owner)))
    controller.observe(Changed(pod("physics", "o")))
    assert is_placed(controller, "physics-o")
    found = controller.member("hostile-p")
    assert found is not None
    reason = found[0].reason
    assert reason is None or reason.code is not ReasonCode.PLANNING_FAILED


def test_size_beyond_the_largest_gang_is_refused_in_words() -> None:
    decode, spec, labels, owner = WORKLOADS["JobSet"]
    controller = scene()
    metadata = {"name": "w", "namespace": "hostile", "uid": "w"}
    controller.observe(Changed(decode(json.dumps({"metadata": metadata, "spec": spec}).encode())))
    controller.observe(Changed(pod("hostile", "p", labels=labels, owner=owner)))
    controller.step()
    found = controller.member("hostile-p")
    assert found is not None
    assert found[0].reason is not None
    assert found[0].reason.code is ReasonCode.INVALID_REQUEST
    assert found[0].reason.text.endswith("the largest gang has 1000000 members")


def test_gang_that_can_not_be_judged_keeps_nobody_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Rules.apply

    def fails(self: Rules, gang: Gang, now: float) -> None:
        if gang.key.namespace == "hostile":
            raise OverflowError("too large")
        apply(self, gang, now)

    monkeypatch.setattr(Rules, "apply", fails)
    controller = scene()
    for number in range(3):
        controller.observe(Changed(pod("hostile", f"p{number}")))
    controller.observe(Changed(pod("physics", "o")))
    assert is_placed(controller, "physics-o")
