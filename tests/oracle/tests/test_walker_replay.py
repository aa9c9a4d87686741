"""Allocating what an R lists: the round trip, and the refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.oracle import Busy, InvalidJobspec, JobExists, MatcherOptions, NothingToAllocate
from tests.oracle.tests.walker_graphs import cluster, slots
from tests.oracle.walker import Walker
from tests.oracle.walker.policy import NAMED

GRAPH = cluster(3, 4, 2, 8)


def _granted(policy: str = "lonode", count: int = 3) -> Any:
    return Walker(GRAPH, MatcherOptions(policy)).match("allocate", slots(count, 2, 8))


def _timed(document: Any, start: Any, end: Any, **scheduling: Any) -> dict[str, Any]:
    execution = {"starttime": start, "expiration": end}
    return {"version": 1, "execution": execution, "scheduling": document | scheduling}


@pytest.mark.parametrize("policy", [*NAMED, "locality", "variation"])
def test_replayed_job_is_placed_as_it_was(policy: str) -> None:
    original = _granted(policy)
    fresh = Walker(GRAPH, MatcherOptions(policy))
    replayed = fresh.update_allocate(9, original.R)
    assert replayed.placement == original.placement
    assert replayed.R == original.R
    assert (replayed.jobid, replayed.reserved, replayed.at) == (9, False, 0)
    assert fresh.info(9).mode == "ALLOCATED"
    fresh.cancel(9)
    assert fresh.match("allocate", slots(6, 2, 8)).jobid == 1


def test_times_come_from_the_envelope() -> None:
    matcher = Walker(cluster(1, 2, 1))
    document = matcher.match("without_allocating", slots(2)).R
    assert matcher.update_allocate(5, _timed(document, 100.5, 200.0)).at == 100
    assert matcher.info(5).at == 100
    assert matcher.match("without_allocating_future", slots(2, duration=50)).at == 199


def test_replayed_vertices_are_taken() -> None:
    fresh = Walker(GRAPH)
    fresh.update_allocate(1, _granted(count=6).R)
    with pytest.raises(Busy):
        fresh.match("allocate", slots(1))
    with pytest.raises(JobExists):
        fresh.update_allocate(1, _granted().R)


def _changed(**changes: Any) -> Any:
    document = copy.deepcopy(_granted().R)
    document["graph"]["nodes"][0]["metadata"].update(changes)
    return document


def _edges(edges: Any) -> Any:
    document = copy.deepcopy(_granted().R)
    document["graph"]["edges"] = edges
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "isn't JSON"),
        ({}, "graph must be an object"),
        (_changed(rank=2), "no vertex of rank 2"),
        (_changed(size=2), "size is 1 in the graph, not 2"),
        (_changed(id=3, name="core0"), "id is 0 in the graph, not 3"),
        (_changed(name="cpu"), "name is 'core0' in the graph, not 'cpu'"),
        (_changed(paths={}), "lead to 0 vertices"),
        (_edges([]), "no edge from the root"),
        (_edges([{"source": "0", "target": "77"}]), "no vertex has the id"),
        (_edges([{"source": "0", "target": "2"}]), "isn't below"),
        ({"version": 1, "execution": {}}, "'scheduling' must be an object"),
        (_timed(_granted().R, -1, 5), "execution.starttime must be a time"),
        (_timed(_granted().R, 0, True), "execution.expiration must be a time"),
        (_timed(_granted().R, 0, 5, writer="other"), "the scheduling writer 'other'"),
        (_granted().R | {"free_ranks": "0"}, "free_ranks isn't supported"),
        (_granted().R | {"writer": "fluxion:jgf_shorthand"}, "the scheduling writer"),
    ],
)
def test_malformed_r_is_refused_and_changes_nothing(document: Any, message: str) -> None:
    matcher = Walker(GRAPH)
    with pytest.raises(InvalidJobspec) as refusal:
        matcher.update_allocate(1, document)
    assert message in str(refusal.value)
    assert matcher.match("allocate", slots(6, 2, 8)).jobid == 1


def test_taken_vertex_is_refused_and_changes_nothing() -> None:
    matcher = Walker(GRAPH, MatcherOptions("lonode"))
    small = matcher.match("allocate", slots(1, 2, 8))
    with pytest.raises(InvalidJobspec, match="isn't free"):
        matcher.update_allocate(7, _granted(count=6).R)
    matcher.cancel(small.jobid)
    matcher.update_allocate(7, _granted(count=6).R)


def test_r_of_shared_vertices_only_is_refused() -> None:
    document = copy.deepcopy(_granted().R)
    for node in document["graph"]["nodes"]:
        node["metadata"].pop("exclusive", None)
    with pytest.raises(NothingToAllocate):
        Walker(GRAPH).update_allocate(1, document)
