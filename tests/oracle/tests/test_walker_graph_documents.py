"""A malformed graph is refused with its place, at creation and later, and a refusal changes nothing."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from tests.oracle import Busy, InvalidGraph, InvalidOptions, MatcherError, MatcherOptions
from tests.oracle.tests.walker_graphs import cluster, jobspec, node_entries, slots, vertex
from tests.oracle.walker import Walker


def _document(*entries: dict[str, Any], edges: Any = ()) -> dict[str, Any]:
    root = vertex(0, "cluster", 0, "/cluster0")
    return {"graph": {"nodes": [root, *entries], "edges": list(edges)}}


def _node(**changes: Any) -> dict[str, Any]:
    return _document(vertex(1, "node", 0, "/cluster0/node0", **changes))


def _without(key: str) -> dict[str, Any]:
    document = _node()
    del document["graph"]["nodes"][1]["metadata"][key]
    return document


def _edge(source: Any, target: Any, **more: Any) -> dict[str, Any]:
    return _document(vertex(1, "node", 0, "/cluster0/n"), edges=[{"source": source, "target": target} | more])


def _deep(levels: int) -> dict[str, Any]:
    path = "/cluster0"
    vertices = []
    for key in range(1, levels):
        path += f"/n{key}"
        vertices.append(vertex(key, "node", key, path))
    return _document(*vertices, edges=[{"source": str(k - 1), "target": str(k)} for k in range(1, levels)])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "the graph isn't JSON"),
        (b"\xff", "the graph isn't JSON"),
        ("[" * 100_000, "the graph isn't JSON"),
        ('{"graph": NaN}', "NaN isn't a JSON value"),
        ([], "the document must be an object"),
        ({}, "graph must be an object, not null"),
        ({"graph": {"nodes": []}}, "graph.edges is missing"),
        ({"graph": {"nodes": {}, "edges": []}}, "graph.nodes must be an array"),
        ({"graph": {"nodes": [], "edges": []}}, "no vertex is a containment root"),
        ({"graph": {"nodes": [7], "edges": []}}, "graph.nodes[0] must be an object"),
        ({"graph": {"nodes": [{"id": 1}], "edges": []}}, "graph.nodes[0].id must be a string"),
        (_document({"id": "1"}), "graph.nodes[1].metadata is missing"),
        (_without("type"), "graph.nodes[1].metadata.type is missing"),
        (_without("paths"), "graph.nodes[1].metadata.paths is missing"),
        (_node(paths={"containment": 1}), "nodes[1].metadata.paths.containment must be a string"),
        (_node(properties={"a": None}), "nodes[1].metadata.properties.a must be a string"),
        (_node(properties=None), "metadata.properties must be an object, not null"),
        (_node(name=None), "nodes[1].metadata.name must be a string, not null"),
        (_node(status="up"), "metadata.status must be an integer, not a string"),
        (_node(exclusive=1), "metadata.exclusive must be true or false"),
        (_node(rank=1.0), "metadata.rank must be an integer, not a number"),
        (_node(size=-2), "metadata.size can't be negative"),
        (_node(id=2**63), "metadata.id is out of range"),
        (_node(uniq_id=True), "metadata.uniq_id must be an integer, not a boolean"),
        (
            _document({"id": "x", "metadata": {"type": "node", "paths": {}}}),
            "graph.nodes[1].metadata.uniq_id is missing",
        ),
        (
            _document({"id": "9" * 30, "metadata": {"type": "node", "paths": {}}}),
            "graph.nodes[1].metadata.uniq_id is missing",
        ),
        (_document(vertex(0, "node", 0, "/cluster0/node0")), "graph.nodes[1].id appears twice"),
        (_document(vertex(1, "cluster", 1, "/cluster1")), "is a second root"),
        (_edge("0", None), "graph.edges[0].target must be a string, not null"),
        (_edge("0", "9"), "no vertex of the document has the id '9'"),
        (_edge("0", "1", metadata={"subsystem": 1}), "graph.edges[0].metadata.subsystem must be a string"),
        (
            _document(vertex(1, "node", 0, "/cluster0/n"), edges=[{"source": "0", "target": "1"}] * 2),
            "already has",
        ),
        (_deep(200), "200 levels deep"),
    ],
)
def test_malformed_graph_is_refused_with_its_place(document: Any, message: str) -> None:
    with pytest.raises(InvalidGraph) as refusal:
        Walker(document)
    assert message in str(refusal.value)
    assert refusal.value.errno == errno.EPROTO


def test_cycle_below_the_root_is_refused() -> None:
    document = cluster(1, 1)
    document["graph"]["edges"].append({"source": "2", "target": "1"})
    with pytest.raises(InvalidGraph, match="close a cycle"):
        Walker(document)


@pytest.mark.parametrize("policy", ["", "policy", "best", "node_centric=true", "policy=best"])
def test_unknown_policy_is_refused(policy: str) -> None:
    with pytest.raises(InvalidOptions):
        Walker(cluster(1, 1), MatcherOptions(policy=policy))


@pytest.mark.parametrize("filters", ["core", "ALL:", ":core", "ALL:core,", ","])
def test_malformed_prune_filter_is_refused(filters: str) -> None:
    with pytest.raises(InvalidOptions):
        Walker(cluster(1, 1), MatcherOptions(prune_filters=filters))


@pytest.mark.parametrize("filters", ["", "rack:node,node:core", "ALL:core,ALL:node"])
def test_a_root_without_counters_is_searched_like_any_other(filters: str) -> None:
    text = json.dumps(cluster(2, 2)).replace('"cluster"', '"region"')
    matcher = Walker(text, MatcherOptions(prune_filters=filters))
    matcher.match("allocate", slots(4, duration=10))
    with pytest.raises(Busy):
        matcher.match("allocate_with_satisfiability", slots(4, duration=10))
    assert matcher.match("satisfiability", slots(4)).at == 0
    reservation = matcher.match("allocate_orelse_reserve", slots(4, duration=10))
    assert (reservation.reserved, reservation.at) == (True, 10)


def test_a_graph_of_one_vertex_can_be_asked() -> None:
    matcher = Walker({"graph": {"nodes": [vertex(0, "cluster", 0, "/cluster0")], "edges": []}})
    whole = jobspec([{"type": "cluster", "count": 1, "exclusive": True}])
    assert matcher.match("satisfiability", whole).placement == {}
    assert matcher.match("allocate", whole).placement == {"/cluster0": {}}
    with pytest.raises(Busy):
        matcher.match("allocate", whole)


def test_last_child_of_a_parent_can_be_removed_and_added_again() -> None:
    document = cluster(1, 2)
    matcher = Walker(document)
    matcher.remove_subgraph("/cluster0/node0")
    with pytest.raises(Busy):
        matcher.match("allocate", slots(1))
    matcher.add_subgraph(document)
    assert matcher.match("allocate", slots(2)).placement == {"/cluster0/node0": {"core": 2}, "/cluster0": {}}


@pytest.mark.parametrize("path", ["/cluster0", "/nowhere", ""])
def test_root_and_unknown_paths_can_not_be_removed(path: str) -> None:
    matcher = Walker(cluster(1, 1))
    with pytest.raises(MatcherError):
        matcher.remove_subgraph(path)
    assert matcher.match("allocate", slots(1)).jobid == 1


def test_refused_addition_leaves_no_trace() -> None:
    matcher = Walker(cluster(1, 1))
    nodes, edges = node_entries(10, 1, 4)
    root = vertex(0, "cluster", 0, "/cluster0")
    good = {"graph": {"nodes": [root, *nodes], "edges": [{"source": "0", "target": "10"}, *edges]}}
    bad = json.loads(json.dumps(good))
    bad["graph"]["edges"].append({"source": "10", "target": "99"})
    with pytest.raises(InvalidGraph) as refusal:
        matcher.add_subgraph(bad)
    assert refusal.value.errno == errno.EINVAL
    with pytest.raises(Busy):
        matcher.match("allocate", slots(5))
    matcher.add_subgraph(good)
    matcher.add_subgraph(good)
    assert matcher.match("allocate", slots(5)).placement["/cluster0/node1"] == {"core": 4}


def test_leaf_type_that_comes_late_is_freed_with_the_rest() -> None:
    matcher = Walker(cluster(1, 2))
    job = matcher.match("allocate", slots(2))
    nodes, edges = node_entries(10, 1, 2, 2)
    root = vertex(0, "cluster", 0, "/cluster0")
    matcher.add_subgraph(
        {"graph": {"nodes": [root, *nodes], "edges": [{"source": "0", "target": "10"}, *edges]}}
    )
    matcher.cancel(job.jobid)
    assert matcher.match("allocate", slots(4)).placement == {
        "/cluster0/node0": {"core": 2},
        "/cluster0/node1": {"core": 2},
        "/cluster0": {},
    }


def test_a_closed_matcher_refuses_every_call() -> None:
    matcher = Walker(cluster(1, 1))
    matcher.close()
    with pytest.raises(MatcherError):
        matcher.match("allocate", slots(1))
    with pytest.raises(MatcherError):
        matcher.set_status("/cluster0", True)
