"""Both applications on held placements, called without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.state.app import api_app
from tests.unit.http.held_placements import HeldPlacements, Post, on


@pytest.fixture
def placements() -> HeldPlacements:
    return on("n2")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def verbs(placements: HeldPlacements, metrics: Metrics) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(VerbsApp(placements, metrics))
    async with httpx.AsyncClient(transport=transport, base_url="http://extender") as client:
        yield client


@pytest.fixture
async def api(placements: HeldPlacements, metrics: Metrics) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(api_app(placements, metrics))
    async with httpx.AsyncClient(transport=transport, base_url="http://extender") as client:
        yield client


@pytest.fixture
def post(verbs: httpx.AsyncClient) -> Post:
    async def send(verb: str, request: Any) -> httpx.Response:
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return await verbs.post(f"/{verb}", content=body, headers={"content-type": "application/json"})

    return send
