"""Resource sets for the library are checked as graphs are, and for a release that would stop half-way."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fluxion_ffi import InvalidRequest, ResourceGraph
from tests.ffi.documents import RELEASE, Json, edge, graph
from tests.ffi.stub import Stub


def rv1(**execution: Any) -> Json:
    parts = {"R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}], "nodelist": ["node[0-1]"]}
    return {"version": 1, "execution": parts | {"starttime": 0, "expiration": 60} | execution}


def scheduled(graph_document: Json, **scheduling: Any) -> Json:
    return rv1() | {"scheduling": graph_document | scheduling}


def broken_graph() -> Json:
    document = graph()
    document["graph"]["nodes"][2]["metadata"]["properties"] = {"a": None}
    return document


BAD_ANYWHERE: list[tuple[Any, str]] = [
    ("no json", "R: isn't JSON"),
    ([], "R: must be a JSON object"),
    (rv1() | {"version": 2}, "R.version: must be 1"),
    (rv1() | {"version": True}, "R.version: must be 1"),
    (rv1() | {"execution": None}, "R.execution: must be an object"),
]

BAD_REPLAYS: list[tuple[Any, str]] = [
    (rv1() | {"scheduling": 5}, "R.scheduling: must be an object"),
    (scheduled(graph(), writer="other"), "R.scheduling.writer: 'other' isn't one of"),
    (scheduled(graph(), writer=[]), "R.scheduling.writer: [] isn't one of"),
    (scheduled({"graph": []}), "R.scheduling.graph: must be an object"),
    (scheduled({"graph": {"nodes": []}}), "R.scheduling.graph.edges: must be a list"),
    (scheduled(broken_graph()), "R.scheduling.graph.nodes[2].metadata.properties.a: must be a string"),
    (rv1(), "R.scheduling: must be an object that lists the vertices"),
    (scheduled(graph(), writer="fluxion:jgf_shorthand"), "isn't one of"),
    ({}, "R.graph: must be an object"),
    (broken_graph(), "R.graph.nodes[2].metadata.properties.a: must be a string"),
    (scheduled(graph()) | rv1(starttime=-1), "R.execution.starttime: must be a number of seconds"),
    (scheduled(graph()) | rv1(expiration="soon"), "R.execution.expiration: must be a number of seconds"),
    (scheduled(graph()) | rv1(expiration=2**63), "R.execution.expiration: must be a number of seconds"),
]

BAD_RELEASES: list[tuple[Any, str]] = [
    ({}, "R.version: must be 1"),
    (graph(), "R.version: must be 1"),
    (scheduled(graph()), "R.scheduling: only whole ranks can be freed"),
    (rv1(R_lite=[]), "R.execution.R_lite: must be a list that isn't empty"),
    (rv1(R_lite=[5]), "R.execution.R_lite[0]: must be an object"),
    (rv1(R_lite=[{"rank": 1}]), "R.execution.R_lite[0].rank: must be an idset in a string"),
    (rv1(R_lite=[{"rank": "1-0"}]), "isn't an idset"),
    (rv1(R_lite=[{"rank": "0-4294967295"}]), "isn't an idset"),
    (rv1(R_lite=[{"rank": "0,0"}]), "0 is listed twice"),
    (rv1(R_lite=[{"rank": "0"}, {"rank": "0-1"}]), "R.execution.R_lite[1].rank: 0 is listed twice"),
    (rv1(R_lite=[{"rank": "7"}]), "R.execution.R_lite[0].rank: no vertex of rank 7"),
    (rv1(R_lite=[{"rank": "0", "children": {"core": 1}}]), "R.execution.R_lite[0].children.core: must be"),
]


@pytest.mark.parametrize(
    ("document", "message"), BAD_ANYWHERE + BAD_REPLAYS, ids=lambda value: str(value)[:50]
)
def test_an_allocation_is_replayed_from_a_sound_set_only(
    stub: Stub,
    resources: ResourceGraph,
    document: Any,
    message: str,
) -> None:
    calls = stub.calls
    with pytest.raises(InvalidRequest) as raised:
        resources.update_allocate(5, document)
    assert message in str(raised.value)
    assert stub.calls == calls


@pytest.mark.parametrize(
    ("document", "message"), BAD_ANYWHERE + BAD_RELEASES, ids=lambda value: str(value)[:50]
)
def test_a_part_is_freed_by_a_sound_set_only(
    stub: Stub,
    resources: ResourceGraph,
    document: Any,
    message: str,
) -> None:
    calls = stub.calls
    with pytest.raises(InvalidRequest) as raised:
        resources.partial_cancel(5, document)
    assert message in str(raised.value)
    assert stub.calls == calls


@pytest.mark.parametrize(
    "document",
    [graph(), scheduled(graph()), scheduled(graph(), writer="fluxion:jgf")],
)
def test_every_form_that_replays_is_passed_on(stub: Stub, resources: ResourceGraph, document: Json) -> None:
    resources.update_allocate(5, document)
    assert stub.last_call[0] == "update_allocate 1"


@pytest.mark.parametrize("document", [RELEASE, rv1(R_lite=[{"rank": "[0-1]"}])])
def test_every_form_that_frees_is_passed_on(stub: Stub, resources: ResourceGraph, document: Json) -> None:
    resources.partial_cancel(5, document)
    assert stub.last_call[0] == "partial_cancel 1"


def _edges(*edges: Any) -> Json:
    document = graph()
    document["graph"]["edges"] = list(edges)
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (_edges(), "R.graph.edges: none begins at the root /cluster0"),
        (_edges(edge(1, 2)), "R.graph.edges: none begins at the root"),
        (_edges(edge(0, 1), edge(0, 99)), "R.graph.edges[1].target: '99' isn't the id of a vertex of R"),
        (
            _edges(edge(0, 2)),
            "R.graph.edges[0]: /cluster0/node0/core0 isn't a child of /cluster0 in the graph",
        ),
        (_edges("0-1"), "R.graph.edges[0]: must be an object"),
        (_edges({"target": "1"}), "R.graph.edges[0].source: None isn't"),
    ],
)
def test_edges_that_would_stop_a_replay_half_way_are_refused(
    resources: ResourceGraph, document: Json, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        resources.update_allocate(5, document)
