"""How the dashboard reads ``/v1``: once for all visitors, with conditional requests, and on after a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from fluence_extender.dashboard.app import Dashboard
from fluence_extender.dashboard.guard import Guard
from fluence_extender.dashboard.poller import Poller
from fluence_extender.dashboard.service import LARGEST_MANIFEST, ServiceAddress, ServiceReader
from tests.network.state_api import StateApi, gang, story

KEY = "the-key"
HOST = "127.0.0.1:8080"


@pytest.fixture
def service() -> Iterator[StateApi]:
    with StateApi() as started:
        started.lists["gangs"] = [gang("train")]
        started.documents["/v1/gangs/lab/train"] = story(gang("train"))
        yield started


@pytest.fixture
async def client(service: StateApi) -> AsyncIterator[httpx.AsyncClient]:
    pages = Dashboard(ServiceAddress(service.url)).app
    transport = httpx.ASGITransport(app=Guard(pages, [HOST], KEY))
    async with (
        pages.router.lifespan_context(pages),
        httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as started,
    ):
        yield started


async def test_unchanged_lists_are_not_sent_again(service: StateApi) -> None:
    async with ServiceReader(ServiceAddress(service.url)) as reader:
        poller = Poller(reader)
        await poller.read_once()
        first = poller.state
        await poller.read_once()
        assert (poller.state, service.unchanged) == (first, 6)
        service.lists["gangs"] = [gang("train", "bound")]
        await poller.read_once()
        assert poller.state.version == first.version + 1
        assert [(one.name, one.before, one.after) for one in poller.state.changes] == [
            ("train", "waiting", "bound")
        ]


async def test_failure_shows_and_ends_with_the_next_reading(service: StateApi) -> None:
    async with ServiceReader(ServiceAddress(service.url)) as reader:
        poller = Poller(reader)
        await poller.read_once()
        service.stop()
        await poller.read_once()
        assert poller.state.trouble is not None
        assert [one["name"] for one in poller.state.gangs] == ["train"]
        version = poller.state.version
        await poller.read_once()
        assert poller.state.version == version
        service.start()
        await poller.read_once()
        assert poller.state.trouble is None


async def test_story_is_read_once_for_each_state(service: StateApi) -> None:
    async with ServiceReader(ServiceAddress(service.url)) as reader:
        poller = Poller(reader)
        await poller.read_once()
        for _ in range(3):
            assert await poller.story("/v1/gangs/lab/train") is not None
        assert await poller.story("/v1/gangs/lab/nobody") is None
        assert service.asked["/v1/gangs/lab/train"] == 1


async def test_key_is_exchanged_for_a_cookie(client: httpx.AsyncClient) -> None:
    assert (await client.get("/gangs")).status_code == 403
    assert (await client.get("/gangs?key=wrong")).status_code == 403
    answer = await client.get(f"/gangs?state=bound&key={KEY}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/gangs?state=bound")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert (await client.get("/gangs")).status_code == 200


async def test_key_leads_to_no_other_host(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"http://{HOST}//evil.example/?key={KEY}")).headers[
        "location"
    ] == "/evil.example/"


async def test_other_names_of_this_machine_are_refused(client: httpx.AsyncClient) -> None:
    await client.get(f"/?key={KEY}")
    assert (await client.get("/", headers={"Host": "evil.example:8080"})).status_code == 421
    assert (await client.get("/", headers={"Host": "127.0.0.1"})).status_code == 421


async def test_questions_come_from_own_pages(client: httpx.AsyncClient, service: StateApi) -> None:
    await client.get(f"/?key={KEY}")
    for origin in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        assert (await client.post("/what-if", data={"manifest": "x"}, headers=origin)).status_code == 403
    assert service.bodies == []


async def test_question_that_is_too_large_is_not_asked(client: httpx.AsyncClient, service: StateApi) -> None:
    await client.get(f"/?key={KEY}")
    own = {"Origin": f"http://{HOST}"}
    for size in (LARGEST_MANIFEST + 1, 10 * 2**20):
        answer = await client.post("/what-if", data={"manifest": "x" * size}, headers=own)
        assert "larger than 4 MiB" in answer.text
    assert service.bodies == []


async def test_browser_may_run_and_load_nothing_of_others(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


async def test_page_that_waits_gets_only_what_is_new(client: httpx.AsyncClient, service: StateApi) -> None:
    await client.get(f"/?key={KEY}")
    tag = (await client.get("/gangs")).headers["etag"].strip('"')
    service.lists["gangs"] = [gang("late")]
    answer = await client.get("/gangs", headers={"Fluence-Wait": tag})
    assert "lab/late" in answer.text
