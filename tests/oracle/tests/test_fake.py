"""The library's stand-in grants as the oracle does and refuses as the library does."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

import fluxion_ffi as fluxion
from tests.oracle.fake import FakeGraph
from tests.oracle.port import MatcherOptions
from tests.oracle.tests.walker_graphs import cluster, slots
from tests.oracle.walker import Walker

GRAPH = cluster(3, 4)


def allocate(graph: FakeGraph, jobspec: dict[str, Any], jobid: int) -> None:
    graph.match_with_jobid(fluxion.MatchOp.ALLOCATE, jobspec, jobid)


def test_it_grants_as_the_oracle_does() -> None:
    graph = FakeGraph(GRAPH, fluxion.GraphOptions(matcher_policy="hinode"))
    oracle = Walker(GRAPH, MatcherOptions("hinode"))
    for jobid in (7, 8):
        granted = graph.match_with_jobid(fluxion.MatchOp.ALLOCATE, slots(5), jobid)
        assert granted.jobid == jobid
        assert json.loads(granted.R) == oracle.match("allocate", slots(5), jobid).R
    question = graph.match_with_jobid(fluxion.MatchOp.SATISFIABILITY, slots(5), 9)
    assert question.R == ""


def test_what_is_cancelled_is_free_again() -> None:
    graph = FakeGraph(GRAPH)
    allocate(graph, slots(12), 1)
    with pytest.raises(fluxion.ResourcesBusy) as busy:
        allocate(graph, slots(1), 2)
    assert busy.value.errno == errno.EBUSY
    graph.cancel(1)
    allocate(graph, slots(12), 2)


def test_refusals_are_the_librarys() -> None:
    graph = FakeGraph(GRAPH)
    allocate(graph, slots(1), 1)
    with pytest.raises(fluxion.JobExists):
        allocate(graph, slots(1), 1)
    with pytest.raises(fluxion.InvalidRequest):
        allocate(graph, {}, 2)
    with pytest.raises(fluxion.NotFound):
        graph.cancel(2)
    graph.cancel(2, noent_ok=True)
    with pytest.raises(fluxion.InvalidGraph):
        FakeGraph({})
    with pytest.raises(fluxion.InvalidOptions):
        FakeGraph(GRAPH, fluxion.GraphOptions(matcher_policy="best"))


def test_a_closed_graph_refuses_every_call() -> None:
    graph = FakeGraph(GRAPH)
    graph.close()
    with pytest.raises(fluxion.FluxionError):
        allocate(graph, slots(1), 1)
