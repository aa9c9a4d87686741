"""Lists that are asked for before anybody is there to be told of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fluence_extender.apps.extender.first_lists import FirstLists, StartRefused, note_failure, serve
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.errors import ResourcesFileError
from fluence_extender.cluster.port import Kind, Listed, Observation
from tests.unit.cluster.fake_api_server import FakeApiServer, eventually

PATHS = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/apis/batch/v1/jobs",
    "/api/v1/namespaces/fluence/configmaps",
)


async def test_lists_of_the_time_before_are_told_to_the_sink(
    server: FakeApiServer, connection: Connection
) -> None:
    for path in PATHS:
        server.objects[path] = {}
    told: list[Observation] = []
    async with FirstLists(connection, Settings(resources_namespace="fluence")).begun() as lists:
        await lists.watcher.synced(Kind.NODE, Kind.POD)
        watching = asyncio.create_task(lists.watch(told.append))
        await eventually(lambda: {Kind.NODE, Kind.POD} <= {one.kind for one in told})
        watching.cancel()
        await asyncio.wait([watching])
    assert all(isinstance(one, Listed) for one in told)


async def test_file_that_can_not_be_followed_ends_the_watch(connection: Connection, tmp_path: Path) -> None:
    async with FirstLists(connection, Settings(resources=tmp_path / "none.yaml")).begun() as lists:
        with pytest.raises(BaseExceptionGroup) as raised:
            await lists.watch(lambda _: None)
    assert raised.group_contains(ResourcesFileError)


async def test_bad_resources_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "resources.yaml"
    file.write_text("resources: [")
    with pytest.raises(StartRefused, match=r"resources\.yaml:1"):
        await serve(Settings(resources=file, kubeconfig=str(tmp_path / "none")), lambda *_: None)


async def test_transport_that_fails_is_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.get_running_loop()
    note_failure(
        loop, {"message": "Fatal error on SSL protocol", "exception": OSError("gone"), "transport": None}
    )
    told = capsys.readouterr()
    assert "a connection broke off" in told.out + told.err
    assert "Traceback" not in told.out + told.err
