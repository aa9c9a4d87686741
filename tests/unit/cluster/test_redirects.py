"""A redirect by the API server, or by something that took its place, is refused and never followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from fluence_extender.cluster.connection import ApiRequest, connect
from fluence_extender.cluster.errors import ClusterError
from tests.unit.cluster.fake_api_server import FakeApiServer, Handler

PATH = "/api/v1/namespaces/lab/pods"
LIST = ApiRequest("GET", PATH, "list the pods")


def to(url: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": f"{url}/stolen"})

    return handler


async def test_call_is_refused_and_the_other_server_gets_nothing(
    server: FakeApiServer, kubeconfig: Path
) -> None:
    thief = FakeApiServer()
    await thief.start()
    server.scripts["GET", PATH].append(to(thief.url))
    async with connect(str(kubeconfig)) as connection:
        with pytest.raises(ClusterError, match="HTTP 307"):
            await connection.call(LIST)
    await thief.stop()
    assert thief.requests == []


async def test_stream_is_refused_and_the_other_server_gets_nothing(
    server: FakeApiServer, kubeconfig: Path
) -> None:
    thief = FakeApiServer()
    await thief.start()
    server.scripts["GET", PATH].append(to(thief.url))
    async with connect(str(kubeconfig)) as connection:
        with pytest.raises(ClusterError, match="HTTP 307"):
            async with connection.stream(LIST, 5.0):
                pass
    await thief.stop()
    assert thief.requests == []
