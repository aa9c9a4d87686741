"""The library's stand-in grants as the oracle does and refuses as the library does."""

from __future__ import annotations

import errno

import pytest

import fluxion_ffi as fluxion
from tests.oracle.fake import FakeGraph
from tests.oracle.port import MatcherOptions
from tests.oracle.tests.walker_graphs import cluster, slots
from tests.oracle.walker import Walker

GRAPH = cluster(3, 4)


def test_it_grants_as_the_oracle_does() -> None:
    graph, oracle = FakeGraph(GRAPH, "hinode"), Walker(GRAPH, MatcherOptions("hinode"))
    for jobid in (7, 8):
        assert graph.match(slots(5), jobid) == oracle.match("allocate", slots(5), jobid).R


def test_what_is_cancelled_is_free_again() -> None:
    graph = FakeGraph(GRAPH)
    graph.match(slots(12), 1)
    with pytest.raises(fluxion.ResourcesBusy) as busy:
        graph.match(slots(1), 2)
    assert busy.value.errno == errno.EBUSY
    graph.cancel(1)
    graph.match(slots(12), 2)


def test_refusals_are_the_librarys() -> None:
    graph = FakeGraph(GRAPH)
    graph.match(slots(1), 1)
    with pytest.raises(fluxion.JobExists):
        graph.match(slots(1), 1)
    with pytest.raises(fluxion.InvalidRequest):
        graph.match({}, 2)
    with pytest.raises(fluxion.NotFound):
        graph.cancel(2)
    with pytest.raises(fluxion.InvalidGraph):
        FakeGraph({})
    with pytest.raises(fluxion.InvalidOptions):
        FakeGraph(GRAPH, "best")


def test_a_closed_graph_refuses_every_call() -> None:
    graph = FakeGraph(GRAPH)
    graph.close()
    with pytest.raises(fluxion.FluxionError):
        graph.match(slots(1), 1)
