"""Changes of a loaded graph or its jobs that would hang or crash the library are refused without calling it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from fluxion_ffi import (
    FluxionError,
    GraphOptions,
    InvalidGraph,
    InvalidRequest,
    JobExists,
    Library,
    MatchOp,
    ResourceGraph,
)
from tests.ffi.documents import RELEASE, Json, edge, graph, jobspec, vertex
from tests.ffi.stub import Stub


def refused(stub: Stub, call: Callable[[], object], kind: type[FluxionError] = InvalidRequest) -> str:
    calls = stub.calls
    with pytest.raises(kind) as raised:
        call()
    assert stub.calls == calls
    return str(raised.value)


def addition(number: int, rank: int | None = None, **metadata: Any) -> Json:
    """Return the root, and below it node<number> with one core."""
    rank = number if rank is None else rank
    path, uniq_id = f"/cluster0/node{number}", 100 * (number + 1)
    return {
        "graph": {
            "nodes": [
                vertex(0, "cluster", "/cluster0"),
                vertex(uniq_id, "node", path, rank, **metadata),
                vertex(uniq_id + 1, "core", f"{path}/core0", rank),
            ],
            "edges": [edge(0, uniq_id), edge(uniq_id, uniq_id + 1)],
        }
    }


def test_the_last_child_cannot_be_removed(stub: Stub, resources: ResourceGraph) -> None:
    resources.remove_subgraph("/cluster0/node0")
    message = refused(stub, lambda: resources.remove_subgraph("/cluster0/node1"))
    assert "/cluster0/node1 is the last child of /cluster0" in message


def test_the_last_core_of_a_node_cannot_be_removed(stub: Stub, resources: ResourceGraph) -> None:
    resources.remove_subgraph("/cluster0/node1/core1")
    refused(stub, lambda: resources.remove_subgraph("/cluster0/node1/core0"))


def test_a_removed_child_can_be_removed_again_once_it_was_added_again(
    stub: Stub, resources: ResourceGraph
) -> None:
    resources.remove_subgraph("/cluster0/node0")
    resources.add_subgraph(addition(0))
    resources.remove_subgraph("/cluster0/node1")
    refused(stub, lambda: resources.remove_subgraph("/cluster0/node0"))


def test_a_removal_that_failed_removed_nothing(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(0, "remove_subgraph: ERROR")
    with pytest.raises(FluxionError):
        resources.remove_subgraph("/cluster0/node0")
    resources.remove_subgraph("/cluster0/node1")
    refused(stub, lambda: resources.remove_subgraph("/cluster0/node0"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/cluster0", "is the root"),
        ("/cluster0/node7", "no vertex at /cluster0/node7"),
        ("", "no vertex at"),
        ("/cluster0\0", "holds a NUL"),
        (3, "must be a string"),
    ],
)
def test_what_cannot_be_removed(stub: Stub, resources: ResourceGraph, path: Any, message: str) -> None:
    assert message in refused(stub, lambda: resources.remove_subgraph(path))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (addition(1, rank=5), "/cluster0/node1 has rank 1 in the graph, not 5"),
        (addition(7, uniq_id=1), "graph.edges[0]: /cluster0 has another child with uniq_id 1"),
        (addition(7, properties={"a": 1}), "graph.nodes[1].metadata.properties.a: must be a string"),
        (graph(root="other"), "/other0 would be a second root beside /cluster0"),
    ],
)
def test_an_addition_that_would_fail_half_way_is_refused(
    stub: Stub, resources: ResourceGraph, document: Json, message: str
) -> None:
    calls = stub.calls
    with pytest.raises(InvalidGraph) as raised:
        resources.add_subgraph(document)
    assert message in str(raised.value)
    assert raised.value.errno == errno.EINVAL
    assert stub.calls == calls


def test_adding_what_is_there_changes_nothing(stub: Stub, resources: ResourceGraph) -> None:
    resources.add_subgraph(graph())
    resources.remove_subgraph("/cluster0/node0")
    refused(stub, lambda: resources.remove_subgraph("/cluster0/node1"))


def test_an_addition_that_failed_added_nothing(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.EINVAL)
    with pytest.raises(FluxionError):
        resources.add_subgraph(addition(7))
    refused(stub, lambda: resources.set_rank_status([7], up=True))


def test_a_graph_grows_only_into_the_room_it_was_given(stub: Stub, library: Library) -> None:
    with ResourceGraph(library, graph(), GraphOptions(reserve_vtx_vec=10)) as resources:
        resources.add_subgraph(addition(7))
        resources.remove_subgraph("/cluster0/node7")
        message = refused(stub, lambda: resources.add_subgraph(addition(8)), InvalidGraph)
    assert "11 vertices would exceed the 10 that are reserved" in message


def test_a_graph_reserves_memory_for_its_growth(stub: Stub, library: Library) -> None:
    with ResourceGraph(library, graph()):
        assert '"reserve_vtx_vec": 65564' in stub.last_call[2]


@pytest.mark.parametrize("ranks", [[9], [0, 9], [-1], []])
def test_a_rank_without_vertices_cannot_be_marked(
    stub: Stub, resources: ResourceGraph, ranks: list[int]
) -> None:
    refused(stub, lambda: resources.set_rank_status(ranks, up=False))


def test_a_rank_whose_vertices_were_removed_cannot_be_marked(stub: Stub, resources: ResourceGraph) -> None:
    resources.remove_subgraph("/cluster0/node1")
    assert "no vertex of rank 1" in refused(stub, lambda: resources.set_rank_status([0, 1], up=False))
    refused(stub, lambda: resources.get_rank_status(1))
    refused(stub, lambda: resources.partial_cancel(1, RELEASE))
    resources.set_rank_status([0], up=False)


@pytest.mark.parametrize("jobid", [-1, 2**63, 2**64 - 1, 1.0, "1", None, True])
def test_a_jobid_that_could_not_be_cancelled_is_refused(
    stub: Stub, resources: ResourceGraph, jobid: Any
) -> None:
    for call in (
        lambda: resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), jobid),
        lambda: resources.update_allocate(jobid, graph()),
        lambda: resources.cancel(jobid),
        lambda: resources.partial_cancel(jobid, RELEASE),
        lambda: resources.info(jobid),
    ):
        assert refused(stub, call).startswith("jobid: must be an integer")


def test_a_jobid_that_is_held_is_refused_until_it_is_cancelled(stub: Stub, resources: ResourceGraph) -> None:
    resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)
    refused(stub, lambda: resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5), JobExists)
    refused(stub, lambda: resources.update_allocate(5, graph()), JobExists)
    resources.cancel(5)
    resources.update_allocate(5, graph())
    refused(stub, lambda: resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5), JobExists)


@pytest.mark.parametrize(("full", "held"), [(True, False), (False, True)])
def test_a_partial_cancel_gives_the_jobid_back_with_the_last_of_it(
    stub: Stub, resources: ResourceGraph, full: bool, held: bool
) -> None:
    resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)
    stub.give(flag=full)
    resources.partial_cancel(5, RELEASE)
    if held:
        refused(stub, lambda: resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5), JobExists)
    else:
        resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)


@pytest.mark.parametrize("op", [MatchOp.SATISFIABILITY, MatchOp.WITHOUT_ALLOCATING])
def test_a_match_that_holds_nothing_takes_no_jobid(resources: ResourceGraph, op: MatchOp) -> None:
    resources.match_with_jobid(op, jobspec(), 5)
    resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)


def test_a_match_that_failed_takes_no_jobid(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.EBUSY)
    with pytest.raises(FluxionError):
        resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)
    resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)


def test_text_arguments_must_be_c_strings(stub: Stub, resources: ResourceGraph) -> None:
    assert "criteria: holds a NUL" in refused(stub, lambda: resources.find("status=up\0"))
    assert "path: holds a NUL" in refused(stub, lambda: resources.set_status("/a\0", up=True))
    assert "path: must be a string" in refused(stub, lambda: resources.get_status(b"/a"))  # type: ignore[arg-type]
    assert "path: holds a lone surrogate" in refused(stub, lambda: resources.get_status("\udcff"))
