"""Graphs that are built anew when they change, with what is held on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fluence_extender.matcher import (
    Busy,
    InvalidGraph,
    InvalidOptions,
    JobExists,
    MatcherError,
    MatcherOptions,
    UnknownJob,
)
from fluence_extender.matcher.embedded import EmbeddedMatcher
from fluence_extender.matcher.fluxion import create_fluxion_matcher
from fluence_extender.matcher.rebuilding import Addition, RebuildingMatcher, Removal
from tests.engines import FLUXION
from tests.unit.matcher.embedded_graphs import cluster, jobspec, node_entries, slots, vertex

ENGINES: dict[str, Any] = {"embedded": EmbeddedMatcher}
if FLUXION.library is not None:
    ENGINES["fluxion"] = create_fluxion_matcher

GRAPH = cluster(2, 2, 1)


def _node(number: int) -> dict[str, Any]:
    """A document that adds one more node."""
    nodes, edges = node_entries(100 * number, number, 2, 1)
    root = vertex(0, "cluster", 0, "/cluster0")
    return {"graph": {"nodes": [root, *nodes], "edges": [{"source": "0", "target": nodes[0]["id"]}, *edges]}}


def _whole_nodes(count: int) -> dict[str, Any]:
    return jobspec([{"type": "node", "count": count, "exclusive": True}])


def _by_ranks(ranks: str) -> dict[str, Any]:
    return {"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": {}}]}}


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys())
def matcher(request: pytest.FixtureRequest) -> Iterator[RebuildingMatcher]:
    made = RebuildingMatcher(GRAPH, MatcherOptions("lonode"), request.param)
    yield made
    made.close()


def _run(matcher: RebuildingMatcher, *changes: Addition | Removal) -> None:
    rebuild = matcher.begin(changes)
    rebuild.run()
    matcher.finish(rebuild)


def test_nodes_that_join_can_be_asked_for(matcher: RebuildingMatcher) -> None:
    with pytest.raises(Busy):
        matcher.match("allocate", _whole_nodes(3))
    matcher.add_subgraph(_node(2))
    assert len(matcher.match("allocate", _whole_nodes(3)).placement) == 4


def test_nodes_that_left_are_not_counted(matcher: RebuildingMatcher) -> None:
    matcher.remove_subgraph("/cluster0/node1")
    with pytest.raises(Busy):
        matcher.match("allocate", _whole_nodes(2))
    matcher.add_subgraph(_node(1))
    assert matcher.match("allocate", _whole_nodes(2)).at == 0


def test_jobs_and_their_ids_live_on(matcher: RebuildingMatcher) -> None:
    placed = matcher.match("allocate", slots(3), 4).placement
    counted = matcher.match("allocate", slots(1))
    _run(matcher, Addition(_node(2)), Removal("/cluster0/node1"), Addition(_node(3)))
    assert (placed["/cluster0/node1"], counted.jobid) == ({"core": 1}, 2)
    assert matcher.info(4).mode == "ALLOCATED"
    with pytest.raises(JobExists):
        matcher.match("allocate", slots(1), 4)
    assert matcher.match("allocate", slots(4)).jobid == 3
    matcher.cancel(4)
    assert matcher.info(4).mode == "CANCELED"
    assert matcher.match("allocate", slots(2)).placement["/cluster0/node0"] == {"core": 2}


def test_a_job_of_which_nothing_is_left_can_still_be_cancelled(matcher: RebuildingMatcher) -> None:
    matcher.match("allocate", slots(2), 1)
    matcher.remove_subgraph("/cluster0/node0")
    assert matcher.info(1).mode == "ALLOCATED"
    matcher.cancel(1)
    with pytest.raises(UnknownJob):
        matcher.cancel(1)
    assert matcher.info(1).mode == "CANCELED"


def test_times_stay(matcher: RebuildingMatcher) -> None:
    matcher.match("allocate", slots(4, duration=50), 1)
    matcher.add_subgraph(_node(2))
    assert matcher.match("without_allocating_future", slots(6)).at == 50


def test_a_reservation_stays_one_to_the_caller(matcher: RebuildingMatcher) -> None:
    matcher.match("allocate", slots(4, duration=50), 1)
    matcher.match("allocate_orelse_reserve", slots(4, duration=10), 2)
    matcher.add_subgraph(_node(2))
    assert (matcher.info(2).mode, matcher.info(2).at) == ("RESERVED", 50)
    with pytest.raises(UnknownJob):
        matcher.partial_cancel(2, _by_ranks("0"))
    assert matcher.match("without_allocating_future", slots(6)).at == 60


def test_what_a_partial_cancel_freed_stays_free(matcher: RebuildingMatcher) -> None:
    matcher.match("allocate", slots(4), 1)
    assert matcher.partial_cancel(1, _by_ranks("0")) is False
    matcher.add_subgraph(_node(2))
    assert matcher.match("allocate", slots(4), 2).placement["/cluster0/node0"] == {"core": 2}
    assert matcher.partial_cancel(1, _by_ranks("1")) is True
    assert matcher.info(1).mode == "CANCELED"


def test_a_node_named_by_ranks_and_ids_is_still_shared(matcher: RebuildingMatcher) -> None:
    part = {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["node0"]}
    matcher.update_allocate(1, {"version": 1, "execution": part})
    matcher.match("allocate", slots(1), 2)
    matcher.add_subgraph(_node(2))
    assert matcher.match("allocate", slots(4)).placement["/cluster0/node1"] == {"core": 2}


def test_what_is_down_stays_down(matcher: RebuildingMatcher) -> None:
    matcher.set_status("/cluster0/node0", False)
    matcher.set_rank_status([1], False)
    matcher.add_subgraph(_node(2))
    assert (matcher.get_status("/cluster0/node0"), matcher.get_rank_status(1)) == (False, False)
    with pytest.raises(Busy):
        matcher.match("allocate", slots(3))
    matcher.set_status("/cluster0/node0", True)
    assert matcher.match("allocate", _whole_nodes(2)).at == 0


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_a_graph_that_comes_with_a_node_down_counts_the_others(engine: Any) -> None:
    graph = cluster(3, 2, 1)
    graph["graph"]["nodes"][1]["metadata"]["status"] = 1
    matcher = RebuildingMatcher(graph, MatcherOptions("lonode"), engine)
    assert matcher.match("without_allocating", _whole_nodes(2)).at == 0
    joining = _node(3)
    joining["graph"]["nodes"][1]["metadata"]["status"] = 1
    matcher.add_subgraph(joining)
    assert (matcher.get_status("/cluster0/node0"), matcher.get_status("/cluster0/node3")) == (False, False)
    with pytest.raises(Busy):
        matcher.match("allocate", _whole_nodes(3))
    matcher.close()


def test_the_old_graph_answers_while_the_new_one_is_built(matcher: RebuildingMatcher) -> None:
    matcher.match("allocate", slots(1), 1)
    matcher.match("allocate", slots(1), 2)
    rebuild = matcher.begin([Addition(_node(2)), Removal("/cluster0/node0")])
    builder = threading.Thread(target=rebuild.run)
    builder.start()
    matcher.cancel(2)
    matcher.match("allocate", slots(1, duration=9), 2)
    matcher.match("allocate", slots(1), 3)
    matcher.set_status("/cluster0/node1", False)
    builder.join()
    assert matcher.find("names=node2") is None
    matcher.finish(rebuild)
    assert matcher.find("names=node2") is not None
    assert matcher.get_status("/cluster0/node1") is False
    for jobid in (1, 2, 3):
        assert matcher.info(jobid).mode == "ALLOCATED"
        matcher.cancel(jobid)
    assert matcher.find("sched-now=allocated") is None
    assert matcher.match("allocate", slots(2)).placement["/cluster0/node2"] == {"core": 2}


def test_only_one_of_two_rebuilds_can_be_finished(matcher: RebuildingMatcher) -> None:
    first, second = matcher.begin([Addition(_node(2))]), matcher.begin([Addition(_node(3))])
    first.run()
    second.run()
    matcher.finish(first)
    with pytest.raises(MatcherError, match="begin anew"):
        matcher.finish(second)
    assert matcher.find("names=node2") is not None
    assert matcher.find("names=node3") is None


def _unconnected() -> dict[str, Any]:
    document = _node(5)
    del document["graph"]["edges"][0]
    return document


def _of_another_rank() -> dict[str, Any]:
    document = _node(1)
    document["graph"]["nodes"][1]["metadata"]["rank"] = 9
    return document


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Addition("{"), "isn't JSON"),
        (Addition({"graph": {"nodes": []}}), "edges"),
        (Addition(_unconnected()), "none leads to"),
        (Addition(_of_another_rank()), "has rank 1 in the graph, not 9"),
        (Addition({"graph": {"nodes": [], "edges": [{"source": "a", "target": "b"}]}}), "no vertex"),
        (Removal("/cluster0/node7"), "no vertex"),
        (Removal("/cluster0"), "the root"),
    ],
)
def test_a_change_that_cannot_be_leaves_the_graph_as_it_is(
    matcher: RebuildingMatcher, change: Addition | Removal, told: str
) -> None:
    matcher.match("allocate", slots(1), 1)
    before = matcher.find("status=up")
    with pytest.raises(MatcherError, match=told):
        _run(matcher, Addition(_node(2)), change)
    assert matcher.find("status=up") == before
    assert matcher.info(1).mode == "ALLOCATED"


def test_only_jgf_can_be_kept() -> None:
    with pytest.raises(InvalidOptions, match="jgf"):
        RebuildingMatcher(GRAPH, MatcherOptions(match_format="rv1"), EmbeddedMatcher)
    with pytest.raises(InvalidGraph):
        RebuildingMatcher({"graph": {"nodes": [], "edges": []}}, MatcherOptions(), EmbeddedMatcher)
