"""A malformed request is refused with a text that names the fault."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.scheduler.endpoint import VerbEndpoint
from fluence_extender.http.scheduler.verbs import VerbAnswer, VerbOutcome
from tests.unit.http.held_placements import HeldPlacements, Post, binding, by_name, pod

VERBS = ["filter", "prioritize", "bind", "preempt"]
VALID = {
    "filter": by_name(["n1", "n2"]),
    "prioritize": by_name(["n1", "n2"]),
    "bind": binding(),
    "preempt": {"Pod": pod(), "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "a"}]}}},
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"1e999",
        b"[" * 100_000,
        b'{"Pod":' * 100_000,
        b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"Pod":null,"PodName":null}',
        b'{"Pod":{},"PodName":{}}',
        b'{"Pod":{"metadata":{"name":1,"namespace":"d","uid":"u"}},"PodName":1}',
        b'{"Pod":{"metadata":{"name":"\xff","namespace":"d","uid":"u"}},"PodName":"\xff"}',
    ],
)
async def test_a_malformed_request_is_refused_with_a_text(
    post: Post, placements: HeldPlacements, verb: str, body: bytes
) -> None:
    answer = await post(verb, body)
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text
    assert placements.bound == {}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_truncated_request_is_refused(post: Post, verb: str) -> None:
    whole = json.dumps(VALID[verb]).encode()
    for length in range(len(whole)):
        assert (await post(verb, whole[:length])).status_code == 400
    assert (await post(verb, whole)).status_code == 200


@pytest.mark.parametrize(
    ("lists", "problem"),
    [
        ({}, "offers no nodes"),
        ({"NodeNames": None, "Nodes": None}, "offers no nodes"),
        ({"NodeNames": "n1"}, "Expected `array`"),
        ({"NodeNames": {"n2": 1}}, "Expected `array`"),
        ({"NodeNames": [1, 2]}, "Expected `str`"),
        ({"NodeNames": [["n2"]]}, "Expected `str`"),
    ],
)
async def test_a_list_of_the_wrong_form_is_named(post: Post, lists: dict[str, Any], problem: str) -> None:
    for verb in ("filter", "prioritize"):
        answer = await post(verb, {"Pod": pod(), **lists})
        assert answer.status_code == 400
        assert problem in answer.text


@pytest.mark.parametrize(
    ("verb", "sent"),
    [
        ("filter", {"Nodes": {"metadata": {}, "items": [{"metadata": {"name": "n1"}}]}, "NodeNames": None}),
        ("prioritize", {"Nodes": {"metadata": {}, "items": []}}),
        ("preempt", {"NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"uid": "a"}}]}}}),
    ],
)
async def test_whole_nodes_and_victims_are_refused_with_the_line_to_set(
    post: Post, verb: str, sent: dict[str, Any]
) -> None:
    answer = await post(verb, {"Pod": pod(), **sent})
    assert answer.status_code == 400
    assert "set `nodeCacheCapable: true` for this extender in kube-scheduler's configuration" in answer.text


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "PodUID", "Node"])
async def test_bind_needs_every_field(post: Post, placements: HeldPlacements, field: str) -> None:
    for value in ("", None):
        answer = await post("bind", {**binding(), field: value})
        assert answer.status_code == 400
        assert field in answer.text
    assert placements.bound == {}


async def test_missing_parts_are_named(post: Post) -> None:
    assert "`Pod`" in (await post("filter", {"NodeNames": ["n1"]})).text
    nameless = pod()
    del nameless["metadata"]["uid"]
    assert "`uid` - at `$.Pod.metadata`" in (await post("filter", by_name(["n1"], nameless))).text


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_verbs_are_posted(verbs: httpx.AsyncClient, verb: str, method: str) -> None:
    answer = await verbs.request(method, f"/{verb}")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "header",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_other_kinds_of_body_are_refused(
    verbs: httpx.AsyncClient, verb: str, header: dict[str, str]
) -> None:
    answer = await verbs.post(f"/{verb}", json=VALID[verb], headers=header)
    assert answer.status_code == 415
    assert verb in answer.text


async def test_a_charset_or_no_content_type_at_all_is_accepted(verbs: httpx.AsyncClient) -> None:
    body = json.dumps(VALID["filter"]).encode()
    spelled = {"content-type": "Application/JSON; charset=utf-8"}
    assert (await verbs.post("/filter", content=body, headers=spelled)).status_code == 200
    assert (await verbs.post("/filter", content=body)).status_code == 200


async def test_another_path_is_not_found(verbs: httpx.AsyncClient) -> None:
    assert (await verbs.post("/nothing")).status_code == 404


@pytest.mark.parametrize("verb", VERBS)
async def test_a_huge_body_is_refused_with_or_without_a_content_length(verb: str, metrics: Metrics) -> None:
    async def dribble() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    transport = httpx.ASGITransport(VerbsApp(HeldPlacements(), metrics, max_body=1000))
    async with httpx.AsyncClient(transport=transport, base_url="http://extender") as client:
        for body in (b" " * 1001, dribble()):
            answer = await client.post(f"/{verb}", content=body)
            assert answer.status_code == 413
            assert "over 1000 bytes" in answer.text


async def _never(body: bytes) -> VerbAnswer:
    raise AssertionError("a request that isn't whole must not be answered")


def _asked(receive: Receive) -> tuple[list[Message], Callable[[VerbEndpoint], Awaitable[None]]]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    def call(endpoint: VerbEndpoint) -> Awaitable[None]:
        return endpoint({"type": "http", "method": "POST", "headers": []}, receive, send)

    return sent, call


async def test_a_client_that_disconnects_before_its_request_is_complete_gets_nothing(
    metrics: Metrics,
) -> None:
    messages: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> Message:
        return next(messages)

    sent, call = _asked(receive)
    await call(VerbEndpoint("filter", _never, str.encode, metrics))
    assert sent == []


async def test_a_body_that_stalls_is_refused(metrics: Metrics) -> None:
    import asyncio

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the rest of the body never arrives")

    sent, call = _asked(receive)
    await call(VerbEndpoint("bind", _never, str.encode, metrics, body_timeout=0.01))
    assert sent[0]["status"] == 408


async def test_refusals_are_counted(post: Post, metrics: Metrics) -> None:
    await post("filter", b"garbage")
    assert f'outcome="{VerbOutcome.BAD_REQUEST}",verb="filter"}} 1.0'.encode() in Metrics.render(metrics)[0]
