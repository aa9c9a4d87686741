"""The verbs and probes of a standby."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from aiohttp import web

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.port import Undecided
from fluence_extender.http.state.app import api_app
from tests.unit.http.held_placements import HeldPlacements, Post, by_name


async def test_filter_on_a_standby_waits_for_the_lead(post: Post, placements: HeldPlacements) -> None:
    placements.leading = False
    placements.plan["uid-1"] = Undecided("not the leader: the lease is held by x_1")
    answer = (await post("filter", by_name(["n1", "n2"]))).json()
    assert answer["Error"] == "not the leader: the lease is held by x_1"
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert placements.lead_requests == 1


async def test_the_leader_does_not_wait_for_the_lead(post: Post, placements: HeldPlacements) -> None:
    assert (await post("filter", by_name(["n1", "n2"]))).json()["NodeNames"] == ["n2"]
    assert placements.lead_requests == 0


async def test_a_standby_is_ready_and_says_that_it_is_a_standby(
    api: httpx.AsyncClient, placements: HeldPlacements
) -> None:
    assert (await api.get("/readyz")).text == "ok\n"
    assert "\nfluence_leader 1.0\n" in (await api.get("/metrics")).text
    placements.leading = False
    answer = await api.get("/readyz")
    assert (answer.status_code, answer.text) == (200, "standby\n")
    assert "\nfluence_leader 0.0\n" in (await api.get("/metrics")).text


@pytest.fixture
async def scheduler() -> AsyncIterator[tuple[str, list[int]]]:
    """Return the URL of a health endpoint, and the statuses that it will answer."""
    statuses: list[int] = []

    async def livez(_: web.Request) -> web.Response:
        return web.Response(status=statuses.pop(0))

    app = web.Application()
    app.router.add_get("/livez", livez)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}/livez", statuses
    await runner.cleanup()


async def probed(url: str) -> httpx.Response:
    transport = httpx.ASGITransport(api_app(HeldPlacements(), Metrics(), url))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        return await client.get("/livez/scheduler")


async def test_probe_of_the_scheduler_passes_its_health_on(scheduler: tuple[str, list[int]]) -> None:
    url, statuses = scheduler
    statuses += [200, 500]
    answer = await probed(url)
    assert (answer.status_code, answer.text) == (200, "ok\n")
    answer = await probed(url)
    assert (answer.status_code, answer.text) == (503, f"{url} answers 500\n")


async def test_the_probe_of_a_scheduler_that_does_not_answer_fails() -> None:
    answer = await probed("http://127.0.0.1:1/livez")
    assert answer.status_code == 503
    assert answer.text.startswith("http://127.0.0.1:1/livez doesn't answer: ")


async def test_without_a_scheduler_its_probe_passes() -> None:
    assert (await probed("")).status_code == 200
