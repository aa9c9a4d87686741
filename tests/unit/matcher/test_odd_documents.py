"""Odd documents and arguments are accepted or refused with a `MatcherError`, and do no harm."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fluence_extender.matcher import (
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    MatcherError,
    MatcherOptions,
)
from fluence_extender.matcher.engine import EmbeddedEngine
from tests.unit.matcher.walker_graphs import cluster, slots, vertex

FLAT = cluster(2, 2)


def counted(**changes: Any) -> dict[str, Any]:
    """A cluster of one node with three cores in one entry, and changes to that entry."""
    document = cluster(1, 1)
    document["graph"]["nodes"][2]["metadata"] |= {"count": 3} | changes
    return document


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (counted(count="3"), "graph.nodes[2].metadata.count must be a whole number"),
        (counted(count=nested(5000)), "graph.nodes[2].metadata.count must be a whole number"),
        (counted(count=10**5000), "at most 1500000 can be matched one by one"),
        (counted(size=None), "graph.nodes[2].metadata.size must be an integer"),
        ('{"graph": "\ud800"}', "graph must be an object"),
    ],
)
def test_odd_compact_graph_is_refused_with_its_place(document: Any, message: str) -> None:
    with pytest.raises(InvalidGraph) as refusal:
        EmbeddedEngine(document)
    assert message in str(refusal.value)


def test_places_are_those_of_the_compact_document() -> None:
    document = counted()
    document["graph"]["nodes"].append(vertex(9, "core", 9, "/cluster0/node0/core9") | {"metadata": 1})
    with pytest.raises(InvalidGraph) as refusal:
        EmbeddedEngine(document)
    assert str(refusal.value).startswith("graph.nodes[3].metadata must be an object")


@pytest.mark.parametrize(
    "document",
    [
        counted(type="CORE"),
        counted(type="node"),
        counted(extra={"\ud800": 1}),
        {
            "graph": {
                "nodes": [
                    vertex(0, "node", 0, "/node0"),
                    vertex(1, "node", 1, "/node0/node1"),
                    *deepcopy(counted()["graph"]["nodes"][2:]),
                ],
                "edges": [{"source": "0", "target": "1"}],
            }
        },
    ],
)
def test_what_can_not_be_counted_is_walked(document: Any) -> None:
    with pytest.raises(MatcherError):
        EmbeddedEngine(document).match("allocate", slots(9))


def test_a_cycle_off_the_root_is_refused() -> None:
    document = cluster(1, 1)
    document["graph"]["nodes"] += [vertex(8, "rack", 8, "/cluster0/a"), vertex(9, "rack", 9, "/cluster0/a/b")]
    document["graph"]["edges"] += [{"source": "8", "target": "9"}, {"source": "9", "target": "8"}]
    with pytest.raises(InvalidGraph, match=r"graph\.edges: the containment edges close a cycle"):
        EmbeddedEngine(document)


@pytest.mark.parametrize(
    "value", [None, 1, [], pytest.param(nested(5000), id="deep"), pytest.param(10**5000, id="huge")]
)
def test_options_that_are_no_text_are_refused(value: Any) -> None:
    for name in ("policy", "prune_filters", "match_format"):
        with pytest.raises(InvalidOptions, match=f"options.{name} must be a string"):
            MatcherOptions(**{name: value})


@pytest.mark.parametrize("graph", [FLAT, counted()], ids=["plain", "compact"])
@pytest.mark.parametrize(
    "value",
    [
        None,
        "1",
        1.0,
        True,
        [],
        {},
        -1,
        pytest.param(nested(5000), id="deep"),
        pytest.param(10**5000, id="huge"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(value: Any, graph: Any) -> None:
    matcher = EmbeddedEngine(graph)
    for call in (matcher.cancel, matcher.info):
        with pytest.raises(InvalidJobspec):
            call(value)
    with pytest.raises(MatcherError, match="no vertex is at"):
        matcher.remove_subgraph(value)
    with pytest.raises(MatcherError):
        matcher.set_status(value, True)
    with pytest.raises(InvalidJobspec, match="unknown match operation"):
        matcher.match(value, slots(1))
    assert matcher.match("allocate", slots(3)).jobid == 1


def test_no_message_is_longer_than_a_person_reads() -> None:
    with pytest.raises(MatcherError) as refusal:
        EmbeddedEngine(FLAT).match("allocate", slots(1) | {"attributes": {"x" * 10**6: 1}})
    assert len(str(refusal.value)) <= 2001
