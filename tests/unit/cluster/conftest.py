"""A fake API server and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fluence_extender.cluster.connection import Connection, connect
from tests.unit.cluster.fake_api_server import PODS, FakeApiServer, kubeconfig_text


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
