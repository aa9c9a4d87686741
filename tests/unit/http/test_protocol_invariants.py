"""Whatever the request, every answer follows the extender protocol."""

from __future__ import annotations

import json

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.scheduler.offer import Offer
from fluence_extender.http.scheduler.pending import PendingBinds
from fluence_extender.http.scheduler.port import Anywhere, Location, Nowhere, On
from fluence_extender.http.scheduler.verbs import Verbs
from tests.unit.http.held_placements import HeldPlacements, by_name

plain: st.SearchStrategy[str] = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
names: st.SearchStrategy[list[str]] = st.lists(st.one_of(plain, st.text(max_size=6)), max_size=20)


# The offered names, the location of the pod, the request.
Question = tuple[list[str], Location, bytes]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    listed = draw(names)
    node = draw(st.sampled_from(listed)) if bool(listed) and draw(st.booleans()) else draw(plain)
    locations: list[Location] = [Anywhere(), On(node), Nowhere("busy: 1 of 2 fit now")]
    location = draw(st.sampled_from(locations))
    escaped = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]))
    body = json.dumps(by_name(listed), ensure_ascii=escaped, separators=separators)
    return listed, location, body.encode(errors="surrogatepass")


@given(questions())
async def test_every_filter_answer_keeps_to_the_protocol(question: Question) -> None:
    listed, location, body = question
    placements = HeldPlacements({"uid-1": location})
    answer = json.loads((await Verbs(placements, PendingBinds()).filter(body)).body)
    assert answer["Nodes"] is None
    passed = answer["NodeNames"]
    refused = answer["FailedAndUnresolvableNodes"]
    assert set(passed) <= set(listed)
    assert answer["Error"] == ""
    assert answer["FailedNodes"] == {}
    assert not set(passed) & set(refused)
    match location:
        case Anywhere():
            assert passed == listed
        case On(node) if node in listed:
            assert passed == [node]
            assert refused == {}
        case _:
            assert passed == []
            assert set(refused) == set(listed)
    missed = isinstance(location, On) and location.node not in listed and len(listed) > 1
    assert bool(placements.refusals) == missed


@given(questions())
async def test_every_offered_name_gets_one_score_in_range(question: Question) -> None:
    listed, location, body = question
    placements = HeldPlacements({"uid-1": location})
    answer = json.loads((await Verbs(placements, PendingBinds()).prioritize(body)).body)
    assert [entry["Host"] for entry in answer] == listed
    planned = location.node if isinstance(location, On) else None
    assert all(entry["Score"] == (10 if entry["Host"] == planned else 0) for entry in answer)


@given(names, plain)
def test_a_search_in_the_bytes_finds_what_the_list_contains(listed: list[str], node: str) -> None:
    for raw in (json.dumps(listed), json.dumps(listed, ensure_ascii=False, separators=(",", ":"))):
        assert Offer(raw.encode()).holds(node) == (node in listed)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
fields = st.sampled_from(
    [
        "Pod", "Nodes", "NodeNames", "PodName", "PodNamespace", "PodUID", "Node",
        "NodeNameToVictims", "NodeNameToMetaVictims", "metadata", "spec", "items", "Pods", "UID",
    ]
)  # fmt: skip
shaped = st.recursive(
    values,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(fields, inner, max_size=6)),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    body = bytearray(json.dumps(by_name(["n1", "n2"])).encode())
    for _ in range(draw(st.integers(1, 4))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body)


@settings(max_examples=300)
@given(
    st.sampled_from(["filter", "prioritize", "bind", "preempt"]), st.one_of(st.binary(), shaped, damaged())
)
async def test_no_bytes_make_a_verb_fail(verb: str, body: bytes) -> None:
    metrics = Metrics()
    transport = httpx.ASGITransport(VerbsApp(HeldPlacements(), metrics))
    async with httpx.AsyncClient(transport=transport, base_url="http://extender") as client:
        answer = await client.post(f"/{verb}", content=body)
    assert answer.status_code in (200, 400)
    assert b'outcome="failed"' not in metrics.render()[0]
