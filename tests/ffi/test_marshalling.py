"""Every argument arrives in C as it was given, and every output comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxion_ffi import NO_JOB, GraphOptions, JobInfo, Library, MatchOp, MatchResult, ResourceGraph
from tests.ffi.documents import RELEASE, Json, edge, graph, jobspec, vertex
from tests.ffi.stub import Stub


def read(text: str) -> Any:
    return json.loads(text)


def test_initialize_sends_the_graph_and_every_option(stub: Stub, library: Library) -> None:
    options = GraphOptions("lonode", "ALL:core", 100)
    with ResourceGraph(library, graph(), options):
        call, sent, chosen = stub.last_call
    assert call == "initialize 1"
    assert read(sent) == graph()
    assert read(chosen) == {
        "load_format": "jgf",
        "matcher_name": "CA",
        "matcher_policy": "lonode",
        "prune_filters": "ALL:core",
        "match_format": "jgf",
        "traverser_policy": "simple",
        "reserve_vtx_vec": 100,
    }


@pytest.mark.parametrize(
    "document", [json.dumps(graph()), json.dumps(graph()).encode()], ids=["str", "bytes"]
)
def test_documents_may_be_text(stub: Stub, library: Library, document: str | bytes) -> None:
    with ResourceGraph(library, document):
        assert read(stub.last_call[1]) == graph()


@pytest.mark.parametrize("op", MatchOp)
def test_match_sends_op_and_jobspec_and_returns_every_output(
    stub: Stub, resources: ResourceGraph, op: MatchOp
) -> None:
    stub.give(jobid=NO_JOB, flag=True, at=2**62, overhead=0.25, string='{"é": "😀"}')
    result = resources.match(op, jobspec(environment={"A": "é😀"}))
    assert result == MatchResult(NO_JOB, True, 2**62, 0.25, '{"é": "😀"}')
    assert stub.last_call[:2] == ["match 1", str(int(op))]
    assert read(stub.last_call[2]) == jobspec(environment={"A": "é😀"})


def test_characters_beyond_the_first_plane_are_not_escaped(stub: Stub, resources: ResourceGraph) -> None:
    resources.match(MatchOp.ALLOCATE, jobspec(environment={"A": "😀"}))
    assert "😀" in stub.last_call[2]


def test_match_with_jobid_sends_the_whole_id(stub: Stub, resources: ResourceGraph) -> None:
    stub.give(flag=False, at=0, overhead=1.5, string="R")
    result = resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 2**63 - 1)
    assert result == MatchResult(2**63 - 1, False, 0, 1.5, "R")
    assert stub.last_call[1] == "1"
    assert stub.last_call[3] == str(2**63 - 1)


def test_match_without_allocating_has_no_job(stub: Stub, resources: ResourceGraph) -> None:
    assert resources.match_with_jobid(MatchOp.WITHOUT_ALLOCATING, jobspec(), 5).jobid == NO_JOB
    assert stub.last_call[3] == str(NO_JOB)


def test_match_satisfy_says_yes(stub: Stub, resources: ResourceGraph) -> None:
    assert resources.match_satisfy(jobspec()) is True
    assert stub.last_call[0] == "match_satisfy 1"


def test_update_allocate(stub: Stub, resources: ResourceGraph) -> None:
    stub.give(at=9, overhead=0.125, string="again")
    assert resources.update_allocate(12, graph()) == MatchResult(12, False, 9, 0.125, "again")
    assert stub.last_call[:2] == ["update_allocate 1", "12"]
    assert read(stub.last_call[2]) == graph()


@pytest.mark.parametrize(("noent_ok", "sent"), [(True, "1"), (False, "0")])
def test_cancel(stub: Stub, resources: ResourceGraph, noent_ok: bool, sent: str) -> None:
    resources.cancel(77, noent_ok)
    assert stub.last_call == ["cancel 1", "77", sent]


@pytest.mark.parametrize("full", [True, False])
def test_partial_cancel(stub: Stub, resources: ResourceGraph, full: bool) -> None:
    stub.give(flag=full)
    assert resources.partial_cancel(77, RELEASE, noent_ok=True) is full
    assert stub.last_call[:2] == ["partial_cancel 1", "77"]
    assert read(stub.last_call[2]) == RELEASE
    assert stub.last_call[3] == "1"


def test_info(stub: Stub, resources: ResourceGraph) -> None:
    stub.give(flag=True, at=-1, overhead=2.5, string="RESERVED")
    assert resources.info(8) == JobInfo("RESERVED", True, -1, 2.5)
    assert stub.last_call == ["info 1", "8"]


def test_find_asks_for_jgf(stub: Stub, resources: ResourceGraph) -> None:
    stub.give(string='{"graph": {}}')
    assert resources.find("status=up") == '{"graph": {}}'
    assert stub.last_call == ["find 1", "status=up", "jgf"]


def test_find_without_a_result_is_none(stub: Stub, resources: ResourceGraph) -> None:
    stub.give(string=None)
    assert resources.find("status=down") is None


def test_add_subgraph(stub: Stub, resources: ResourceGraph) -> None:
    addition: Json = {"graph": {"nodes": [vertex(0, "cluster", "/cluster0")], "edges": []}}
    addition["graph"]["nodes"] += [
        vertex(90, "node", "/cluster0/node9", 9),
        vertex(91, "core", "/cluster0/node9/core0", 9),
    ]
    addition["graph"]["edges"] += [edge(0, 90), edge(90, 91)]
    resources.add_subgraph(addition)
    assert stub.last_call[0] == "add_subgraph 1"
    assert read(stub.last_call[1]) == addition


def test_remove_subgraph(stub: Stub, resources: ResourceGraph) -> None:
    resources.remove_subgraph("/cluster0/node1")
    assert stub.last_call == ["remove_subgraph 1", "/cluster0/node1"]


@pytest.mark.parametrize(("up", "sent"), [(True, "0"), (False, "1")])
def test_status(stub: Stub, resources: ResourceGraph, up: bool, sent: str) -> None:
    resources.set_status("/cluster0/node0", up)
    assert stub.last_call == ["set_status 1", "/cluster0/node0", sent]
    stub.give(status=int(sent))
    assert resources.get_status("/cluster0/node0") is up
    assert stub.last_call == ["get_status 1", "/cluster0/node0"]


@pytest.mark.parametrize(("up", "sent"), [(True, "0"), (False, "1")])
def test_rank_status(stub: Stub, resources: ResourceGraph, up: bool, sent: str) -> None:
    resources.set_rank_status([1, 0], up)
    assert stub.last_call == ["set_rank_status 1", "0-1", sent]
    stub.give(status=int(sent))
    assert resources.get_rank_status(1) is up
    assert stub.last_call == ["get_rank_status 1", "1"]
