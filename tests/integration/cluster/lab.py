"""The same checks on an embedded cluster and on a real API server."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import Cluster
from fluence_extender.embeddedcluster.admission import admit_job
from fluence_extender.embeddedcluster.workloads import EmbeddedWorkloads
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.job import Job, decode_job
from fluence_extender.model.names import JOB_NAME
from fluence_extender.model.pod import Pod
from tests.core.faulty_cluster import FaultyCluster
from tests.localcluster import Api, ApiError

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
FINALIZER = "example.com/hold"
LONGEST = 90.0
"""Seconds that a test waits for what takes moments."""


class Lab(Protocol):
    """What a test does to the cluster behind the port's back, and what it finds there."""

    cluster: Cluster

    async def create(self, name: str, gates: Sequence[str] = ()) -> Pod: ...

    async def read(self, pod: Pod) -> Pod | None: ...

    async def replace(self, pod: Pod) -> Pod:
        """Delete the pod and create a namesake, whose uid is another."""
        ...

    async def hold(self, pod: Pod) -> None:
        """Delete the pod so that it stays, being deleted."""
        ...

    async def protect(self, pod: Pod) -> None: ...

    async def waiting(self, pod: Pod) -> str:
        """Why the pod waits, as it says itself; "" where it doesn't."""
        ...

    async def events(self, pod: Pod) -> list[tuple[str, str, str, int]]:
        """Type, reason, message and count of each Event about the pod."""
        ...

    async def create_job(self, manifest: dict[str, Any]) -> Job:
        """Create the Job as our policies admit it."""
        ...

    async def read_job(self, job: Job) -> Job | None: ...

    async def edit_job(self, job: Job) -> None:
        """Change something of the Job that the service doesn't look at."""
        ...

    async def delete_job(self, job: Job) -> None: ...

    async def pods_of(self, job: Job) -> list[Pod]:
        """The pods of the Job that aren't being deleted."""
        ...


class MemoryLab:
    def __init__(self) -> None:
        self._memory = FaultyCluster()
        self._workloads = EmbeddedWorkloads(self._memory, parse_resources(""))
        self.cluster: Cluster = self._memory

    async def create(self, name: str, gates: Sequence[str] = ()) -> Pod:
        pod = Pod("default", name, uuid.uuid4().hex, gates=tuple(gates))
        self._memory.put(pod)
        return self._memory.pod(pod)

    async def read(self, pod: Pod) -> Pod | None:
        return next((one for one in self._memory.pods() if one.key == pod.key), None)

    async def replace(self, pod: Pod) -> Pod:
        self._memory.remove(pod)
        return await self.create(pod.name)

    async def hold(self, pod: Pod) -> None:
        self._memory.put(replace(self._memory.pod(pod), deleting=True))

    async def protect(self, pod: Pod) -> None:
        self._memory.protected.add(pod.uid)

    async def waiting(self, pod: Pod) -> str:
        return self._memory.waiting.get(pod.uid, "")

    async def events(self, pod: Pod) -> list[tuple[str, str, str, int]]:
        return [
            ("Warning" if event.warning else "Normal", event.reason, event.message, event.count)
            for event in self._memory.events
            if event.regarding.uid == pod.uid
        ]

    async def create_job(self, manifest: dict[str, Any]) -> Job:
        self._workloads.apply(json.loads(json.dumps(manifest)))
        await asyncio.sleep(0)
        name = manifest["metadata"]["name"]
        found = self._memory.find(Job, "default", name)
        assert found is not None
        return found

    async def read_job(self, job: Job) -> Job | None:
        return self._memory.find(Job, job.namespace, job.name)

    async def edit_job(self, job: Job) -> None:
        self._memory.put(self._memory.job(job))

    async def delete_job(self, job: Job) -> None:
        self._memory.remove(job)

    async def pods_of(self, job: Job) -> list[Pod]:
        pods = self._memory.pods()
        return [pod for pod in pods if pod.owner and pod.owner.uid == job.uid and not pod.deleting]


class ApiLab:
    def __init__(self, cluster: Cluster, api: Api) -> None:
        self.cluster = cluster
        self._api = api

    async def create(self, name: str, gates: Sequence[str] = ()) -> Pod:
        return await asyncio.to_thread(self._create, name, gates)

    def _create(self, name: str, gates: Sequence[str]) -> Pod:
        spec: dict[str, Any] = {
            "schedulerName": "fluence",
            "terminationGracePeriodSeconds": 1,
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}],
        }
        meta = {"name": name, "labels": {"app": name}}
        return _decoded(
            self._api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "default")
        )

    async def read(self, pod: Pod) -> Pod | None:
        try:
            return _decoded(await asyncio.to_thread(self._api.get, f"{PODS}/{pod.name}"))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def replace(self, pod: Pod) -> Pod:
        await asyncio.to_thread(self._api.delete, f"{PODS}/{pod.name}", gracePeriodSeconds="0")
        return await self.create(pod.name)

    async def hold(self, pod: Pod) -> None:
        body = {"metadata": {"finalizers": [FINALIZER]}}
        await asyncio.to_thread(self._api.patch, f"{PODS}/{pod.name}", body)
        await asyncio.to_thread(self._api.delete, f"{PODS}/{pod.name}")

    async def protect(self, pod: Pod) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": pod.name}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": pod.name}}
        await asyncio.to_thread(self._api.create, {**budget, "spec": spec}, "default")
        path = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{pod.name}"
        async with asyncio.timeout(LONGEST):
            while True:
                found = await asyncio.to_thread(self._api.get, path)
                running = await self.read(pod)
                if (
                    found.get("status", {}).get("currentHealthy") == 1
                    and running
                    and running.phase == "Running"
                ):
                    return
                await asyncio.sleep(0.05)

    async def waiting(self, pod: Pod) -> str:
        now = await asyncio.to_thread(self._api.get, f"{PODS}/{pod.name}")
        found = {one["type"]: one for one in now["status"].get("conditions") or ()}
        return str(found.get("PodScheduled", {}).get("message", ""))

    async def events(self, pod: Pod) -> list[tuple[str, str, str, int]]:
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        found = (await asyncio.to_thread(self._api.get, path))["items"]
        return [
            (one["type"], one["reason"], one["note"], (one.get("series") or {}).get("count", 1))
            for one in sorted(found, key=lambda one: one["eventTime"] or "")
            if one["regarding"].get("uid") == pod.uid
            and one.get("reportingController", "").startswith("fluence")
        ]

    async def create_job(self, manifest: dict[str, Any]) -> Job:
        made = await asyncio.to_thread(self._api.create, admit_job(manifest), "default")
        return decode_job(json.dumps(made).encode())

    async def read_job(self, job: Job) -> Job | None:
        try:
            found = await asyncio.to_thread(self._api.get, f"{JOBS}/{job.name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return decode_job(json.dumps(found).encode())

    async def edit_job(self, job: Job) -> None:
        body = {"metadata": {"labels": {"edited": uuid.uuid4().hex}}}
        await asyncio.to_thread(self._api.patch, f"{JOBS}/{job.name}", body)

    async def delete_job(self, job: Job) -> None:
        await asyncio.to_thread(
            self._api.delete, f"{JOBS}/{job.name}", propagationPolicy="Background", gracePeriodSeconds="0"
        )

    async def pods_of(self, job: Job) -> list[Pod]:
        found = await asyncio.to_thread(self._api.get, PODS, labelSelector=f"{JOB_NAME}={job.name}")
        pods = map(_decoded, found["items"])
        return [pod for pod in pods if pod.owner and pod.owner.uid == job.uid and not pod.deleting]

    def clean(self) -> None:
        """Remove what the tests left, so that the next starts on an empty cluster."""
        self._api.delete(JOBS, propagationPolicy="Background")
        for pod in self._api.get(PODS)["items"]:
            with suppress(ApiError):
                self._api.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
                self._api.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds="0")
        self._api.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets")


def _decoded(manifest: dict[str, Any]) -> Pod:
    return decode_pod(json.dumps(manifest).encode())
