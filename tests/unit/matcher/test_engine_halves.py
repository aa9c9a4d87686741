"""What counts can't answer is walked from then on, with the answers of the walker on the expanded document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from fluence_extender.matcher import (
    InvalidGraph,
    InvalidJobspec,
    Jgf,
    JobInfo,
    Match,
    Matcher,
    MatcherError,
    MatcherOptions,
)
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.expansion import expanded
from fluence_extender.matcher.walker import Walker
from tests.unit.matcher.counted.compact_documents import Document

RACKS = 2
NODES = 3
LEAVES = {"core": 4, "gpu": 2}


def racks(leaves: Mapping[str, int] = LEAVES) -> Document:
    """Two racks of three nodes with these leaves each."""
    document = Document()
    for number in range(RACKS):
        rack = document.vertex(document.nodes[0], "rack", f"rack{number}", number, -1)
        for index in range(NODES):
            document.node_with(leaves, f"node{number * NODES + index}", above=rack)
    return document


def jobspec(*resources: Jgf, duration: int = 0) -> Jgf:
    return {
        "version": 9999,
        "resources": list(resources),
        "attributes": {"system": {"duration": duration}},
        "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
    }


def some(kind: str, count: int, *below: Jgf, **more: Any) -> Jgf:
    return {"type": kind, "count": count, "with": list(below), **more}


def slot(count: int, *below: Jgf) -> Jgf:
    return some("slot", count, *below, label="default")


CORE = {"type": "core", "count": 1}
UNCOUNTABLE = {
    "levels by name": [some("rack", 1, some("node", 2, slot(1, CORE)))],
    "several nodes in a slot": [slot(1, some("node", 2, CORE))],
    "a rack in a slot": [slot(1, some("rack", 1, some("node", 1, CORE)))],
    "exclusive nodes without a slot": [some("node", 2, CORE, exclusive=True)],
    "several entries at the top": [slot(2, CORE), some("gpu", 1, exclusive=True)],
    "an exclusive rack": [some("rack", 1, some("node", 1), exclusive=True)],
}


class Both:
    """The engine on counts and the walker on the expanded document, asked the same."""

    def __init__(self, document: Jgf, policy: str = "lonode") -> None:
        options = MatcherOptions(policy=policy)
        self.engine = EmbeddedEngine(document, options)
        self.walker = Walker(expanded(document), options)

    def ask(self, call: Callable[[Matcher], Any]) -> Any:
        own, walked = (_outcome(call, matcher) for matcher in (self.engine, self.walker))
        assert own == walked
        return own

    def match(self, *resources: Jgf, op: str = "allocate", duration: int = 0) -> Any:
        return self.ask(lambda matcher: matcher.match(op, jobspec(*resources, duration=duration)))


def _info(jobid: int, matcher: Matcher) -> JobInfo:
    return matcher.info(jobid)


def _outcome(call: Callable[[Matcher], Any], matcher: Matcher) -> Any:
    try:
        answer = call(matcher)
    except MatcherError as error:
        return error.errno
    if not isinstance(answer, Match):
        return answer
    held = {
        path: {kind: count for kind, count in found.items() if count and kind != "qubit"}
        for path, found in answer.placement.items()
        if "/qubit" not in path
    }
    return answer.jobid, answer.reserved, answer.at, held


@pytest.mark.parametrize("policy", ["first", "lonode", "high"])
@pytest.mark.parametrize("resources", UNCOUNTABLE.values(), ids=UNCOUNTABLE)
def test_a_request_that_counts_cannot_answer_is_walked(resources: list[Jgf], policy: str) -> None:
    both = Both(racks().graph(), policy)
    both.match(slot(5, CORE))
    both.match(*resources)
    both.match(slot(3, CORE, {"type": "gpu", "count": 1}))
    both.ask(lambda matcher: matcher.cancel(1))
    both.match(*resources, op="allocate_orelse_reserve", duration=10)
    both.match(slot(2, some("node", 1)))
    both.ask(lambda matcher: matcher.cancel(2))
    for _ in range(4):
        both.match(slot(2, CORE))
    both.ask(lambda matcher: matcher.info(2))
    both.match(*resources, op="satisfiability")


@pytest.mark.parametrize("kind", ["*", "ALL", "unknown"])
def test_both_halves_know_the_same_types(kind: str) -> None:
    both = Both(racks().graph())
    both.match(slot(1, {"type": kind, "count": 1}))
    both.match(slot(1, CORE))


@pytest.mark.parametrize("path", ["/cluster/rack0/node1/core2", "/cluster/rack1/node4/gpu0"])
def test_a_leaf_of_its_own_can_be_down_and_removed(path: str) -> None:
    both = Both(racks().graph())
    both.match(slot(6, CORE))
    both.ask(lambda matcher: matcher.set_status(path, False))
    both.match(slot(9, CORE))
    both.ask(lambda matcher: matcher.set_status(path, True))
    both.match(slot(2, CORE, {"type": "gpu", "count": 1}))
    both.ask(lambda matcher: matcher.cancel(2))
    both.ask(lambda matcher: matcher.remove_subgraph(path))
    both.match(slot(20, CORE))


def test_leaves_below_sockets_and_sized_pools_are_walked() -> None:
    document = racks()
    node = document.node("big")
    socket = document.vertex(node, "socket", "socket0", 0, 6)
    document.vertex(socket, "core", "core0", 0, 6, count=3)
    document.vertex(node, "memory", "memory0", 0, 6, size=16)
    both = Both(document.graph(), "high")
    both.match(slot(1, {"type": "memory", "count": 4}))
    both.match(slot(2, some("socket", 1, CORE)))
    both.match(slot(3, CORE))


def test_nodes_are_taken_whole_with_the_devices_below_them() -> None:
    document = racks()
    document.node("fez", virtual=True, above=document.node("host", core=4), qubit=3)
    both = Both(document.graph(), "lonodex")
    for _ in range(8):
        both.match(slot(1, CORE))
    both.match(slot(1, {"type": "qubit", "count": 1}))


def test_leaves_that_join_a_node_are_taken_in() -> None:
    document = racks()
    both = Both(document.graph())
    both.match(slot(5, CORE))
    cluster, rack = document.nodes[0], document.nodes[1]
    node = next(entry for entry in document.nodes if entry["metadata"]["type"] == "node")
    leaf = document.vertex(node, "core", "core9", 9, 0)
    kept = {entry["id"] for entry in (cluster, rack, node, leaf)}
    edges = [edge for edge in document.edges if {edge["source"], edge["target"]} <= kept]
    branch = {"graph": {"nodes": [cluster, rack, node, leaf], "edges": edges}}
    both.ask(lambda matcher: matcher.add_subgraph(branch))
    both.match(slot(20, CORE))


def test_a_compact_graph_counts_the_nodes_that_are_up_after_a_handover() -> None:
    document = racks()
    engine = EmbeddedEngine(document.graph())
    engine.set_status("/cluster/rack0/node0/core0", False)
    rack = document.nodes[1]
    new = document.node("node9", above=rack, core=4)
    below = {edge["target"] for edge in document.edges if edge["source"] == new["id"]}
    kept = {document.nodes[0]["id"], rack["id"], new["id"], *below}
    branch = {
        "graph": {
            "nodes": [entry for entry in document.nodes if entry["id"] in kept],
            "edges": [edge for edge in document.edges if {edge["source"], edge["target"]} <= kept],
        }
    }
    engine.add_subgraph(branch)
    nodes = slot(RACKS * NODES + 1, some("node", 1, CORE))
    assert len(engine.match("allocate", jobspec(nodes)).placement) == RACKS * NODES + 1 + RACKS + 1


def test_what_is_too_large_to_be_walked_is_refused_and_changes_nothing() -> None:
    document = racks({**LEAVES, "memory": 10_000_000})
    engine = EmbeddedEngine(document.graph(), MatcherOptions(policy="lonode"))
    with pytest.raises(InvalidJobspec, match="one by one"):
        engine.match("allocate", jobspec(*UNCOUNTABLE["levels by name"]))
    with pytest.raises(MatcherError, match="one by one"):
        engine.set_status("/cluster/rack0/node0/core0", False)
    assert engine.match("allocate", jobspec(slot(1, CORE))).jobid == 1
    document.vertex(document.nodes[1], "node", "odd", 9, 9, size=2)
    with pytest.raises(InvalidGraph, match="one by one"):
        EmbeddedEngine(document.graph())


@pytest.mark.parametrize("counted", [True, False])
def test_a_closed_engine_refuses_every_call(counted: bool) -> None:
    engine = EmbeddedEngine(racks().graph())
    if not counted:
        engine.set_status("/cluster/rack0/node0/core0", False)
    engine.close()
    with pytest.raises(MatcherError, match="closed"):
        engine.match("allocate", jobspec(slot(1, CORE)))
    with pytest.raises(MatcherError, match="closed"):
        engine.cancel(1)


@pytest.mark.parametrize(
    "op", ["allocate", "allocate_orelse_reserve", "satisfiability", "without_allocating"]
)
def test_the_walker_goes_on_where_the_counts_stopped(op: str) -> None:
    both = Both(racks().graph(), "first")
    for count in (5, 3):
        both.match(slot(count, CORE), duration=30)
    both.ask(lambda matcher: matcher.cancel(1))
    both.ask(lambda matcher: matcher.set_status("/cluster/rack0/node1", False))
    both.match(slot(2, some("node", 1)), op=op)
    for jobid in (1, 2, 3, 4):
        both.ask(partial(_info, jobid))
    both.match(slot(20, CORE), op="allocate_orelse_reserve", duration=10)
    both.ask(lambda matcher: matcher.cancel(2))
    both.match(slot(4, CORE))


def test_a_plain_document_is_walked() -> None:
    document = Document()
    document.node("node0", core=4, gpu=2)
    held = EmbeddedEngine(expanded(document.graph())).match("allocate", jobspec(slot(3, CORE))).R
    assert held is not None
    assert not any("count" in entry["metadata"] for entry in held["graph"]["nodes"])
