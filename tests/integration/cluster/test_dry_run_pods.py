"""What a real API server would make of a Job's pods is found out without creating one."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.api import ApiCluster, open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.errors import Conflict, Denied, PodsUnknown
from fluence_extender.kinds.job import Job, decode_job
from fluence_extender.model.names import COMPLETION_INDEX, JOB_NAME
from fluence_extender.model.pod import Pod
from tests.integration.cluster.conftest import Ground
from tests.integration.cluster.lab import LONGEST
from tests.localcluster import Api, ApiError

CONTAINER = {"name": "c", "image": "pause"}


@pytest.fixture
async def cluster(ground: Ground) -> AsyncIterator[ApiCluster]:
    async with connect(str(ground.kubeconfig)) as connection, open_cluster(connection) as opened:
        yield opened


@pytest.fixture
def namespace(ground: Ground) -> Iterator[str]:
    name = f"n-{uuid.uuid4().hex[:8]}"
    ground.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    ground.api.delete(f"/api/v1/namespaces/{name}")


def suspended_job(api: Api, namespace: str, name: str = "j", managed_by: str = "", **spec: Any) -> Job:
    template = {
        "spec": {"schedulerName": "fluence", "restartPolicy": "Never", "containers": [CONTAINER], **spec}
    }
    body: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "suspend": True,
        "template": template,
    }
    if managed_by:
        body["managedBy"] = managed_by
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}
    return decode_job(json.dumps(api.create(manifest, namespace)).encode())


def pods(api: Api, namespace: str, name: str) -> list[Pod]:
    found = api.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"{JOB_NAME}={name}")["items"]
    return [decode_pod(json.dumps(one).encode()) for one in found]


async def first_pod(api: Api, job: Job) -> Pod:
    """Return the pod of index 0, once the Job controller has created it."""
    async with asyncio.timeout(LONGEST):
        while True:
            for pod in await asyncio.to_thread(pods, api, job.namespace, job.name):
                if pod.annotations[COMPLETION_INDEX] == "0":
                    return pod
            await asyncio.sleep(0.05)


def resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("name", ["j", "j" * 61])
async def test_defaults_of_the_namespace_and_the_priority_are_foreseen(
    ground: Ground, cluster: ApiCluster, namespace: str, name: str
) -> None:
    limit = {"type": "Container", "defaultRequest": {"cpu": "300m"}, "default": {"cpu": "1"}}
    ground.api.create(resource("LimitRange", "defaults", {"limits": [limit]}), namespace)
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": namespace}}
    ground.api.create({**urgent, "value": 77})
    job = suspended_job(ground.api, namespace, name, priorityClassName=namespace)
    (expected,) = await cluster.dry_run(job)
    assert (expected.requests["cpu"], expected.priority) == (300, 77)
    ground.api.patch(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", {"spec": {"suspend": False}})
    real = await first_pod(ground.api, job)
    assert real.name.startswith(expected.name.removesuffix("trial"))
    same = replace(expected, name=real.name, uid=real.uid, created=real.created)
    assert replace(same, resource_version=real.resource_version) == real


async def test_refusal_by_a_quota_is_told_in_stable_words(
    ground: Ground, cluster: ApiCluster, namespace: str
) -> None:
    ground.api.create(resource("ResourceQuota", "team", {"hard": {"pods": "0"}}), namespace)
    job = suspended_job(ground.api, namespace)
    told: list[str] = []
    async with asyncio.timeout(LONGEST):
        while len(told) < 2:
            with pytest.raises(Denied, match="quota") as refused:
                await cluster.dry_run(job)
            # It only says how much is used once its controller has counted.
            if "exceeded quota: team" in str(refused.value):
                told.append(str(refused.value))
    assert told[0] == told[1]


async def test_refusal_by_pod_security_is_told(ground: Ground, cluster: ApiCluster, namespace: str) -> None:
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    ground.api.patch(f"/api/v1/namespaces/{namespace}", enforced)
    job = suspended_job(ground.api, namespace)
    with pytest.raises(Denied, match="violates PodSecurity"):
        await cluster.dry_run(job)


async def test_job_whose_template_names_a_node_cannot_be_foreseen(
    ground: Ground, cluster: ApiCluster, namespace: str
) -> None:
    job = suspended_job(ground.api, namespace, nodeName="node-0")
    with pytest.raises(PodsUnknown, match="created on node node-0"):
        await cluster.dry_run(job)


async def test_pods_that_admission_gives_to_another_scheduler_cannot_be_foreseen(
    ground: Ground, cluster: ApiCluster, namespace: str
) -> None:
    job = suspended_job(ground.api, namespace)
    for manifest in diversion(namespace):
        ground.api.create(manifest)
    try:
        await until_diverted(cluster, job)
        with pytest.raises(PodsUnknown, match="for scheduler theirs"):
            await cluster.dry_run(job)
    finally:
        for manifest in diversion(namespace):
            ground.api.delete(ground.api.path_of(manifest))


async def until_diverted(cluster: ApiCluster, job: Job) -> None:
    """Wait until the API server has taken up the policy."""
    async with asyncio.timeout(LONGEST):
        while True:
            try:
                await cluster.dry_run(job)
            except PodsUnknown:
                return
            await asyncio.sleep(0.1)


def diversion(namespace: str) -> list[dict[str, Any]]:
    """Return a policy that gives the pods of one namespace to another scheduler, and its binding."""
    version = "admissionregistration.k8s.io/v1"
    change = "[JSONPatch{op: 'replace', path: '/spec/schedulerName', value: 'theirs'}]"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return [
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": namespace},
            "spec": {
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": chosen},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": change}}],
            },
        },
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": namespace},
            "spec": {"policyName": namespace},
        },
    ]


async def test_job_whose_old_pods_still_exist_is_resumed_with_other_nodes_only_later(
    ground: Ground, cluster: ApiCluster, namespace: str
) -> None:
    # Nothing else writes the status of a Job that another controller manages.
    job = suspended_job(ground.api, namespace, managed_by="example.com/nobody")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/j"
    suspended = {"type": "Suspended", "status": "True"}
    ground.api.patch(f"{path}/status", {"status": {"active": 1, "conditions": [suspended]}})
    now = decode_job(json.dumps(ground.api.get(path)).encode())
    with pytest.raises(Conflict, match="still exist"):
        await cluster.resume(now, ("node-0", "node-1"))
    ground.api.patch(f"{path}/status", {"status": {"active": 0}})
    now = decode_job(json.dumps(ground.api.get(path)).encode())
    await cluster.resume(now, ("node-0", "node-1"))
    after = decode_job(json.dumps(ground.api.get(path)).encode())
    assert (after.uid, after.nodes, after.suspended) == (job.uid, ("node-0", "node-1"), False)


async def test_trial_creates_nothing(ground: Ground, cluster: ApiCluster, namespace: str) -> None:
    job = suspended_job(ground.api, namespace)
    (expected,) = await cluster.dry_run(job)
    assert pods(ground.api, namespace, "j") == []
    with pytest.raises(ApiError) as missing:
        ground.api.get(f"/api/v1/namespaces/{namespace}/pods/{expected.name}")
    assert missing.value.status == 404
