"""All kinds are watched together: when they are synced, and how stale they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.errors import ResourcesFileError
from fluence_extender.cluster.pacing import Timing
from fluence_extender.cluster.port import WATCHED, Observation
from fluence_extender.cluster.watch import Watcher
from fluence_extender.kinds.job import Job
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.unit.cluster.fake_api_server import FakeApiServer, eventually, hang, refuse

QUICK = Timing(
    watch=30.0,
    silence=20.0,
    retry=0.01,
    retry_cap=0.05,
    denied=0.02,
    rediscover=0.05,
    heartbeat=0.05,
    page=100,
)
PATHS = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/apis/batch/v1/jobs",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/api/v1/resourcequotas",
    "/api/v1/namespaces/fluence/configmaps",
)


@asynccontextmanager
async def running(watcher: Watcher) -> AsyncIterator[None]:
    task = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def full(server: FakeApiServer) -> FakeApiServer:
    for path in PATHS:
        server.objects[path] = {}
    return server


async def test_every_kind_is_listed_before_it_is_synced(full: FakeApiServer, connection: Connection) -> None:
    observations: list[Observation] = []
    watcher = Watcher(connection, observations.append, "fluence", QUICK)
    assert watcher.staleness() == float("inf")
    full.faults["list", "/apis/batch/v1/jobs"].extend([refuse(403, "no jobs for you")] * 5)
    async with running(watcher):
        await watcher.synced(Node, Pod)
        assert watcher.is_synced(Node)
        await watcher.synced()
        assert watcher.is_synced()
        await eventually(lambda: watcher.failures() == {})
    assert {one.kind for one in observations} == set(WATCHED)


async def test_missing_right_is_reported_by_kind(full: FakeApiServer, connection: Connection) -> None:
    full.faults["list", "/apis/batch/v1/jobs"].extend([refuse(403, "no jobs for you")] * 1000)
    watcher = Watcher(connection, lambda observation: None, "fluence", QUICK)
    with capture_logs() as lines:
        async with running(watcher):
            await eventually(lambda: "no jobs for you" in watcher.failures().get(Job, ""))
            assert not watcher.is_synced()
    assert ("a watch failed; it is tried again", "jobs.batch") in {
        (line["event"], line.get("kind")) for line in lines
    }


async def test_quiet_cluster_is_fresh_and_a_hung_one_is_stale(
    full: FakeApiServer, connection: Connection
) -> None:
    unhurried = replace(QUICK, rediscover=60.0)
    watcher = Watcher(connection, lambda observation: None, "fluence", unhurried)
    async with running(watcher):
        await watcher.synced()
        await asyncio.sleep(0.5)
        assert watcher.staleness() < 0.3
        full.faults["list", "/readyz"].extend([hang] * 6)
        await eventually(lambda: watcher.staleness() > 0.3)
        await eventually(lambda: watcher.staleness() < 0.2)


async def test_lost_api_server_is_stale_until_it_is_back(full: FakeApiServer, connection: Connection) -> None:
    watcher = Watcher(connection, lambda observation: None, "fluence", QUICK)
    async with running(watcher):
        await watcher.synced()
        await full.stop()
        await eventually(lambda: watcher.staleness() > 0.3)
        assert Pod in watcher.failures()
        await full.start()
        await eventually(lambda: watcher.staleness() < 0.2 and not watcher.failures())


async def test_watch_that_lists_again_is_not_open_although_the_api_server_answers(
    full: FakeApiServer, connection: Connection
) -> None:
    watcher = Watcher(connection, lambda observation: None, "fluence", QUICK)
    async with running(watcher):
        await watcher.synced()
        await eventually(lambda: watcher.open_for(Pod) > 0.1)
        await full.put_pod("unseen")
        full.compacted = full.version + 1
        full.faults["list", PATHS[1]].append(hang)
        await full.drop_watches()
        await eventually(lambda: full.count("list", PATHS[1]) == 2)
        assert watcher.staleness(Pod) < 10.0
        assert watcher.open_for(Pod) == 0.0
    other = Watcher(connection, lambda observation: None, "fluence", QUICK)
    assert other.open_for(Pod) == 0.0


async def test_local_resources_file_replaces_the_config_map(
    full: FakeApiServer, connection: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "resources.yaml"
    path.write_text("types: {}")
    watcher = Watcher(connection, lambda observation: None, path, QUICK)
    async with running(watcher):
        await watcher.synced()
    assert full.count("list", PATHS[-1]) == 0


async def test_missing_local_resources_file_ends_the_watch_with_its_error(
    full: FakeApiServer, connection: Connection, tmp_path: Path
) -> None:
    watcher = Watcher(connection, lambda observation: None, tmp_path / "none.yaml", QUICK)
    with pytest.raises(ExceptionGroup) as group:
        await watcher.run()
    assert group.group_contains(ResourcesFileError, match=r"none\.yaml")
