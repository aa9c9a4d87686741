"""The counted graph follows nodes that join, leave and go down."""

from __future__ import annotations

import pytest

from fluence_extender.matcher import Busy, InvalidGraph, Jgf, Match, MatcherError, MatcherOptions, MatchOp
from fluence_extender.matcher.engine import EmbeddedEngine
from tests.unit.matcher.counted.compact_documents import (
    CORES,
    Document,
    around,
    jobspec,
    two_nodes_and_a_device,
)

POLICIES = pytest.mark.parametrize("policy", ["first", "lonode", "low", "locality"])


def allocate(engine: EmbeddedEngine, spec: Jgf) -> Match:
    return engine.match(MatchOp.ALLOCATE, spec)


def whole_nodes(count: int) -> Jgf:
    node = {"type": "node", "count": 1, "with": [{"type": "core", "count": 1}]}
    return around([{"type": "slot", "count": count, "label": "s", "with": [node]}])


@POLICIES
def test_a_node_that_joins_is_used_and_counted(policy: str) -> None:
    document = two_nodes_and_a_device()
    engine = EmbeddedEngine(document.graph(), MatcherOptions(policy=policy))
    with pytest.raises(Busy):
        allocate(engine, jobspec(3, core=CORES))
    engine.add_subgraph(document.graph(document.node("gamma", core=CORES)))
    assert len(allocate(engine, jobspec(3, core=CORES)).placement) == 4


@POLICIES
def test_a_node_that_leaves_takes_its_share_of_a_job_with_it(policy: str) -> None:
    document = two_nodes_and_a_device()
    engine = EmbeddedEngine(document.graph(), MatcherOptions(policy=policy))
    held = allocate(engine, jobspec(2, core=CORES))
    engine.remove_subgraph("/cluster/alpha")
    again = Document()
    again.rank, again.uniq_id = document.rank, document.uniq_id
    entry = again.node("alpha", core=CORES)
    engine.add_subgraph(again.graph(entry))
    assert list(allocate(engine, jobspec(1, core=CORES)).placement) == ["/cluster/alpha", "/cluster"]
    engine.cancel(held.jobid)
    assert "/cluster/beta" in allocate(engine, jobspec(1, core=CORES)).placement
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, core=1))


def test_a_node_that_is_down_takes_nothing_new() -> None:
    engine = EmbeddedEngine(two_nodes_and_a_device().graph(), MatcherOptions(policy="lonode"))
    engine.set_status("/cluster/alpha", False)
    assert "/cluster/beta" in allocate(engine, jobspec(1, core=1)).placement
    engine.set_status("/cluster/alpha", True)
    assert "/cluster/alpha" in allocate(engine, jobspec(1, core=1)).placement


@pytest.mark.parametrize("path", ["/cluster/gone", "/cluster/alpha/core3", "/cluster", ""])
def test_what_cannot_be_removed_is_refused(path: str) -> None:
    engine = EmbeddedEngine(two_nodes_and_a_device().graph())
    with pytest.raises(MatcherError):
        engine.remove_subgraph(path)


def test_a_branch_that_clashes_is_refused_and_leaves_no_trace() -> None:
    document = two_nodes_and_a_device()
    engine = EmbeddedEngine(document.graph(), MatcherOptions(policy="lonode"))
    new = document.node("gamma", core=CORES)
    clashing = document.graph(new)
    for damage in ({"rank": 0}, {"uniq_id": 1}, {"size": -1}, {"rank": "x"}):
        nodes = [
            {**entry, "metadata": {**entry["metadata"], **damage}} if entry is new else entry
            for entry in clashing["graph"]["nodes"]
        ]
        with pytest.raises(InvalidGraph) as caught:
            engine.add_subgraph({"graph": {"nodes": nodes, "edges": clashing["graph"]["edges"]}})
        assert caught.value.errno == 22
    engine.add_subgraph(clashing)
    assert len(allocate(engine, jobspec(3, core=CORES)).placement) == 4


def test_a_device_below_a_node_is_held_with_a_node_that_is_taken_whole() -> None:
    document = Document()
    alpha = document.node("alpha", core=9)
    document.node("fez", virtual=True, above=alpha, qubit=5)
    engine = EmbeddedEngine(document.graph(), MatcherOptions(policy="low"))
    held = allocate(engine, whole_nodes(1))
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, qubit=1))
    engine.cancel(held.jobid)
    allocate(engine, jobspec(1, qubit=1))
    with pytest.raises(Busy):
        allocate(engine, whole_nodes(1))
    assert allocate(engine, jobspec(1, core=9)).placement["/cluster/alpha"] == {"core": 9}


def test_a_device_below_a_node_is_matched_beside_the_leaves_of_the_node() -> None:
    document = Document()
    alpha = document.node("alpha", core=CORES)
    document.node("fez", virtual=True, above=alpha, qubit=5)
    engine = EmbeddedEngine(document.graph(), MatcherOptions(policy="low"))
    device = allocate(engine, jobspec(1, qubit=5))
    assert device.placement["/cluster/alpha/fez"] == {"qubit": 5}
    assert allocate(engine, jobspec(1, core=CORES)).placement["/cluster/alpha"] == {"core": CORES}
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, qubit=1))
    engine.set_status("/cluster/alpha", False)
    engine.cancel(device.jobid)
    with pytest.raises(Busy):
        allocate(engine, jobspec(1, qubit=1))
