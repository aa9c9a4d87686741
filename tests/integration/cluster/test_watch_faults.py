"""A real API server is watched over a network that fails, with a compacted history and a slow reader."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from fluence_extender.cluster.pacing import Timing
from fluence_extender.cluster.port import Observation, ResourcesFile, Sink
from fluence_extender.cluster.watch import Watcher
from fluence_extender.model.pod import Pod
from tests.integration.cluster.conftest import ACCOUNT, Ground
from tests.integration.cluster.mirror import QUICK, Mirror, eventually, mirrored
from tests.localcluster import Api
from tests.network.gateway import Gateway
from tests.network.relay import Relay

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def name(ground: Ground) -> Iterator[str]:
    yield f"t-{uuid.uuid4().hex[:8]}"
    ground.api.delete(PODS, gracePeriodSeconds="0")


@pytest.fixture
def relay(ground: Ground) -> Iterator[Relay]:
    with Relay(ground.plane.url) as relay:
        yield relay


@pytest.fixture
def gateway(ground: Ground) -> Iterator[Gateway]:
    with Gateway(ground.plane.url, ground.plane.access.authority_file) as gateway:
        yield gateway


@asynccontextmanager
async def over(
    relay: Relay | Gateway, ground: Ground, folder: Path, **how: Any
) -> AsyncIterator[tuple[Watcher, Mirror]]:
    """A watcher that reaches the API server through ``relay``."""
    kubeconfig = relay.kubeconfig(ground.kubeconfig, folder / "kubeconfig")
    async with mirrored(kubeconfig, **how) as (watcher, mirror):
        yield watcher, mirror


def manifest(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"schedulerName": "nobody", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def delete(api: Api, name: str) -> None:
    api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def compact(ground: Ground) -> None:
    """Have etcd forget every version but the present one, as the API server has it do every five minutes."""
    url = ground.plane.component("etcd").command
    (etcd,) = [part.partition("=")[2] for part in url if part.startswith("--listen-client-urls=")]
    with urllib3.PoolManager() as pool:
        header = pool.request("POST", f"{etcd}/v3/kv/range", json={"key": "AA=="}).json()["header"]
        done = pool.request(
            "POST", f"{etcd}/v3/kv/compaction", json={"revision": header["revision"], "physical": True}
        )
        assert done.status == 200, done.data


async def test_history_compacted_while_cut_off_leads_to_a_new_list(
    ground: Ground, relay: Relay, name: str, tmp_path: Path
) -> None:
    def meanwhile() -> None:
        delete(ground.api, f"{name}-gone")
        ground.api.create(manifest(f"{name}-new"), "default")
        compact(ground)
        # A fresh API server remembers nothing that etcd doesn't.
        ground.plane.component("kube-apiserver").kill()
        ground.plane.component("kube-apiserver").start()

    await asyncio.to_thread(ground.api.create, manifest(f"{name}-gone"), "default")
    async with over(relay, ground, tmp_path) as (watcher, mirror):
        assert mirror.names(Pod, name) == {f"{name}-gone"}
        relay.silence()
        await asyncio.to_thread(meanwhile)
        assert mirror.names(Pod, name) == {f"{name}-gone"}
        relay.restore()
        await eventually(lambda: mirror.names(Pod, name) == {f"{name}-new"})
        await eventually(lambda: not watcher.failures() and watcher.staleness() < 1.0)
        assert mirror.lists[Pod] > 1


async def test_connections_cut_again_and_again_lose_no_event_and_need_no_new_list(
    ground: Ground, relay: Relay, name: str, tmp_path: Path
) -> None:
    names = [f"{name}-{number:03}" for number in range(120)]

    def churn() -> None:
        for number, one in enumerate(names):
            ground.api.create(manifest(one), "default")
            if number % 3 == 0:
                delete(ground.api, one)
            if number % 10 == 5:
                # Mostly in the middle of an event: the last one is on its way.
                relay.cut()

    async with over(relay, ground, tmp_path) as (_, mirror):
        await asyncio.to_thread(churn)
        wanted = {one for number, one in enumerate(names) if number % 3}
        await eventually(lambda: mirror.names(Pod, name) == wanted)
        assert mirror.lists[Pod] == 1


async def test_reader_slower_than_the_changes_ends_in_the_same_state(
    ground: Ground, relay: Relay, name: str, tmp_path: Path
) -> None:
    def slowly(mirror: Mirror) -> Sink:
        def take(observation: Observation) -> None:
            time.sleep(0.005)
            mirror(observation)

        return take

    def churn() -> None:
        for number in range(300):
            ground.api.create(manifest(f"{name}-{number:03}"), "default")
            if number % 2:
                delete(ground.api, f"{name}-{number:03}")

    async with over(relay, ground, tmp_path, sink=slowly) as (_, mirror):
        await asyncio.to_thread(churn)
        wanted = {f"{name}-{number:03}" for number in range(0, 300, 2)}
        await eventually(lambda: mirror.names(Pod, name) == wanted)


async def test_first_lists_are_consistent_reads_and_never_from_a_cache(
    ground: Ground, gateway: Gateway, tmp_path: Path
) -> None:
    async with over(gateway, ground, tmp_path):
        lists = [
            seen
            for seen in gateway.requests
            if seen.method == "GET" and "limit" in seen.query and not seen.watch
        ]
    assert {seen.path.rpartition("/")[2] for seen in lists} >= {
        "nodes",
        "pods",
        "jobs",
        "replicasets",
        "statefulsets",
        "podgroups",
        "configmaps",
    }
    # Without a resourceVersion the API server answers with what etcd has, by a quorum read; "0" would be any cache.
    assert not [
        seen for seen in lists if "resourceVersion" in seen.query or "resourceVersionMatch" in seen.query
    ]


async def test_bookmark_moves_the_version_from_which_a_quiet_watch_continues(
    ground: Ground, gateway: Gateway, name: str, tmp_path: Path
) -> None:
    def asked_from() -> list[int]:
        versions = [
            seen.query["resourceVersion"]
            for seen in gateway.requests
            if seen.watch and "configmaps" in seen.path
        ]
        return [int(version) for version in versions]

    # The API server sends a bookmark shortly before it ends a watch. Ours is of one ConfigMap and hears of no other.
    timing = Timing(heartbeat=0.3, retry_cap=0.5, watch=6.0)
    async with over(gateway, ground, tmp_path, timing=timing) as (_, mirror):
        await eventually(lambda: bool(asked_from()))
        other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        made = await asyncio.to_thread(ground.api.create, other, "default")
        version = int(made["metadata"]["resourceVersion"])
        assert asked_from()[-1] < version
        await eventually(lambda: asked_from()[-1] >= version)
        assert mirror.lists[ResourcesFile] == 1
    ground.api.delete(f"/api/v1/namespaces/default/configmaps/{name}")


def renewed(ground: Ground) -> None:
    """Let every token of the account be good no more, as its uid is another's now."""
    path = f"/api/v1/namespaces/default/serviceaccounts/{ACCOUNT}"
    ground.api.delete(path)
    ground.api.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}, "default"
    )


def token(ground: Ground) -> str:
    document = yaml.safe_load(ground.plane.kubeconfig_for_service_account("default", ACCOUNT).read_text())
    return str(document["users"][0]["user"]["token"])


def by_file(folder: Path) -> dict[str, Any]:
    return {"tokenFile": str(folder / "token")}


def by_plugin(folder: Path) -> dict[str, Any]:
    plugin = folder / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'printf \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        f'"status": {{"token": "%s"}}}}\' "$(cat {folder / "token"})"\n'
    )
    plugin.chmod(0o700)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}


@pytest.mark.parametrize("user", [by_file, by_plugin])
async def test_watch_continues_with_a_rotated_token(
    ground: Ground, relay: Relay, name: str, tmp_path: Path, user: Callable[[Path], dict[str, Any]]
) -> None:
    (tmp_path / "token").write_text(token(ground))
    kubeconfig = relay.kubeconfig(ground.kubeconfig, tmp_path / "kubeconfig")
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] = user(tmp_path)
    kubeconfig.write_text(yaml.safe_dump(document))
    async with mirrored(kubeconfig, QUICK) as (watcher, mirror):
        await asyncio.to_thread(renewed, ground)
        # Open watches outlive their token; new requests are refused.
        relay.cut()
        await eventually(lambda: Pod in watcher.failures())
        (tmp_path / "token").write_text(await asyncio.to_thread(token, ground))
        await asyncio.to_thread(ground.api.create, manifest(name), "default")
        await eventually(lambda: mirror.pod(name) is not None and not watcher.failures())
        assert mirror.lists[Pod] == 1
