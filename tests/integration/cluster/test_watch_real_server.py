"""A real API server is watched through restarts, hangs, missing rights and changed credentials."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import ApiRequest, connect
from fluence_extender.cluster.errors import Denied, Unauthenticated
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.cluster.watch import Watcher
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import RESOURCES_CONFIGMAP
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.integration.cluster.conftest import NODES, Ground
from tests.integration.cluster.mirror import QUICK, eventually, mirrored

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def create(ground: Ground, manifest: dict[str, Any]) -> None:
    await asyncio.to_thread(ground.api.create, manifest, "default")


def pod_manifest(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "250m", "memory": "1Mi"}}}
    spec = {"schedulerName": "fluence", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def name() -> str:
    return f"w-{uuid.uuid4().hex[:8]}"


async def test_pod_is_observed_from_its_gate_to_its_end(ground: Ground, name: str) -> None:
    async with (
        mirrored(ground.kubeconfig) as (_, mirror),
        connect(str(ground.kubeconfig)) as connection,
        open_cluster(connection) as cluster,
    ):
        assert set(NODES) <= set(mirror.state[Node])
        await create(ground, pod_manifest(name, schedulingGates=[{"name": "g"}]))
        await eventually(lambda: mirror.pod(name) is not None)
        pod = mirror.pod(name)
        assert pod is not None
        assert pod.ours
        assert (pod.requests["cpu"], pod.requests["memory"], pod.gates) == (250, 2**20, ("g",))
        await cluster.nominate(pod, NODES[0])
        await cluster.ungate(pod, "g")
        await eventually(lambda: getattr(mirror.pod(name), "nominated", "") == NODES[0])
        await cluster.bind(pod, NODES[0], {"example.com/a": "1"})
        await eventually(lambda: getattr(mirror.pod(name), "phase", "") == "Running")
        bound = mirror.pod(name)
        assert bound is not None
        assert (bound.node, bound.annotations["example.com/a"]) == (NODES[0], "1")
        await cluster.evict(pod, "test")
        await eventually(lambda: mirror.pod(name) is None)


async def test_jobs_pod_groups_and_the_config_map_are_followed(ground: Ground, name: str) -> None:
    async with mirrored(ground.kubeconfig) as (_, mirror):
        assert mirror.file() is None
        template = {"spec": {"restartPolicy": "Never", **pod_manifest(name)["spec"]}}
        await create(
            ground,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name},
                "spec": {"parallelism": 2, "completions": 4, "suspend": True, "template": template},
            },
        )
        await create(
            ground,
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 7}}},
            },
        )
        await eventually(lambda: name in mirror.state[Job] and name in mirror.state[PodGroup])
        job, group = mirror.state[Job][name], mirror.state[PodGroup][name]
        assert isinstance(job, Job)
        assert isinstance(group, PodGroup)
        assert (job.parallelism, job.completions, group.min_count) == (2, 4, 7)

        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": RESOURCES_CONFIGMAP}}
        await create(ground, {**config, "data": {"resources.yaml": "a: 1"}})
        await eventually(lambda: mirror.file() == "a: 1")
        path = f"{CONFIG_MAPS}/{RESOURCES_CONFIGMAP}"
        await asyncio.to_thread(ground.api.patch, path, {"data": {"resources.yaml": "a: 2"}})
        await eventually(lambda: mirror.file() == "a: 2")
        await asyncio.to_thread(ground.api.delete, path)
        await eventually(lambda: mirror.file() is None)
        assert set(mirror.lists.values()) == {1}


async def test_restart_of_the_api_server_is_reported_and_recovered_from(ground: Ground, name: str) -> None:
    async with mirrored(ground.kubeconfig) as (watcher, mirror):
        await asyncio.to_thread(ground.plane.component("kube-apiserver").stop)
        try:
            await eventually(lambda: watcher.staleness() > 1.0 and Pod in watcher.failures())
        finally:
            await asyncio.to_thread(ground.plane.component("kube-apiserver").start)
        await create(ground, pod_manifest(name))
        await eventually(lambda: mirror.pod(name) is not None)
        await eventually(lambda: watcher.staleness() < 1.0 and not watcher.failures())


async def test_api_server_that_hangs_differs_from_a_quiet_one(ground: Ground) -> None:
    process = ground.plane.component("kube-apiserver").pid
    assert process is not None
    async with mirrored(ground.kubeconfig) as (watcher, _):
        await asyncio.sleep(1.5)
        # Nothing has changed for longer than this; a busy machine may have a moment's silence of its own.
        await eventually(lambda: watcher.staleness() < 1.0)
        os.kill(process, signal.SIGSTOP)
        try:
            await eventually(lambda: watcher.staleness() > 1.5)
        finally:
            os.kill(process, signal.SIGCONT)
        await eventually(lambda: watcher.staleness() < 1.0)


async def test_missing_rights_of_an_account_are_named(ground: Ground, name: str) -> None:
    kubeconfig = ground.plane.kubeconfig_for("nobody")
    await create(ground, pod_manifest(name))
    async with connect(str(kubeconfig)) as connection:
        watcher = Watcher(connection, lambda observation: None, "default", QUICK)
        task = asyncio.create_task(watcher.run())
        served = {Node, Pod, Job, PodGroup, ResourcesFile}
        await eventually(lambda: served <= set(watcher.failures()))
        failures = watcher.failures()
        task.cancel()
        await asyncio.wait([task])
        assert 'User "nobody" cannot list resource "nodes"' in failures[Node]
        assert "jobs" in failures[Job]
        async with open_cluster(connection) as cluster:
            pod = Pod("default", name, "some-uid")
            with pytest.raises(Denied, match=r'"nobody" cannot create resource "pods/binding"'):
                await cluster.bind(pod, NODES[0], {})


async def test_list_read_in_pages_equals_what_was_watched(ground: Ground, name: str) -> None:
    def fill() -> None:
        for number in range(200):
            ground.api.create(pod_manifest(f"{name}-{number:03}"), "default")

    async with mirrored(ground.kubeconfig) as (_, mirror):
        await asyncio.to_thread(fill)
        wanted = {f"{name}-{number:03}" for number in range(200)}
        await eventually(lambda: wanted <= set(mirror.state[Pod]))
    async with mirrored(ground.kubeconfig) as (_, again):
        assert wanted <= set(again.state[Pod])


async def test_credentials_of_another_type_replace_refused_ones(ground: Ground, tmp_path: Path) -> None:
    wrong = yaml.safe_load(ground.kubeconfig.read_text())
    for user in wrong["users"]:
        user["user"] = {"token": "expired"}
    kubeconfig = tmp_path / "kubeconfig"
    _write(kubeconfig, yaml.safe_dump(wrong))
    request = ApiRequest("GET", "/api/v1/nodes", "list nodes")
    async with connect(str(kubeconfig)) as connection:
        with pytest.raises(Unauthenticated):
            await connection.call(request)
        _write(kubeconfig, ground.plane.kubeconfig.read_text())
        assert b"node-0" in await connection.call(request)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
