"""The matcher's copy of the accounts."""

from __future__ import annotations

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.units import COARSE
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.matcher import MatcherOptions, create_matcher
from fluence_extender.matcher.errors import Busy, InvalidJobspec, MatcherError
from fluence_extender.matcher.port import Jgf, Matcher
from fluence_extender.model.node import Node
from fluence_extender.model.resources import NOTHING, Resources
from tests.core.values import asks, node


def make(document: Jgf) -> Matcher:
    return create_matcher("embedded", document, MatcherOptions("lonode", "ALL:core,ALL:memory,ALL:gpu"))


def mirror(*nodes: Node, resources: str = "", incremental: bool = True) -> Mirror:
    made = Mirror(make, COARSE, incremental=incremental)
    made.load(nodes, parse_resources(resources))
    return made


def test_empty_graph_is_busy_not_broken() -> None:
    empty = mirror()
    with pytest.raises(Busy):
        empty.ask(asks(1000), 1, None)
    empty.cancel((1, 2))
    empty.close()


def test_answer_counts_members_by_node_and_holds_nothing() -> None:
    one = mirror(node("n0"), node("n1"))
    for _ in range(2):
        assert one.ask(asks(1500, 1), 3, None) == {"n0": 2, "n1": 1}
    assert one.ask(asks(1000), 2, ["n1"]) == {"n1": 2}
    with pytest.raises(MatcherError):
        one.ask(asks(1000), 5, ["n1"])


def test_request_that_the_graph_does_not_count_is_not_answered() -> None:
    with pytest.raises(InvalidJobspec):
        mirror(node("n0")).ask(Resources({"pods": 1}), 1, None)


def test_pod_without_leaves_needs_no_job() -> None:
    assert mirror(node("n0")).book("n0", Resources({"pods": 1})) is None


def test_unknown_jobs_are_free_already() -> None:
    one = mirror(node("n0"))
    job = one.book("n0", asks(4000))
    assert job is not None
    one.cancel((job, job, 17))
    assert one.book("n0", asks(4000)) is not None


def test_foreign_use_that_has_no_room_is_a_deficit_until_it_has() -> None:
    one = mirror(node("n0"))
    whole = node("n0").allocatable
    ours = one.book("n0", asks(3000, 1))
    assert ours is not None
    one.book_foreign("n0", whole, asks(3000, 2))
    assert one.deficits == {"n0": {"core": 2}}
    one.cancel((ours,))
    one.book_foreign("n0", whole, asks(3000, 2))
    assert one.deficits == {}
    assert one.ask(asks(1000), 1, None) == {"n0": 1}
    with pytest.raises(MatcherError):
        one.ask(asks(2000), 1, None)
    one.book_foreign("n0", whole, NOTHING)
    assert one.ask(asks(4000), 1, None) == {"n0": 1}


def test_foreign_use_beyond_the_node_takes_all_of_it() -> None:
    one = mirror(node("n0"))
    one.book_foreign("n0", node("n0").allocatable, asks(99_000, 999))
    assert one.deficits == {}
    with pytest.raises(MatcherError):
        one.ask(asks(1000), 1, None)


def test_graph_that_must_not_change_in_place_asks_for_a_load() -> None:
    assert not mirror(node("n0"), incremental=False).replace_node(None, node("n1"))


def test_last_node_can_not_be_taken_out_in_place() -> None:
    one = mirror(node("n0"))
    assert not one.replace_node("n0", None)


def test_name_of_a_backend_keeps_a_node_from_joining_in_place() -> None:
    one = mirror(node("n0"), resources="resources: [{type: simulator, name: sv1, count: 1}]")
    assert not one.replace_node(None, node("sv1"))
    one.load(
        [node("n0"), node("sv1")], parse_resources("resources: [{type: simulator, name: sv1, count: 1}]")
    )
    assert one.catalogue.types == ()
    assert one.ask(asks(4000), 2, None) == {"n0": 1, "sv1": 1}


def test_resource_whose_parent_is_gone_is_left_out() -> None:
    text = "resources: [{type: simulator, name: s, parent: n1, count: 1}, {type: laser, name: l, count: 1}]"
    one = mirror(node("n0"), resources=text)
    assert one.catalogue.types == ("laser",)
    one.load([node("n0"), node("n1")], parse_resources(text))
    assert one.catalogue.types == ("laser", "simulator")


def test_shown_graph_is_in_whole_cores_and_gib() -> None:
    shown = mirror(node("n0", 2500, 3)).document(expanded=True)
    kinds = [one["metadata"]["type"] for one in shown["graph"]["nodes"]]
    assert (kinds.count("core"), kinds.count("memory")) == (2, 3)
