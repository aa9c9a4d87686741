"""A watch that begins before its sink exists."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fluence_extender.apps.extender.main import serve
from fluence_extender.apps.processes import StartRefused, log_unhandled
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.early_watch import EarlyWatch
from fluence_extender.cluster.errors import ResourcesFileError
from fluence_extender.cluster.port import Listed, Observation
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.unit.cluster.fake_api_server import FakeApiServer, eventually

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


async def test_observations_from_before_the_sink_are_sent_to_it(
    server: FakeApiServer, connection: Connection
) -> None:
    for path in PATHS:
        server.objects[path] = {}
    seen: list[Observation] = []
    async with EarlyWatch(connection, "fluence").running() as early:
        await early.watcher.synced(Node, Pod)
        watching = asyncio.create_task(early.watch(seen.append))
        await eventually(lambda: {Node, Pod} <= {one.kind for one in seen})
        watching.cancel()
        await asyncio.wait([watching])
    assert all(isinstance(one, Listed) for one in seen)


async def test_file_that_can_not_be_followed_ends_the_watch(connection: Connection, tmp_path: Path) -> None:
    async with EarlyWatch(connection, tmp_path / "none.yaml").running() as early:
        with pytest.raises(BaseExceptionGroup) as raised:
            await early.watch(lambda _: None)
    assert raised.group_contains(ResourcesFileError)


async def test_bad_resources_are_reported_before_any_request(tmp_path: Path) -> None:
    file = tmp_path / "resources.yaml"
    file.write_text("resources: [")
    with pytest.raises(StartRefused, match=r"resources\.yaml:1"):
        await serve(Settings(resources=file, kubeconfig=str(tmp_path / "none")), lambda *_: None)


async def test_transport_that_fails_is_logged_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.get_running_loop()
    log_unhandled(
        loop, {"message": "Fatal error on SSL protocol", "exception": OSError("gone"), "transport": None}
    )
    seen = capsys.readouterr()
    assert "a connection broke off" in seen.out + seen.err
    assert "Traceback" not in seen.out + seen.err
