"""A graph is freed once: at close, or when nothing refers to it any more. A closed graph refuses every call."""

from __future__ import annotations

import gc

import pytest

from fluxion_ffi import GraphClosed, Library, MatchOp, ResourceGraph
from tests.ffi.documents import graph, jobspec
from tests.ffi.stub import Stub


def test_close_frees_the_graph_once(stub: Stub, library: Library) -> None:
    before = stub.contexts
    resources = ResourceGraph(library, graph())
    assert stub.contexts == before + 1
    resources.close()
    resources.close()
    assert stub.contexts == before


def test_a_closed_graph_refuses_calls(stub: Stub, library: Library) -> None:
    with ResourceGraph(library, graph()) as resources:
        pass
    calls = stub.calls
    with pytest.raises(GraphClosed):
        resources.match(MatchOp.ALLOCATE, jobspec())
    with pytest.raises(GraphClosed):
        resources.info(1)
    assert stub.calls == calls


def test_a_graph_that_nobody_holds_is_freed_before_the_next_call(stub: Stub, library: Library) -> None:
    before = stub.contexts
    dropped = ResourceGraph(library, graph())
    del dropped
    gc.collect()
    with ResourceGraph(library, graph()):
        assert stub.contexts == before + 1
