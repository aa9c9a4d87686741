"""A fake API server and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fake_api_server import PODS, FakeApiServer

from fluence_extender.cluster.connection import Connection, connect


def kubeconfig_text(url: str, user: str = "{token: secret}") -> str:
    return f"""
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {user}}}]
"""


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    fake = FakeApiServer()
    fake.objects[PODS] = {}
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def kubeconfig(server: FakeApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig_text(server.url))
    return path


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[Connection]:
    async with connect(str(kubeconfig)) as opened:
        yield opened
