"""How the dashboard reads ``/v1``: once for all visitors, with conditional requests, and on after a failure."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import httpx
import pytest

from fluence_extender.dashboard.app import Dashboard
from fluence_extender.dashboard.guard import Guard
from fluence_extender.dashboard.listing import Items, decoded, made_once
from fluence_extender.dashboard.poller import Poller
from fluence_extender.dashboard.service import LARGEST_MANIFEST, ServiceAddress, ServiceReader
from fluence_extender.dashboard.state import changes_between
from fluence_extender.dashboard.watch import INTEREST, VisitorWatch, pause
from tests.network.state_api import StateApi, gang, story

KEY = "the-key"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
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


@pytest.fixture
async def cluster(service: StateApi) -> AsyncIterator[httpx.AsyncClient]:
    """The dashboard as it is in the cluster, where each request names a user."""
    pages = Dashboard(ServiceAddress(service.url), shared=True).app
    transport = httpx.ASGITransport(app=Guard(pages, (), ""))
    async with (
        pages.router.lifespan_context(pages),
        httpx.AsyncClient(transport=transport, base_url="https://board.example") as started,
    ):
        yield started


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_each_user_sees_what_the_service_shows_him(
    cluster: httpx.AsyncClient, service: StateApi
) -> None:
    service.seen_by = {"Bearer ada": {"gangs": [gang("adas")]}, "Bearer eve": {"gangs": [gang("eves")]}}
    for _ in range(2):
        for mine, theirs in (("ada", "eve"), ("eve", "ada")):
            for path in ("/gangs", "/", "/search?q=s", "/queue"):
                shown = (await cluster.get(path, headers=bearer(mine))).text
                assert f"lab/{theirs}s" not in shown
            assert f"lab/{mine}s" in (await cluster.get("/gangs", headers=bearer(mine))).text


async def test_change_of_one_users_sight_is_no_news_for_another(
    cluster: httpx.AsyncClient, service: StateApi
) -> None:
    service.seen_by = {"Bearer ada": {"gangs": [gang("a")]}, "Bearer eve": {"gangs": [gang("a")]}}
    tag = (await cluster.get("/gangs", headers=bearer("ada"))).headers["etag"].strip('"')
    await cluster.get("/gangs", headers=bearer("eve"))
    service.seen_by["Bearer ada"] = {"gangs": [gang("a"), gang("secret")]}
    waiting = {"Fluence-Wait": tag}
    assert "lab/secret" in (await cluster.get("/gangs", headers=bearer("ada") | waiting)).text
    for path in ("/gangs", "/"):
        assert "secret" not in (await cluster.get(path, headers=bearer("eve"))).text


async def test_what_two_users_may_see_is_sent_once(service: StateApi) -> None:
    service.seen_by = {"Bearer ada": {}, "Bearer eve": {}, "Bearer bob": {"gangs": []}}
    async with ServiceReader(ServiceAddress(service.url)) as reader:
        watch = VisitorWatch(reader)
        ada, eve, bob = [await watch.visited(f"Bearer {name}") for name in ("ada", "eve", "bob")]
        assert (service.unchanged, eve.state.gangs is ada.state.gangs) == (6 + 5, True)
        assert list(bob.state.gangs) == []
        await watch.read_once()
        assert service.unchanged == 11 + 18
        service.lists["gangs"] = [gang("late")]
        await watch.read_once()
        assert service.unchanged == 29 + 17
        assert eve.state.gangs is ada.state.gangs
        assert list(bob.state.gangs) == []


async def test_user_who_loses_his_rights_sees_nothing_any_more(
    cluster: httpx.AsyncClient, service: StateApi
) -> None:
    service.seen_by = {"Bearer ada": {"gangs": [gang("adas")]}}
    tag = (await cluster.get("/gangs", headers=bearer("ada"))).headers["etag"].strip('"')
    service.seen_by["Bearer ada"] = None
    shown = (await cluster.get("/gangs", headers=bearer("ada") | {"Fluence-Wait": tag})).text
    assert "adas" not in shown
    assert "doesn&#39;t know you" in shown
    assert "adas" not in (await cluster.get("/", headers=bearer("ada"))).text


@pytest.mark.parametrize("header", [{}, {"Authorization": "Basic YTpi"}, bearer("x" * 20_000)])
async def test_request_without_a_token_gets_nothing(
    cluster: httpx.AsyncClient, service: StateApi, header: dict[str, str]
) -> None:
    for path in ("/", "/gangs", "/gangs/lab/train", "/usage", "/what-if"):
        assert (await cluster.get(path, headers=header)).status_code == 401
    assert (await cluster.get("/healthz", headers=header)).status_code == 200
    own = {"Origin": "https://board.example"}
    assert (await cluster.post("/what-if", data={"manifest": "x"}, headers=header | own)).status_code == 401
    assert (service.asked, service.bodies) == ({}, [])


async def test_tokens_that_are_refused_take_no_place(
    service: StateApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fluence_extender.dashboard.watch.MOST_VISITORS", 2)
    service.seen_by = {f"Bearer {number}": None for number in range(4)}
    async with ServiceReader(ServiceAddress(service.url)) as reader:
        watch = VisitorWatch(reader)
        for authorization in service.seen_by:
            assert (await watch.visited(authorization)).refused
        assert not (await watch.visited("Bearer ada")).refused


async def test_more_users_than_there_is_room_for_are_sent_away(
    cluster: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fluence_extender.dashboard.watch.MOST_VISITORS", 1)
    assert (await cluster.get("/", headers=bearer("ada"))).status_code == 200
    assert (await cluster.get("/", headers=bearer("eve"))).status_code == 503
    assert (await cluster.get("/", headers=bearer("ada"))).status_code == 200


@pytest.mark.parametrize(
    ("reading", "computed", "seconds"),
    [(0.01, 0.01, 0.51), (0.5, 0.1, 5.0), (0.1, 0.4, 4.0), (0.1, 9.0, 15.0), (3.0, 9.0, 30.0)],
)
def test_reading_and_making_pages_take_a_tenth(reading: float, computed: float, seconds: float) -> None:
    assert pause(reading, computed) == pytest.approx(seconds)


async def test_page_after_a_pause_is_new_and_comes_at_once(service: StateApi) -> None:
    async with ServiceReader(ServiceAddress(service.url)) as reader:
        watch = VisitorWatch(reader)
        visitor = await watch.visited("")
        visitor.read = visitor.visited = time.monotonic() - 2 * INTEREST
        await watch.read_once()
        service.lists["gangs"] = [gang("late")]
        began = time.monotonic()
        assert [one["name"] for one in (await watch.visited("")).state.gangs] == ["late"]
        assert time.monotonic() - began < 3


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
    answer = await client.post("/what-if", data={"manifest": "[" + "{a}," * 200_000}, headers=own)
    assert "more than 500,000 values" in answer.text
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


def test_items_that_are_as_before_are_the_same_objects_and_are_worked_out_once() -> None:
    def content(*names: str) -> bytes:
        return json.dumps({"items": [gang(name) for name in names], "metadata": {"hidden": 1}}).encode()

    first, metadata = decoded(content("a", "b"), None)
    second, _ = decoded(content("b", "c"), first)
    assert metadata == {"hidden": 1}
    assert [one["name"] for one in second] == ["b", "c"]
    assert second[0] is first[1]
    assert [(one.name, one.after) for one in changes_between(first, second, NOW)] == [
        ("c", "waiting"),
        ("a", ""),
    ]
    asked: list[int] = []

    def counted(items: Items) -> int:
        asked.append(len(items))
        return len(items)

    assert [made_once(first, counted), made_once(first, counted), made_once(second, counted)] == [2, 2, 2]
    assert asked == [2, 2]
