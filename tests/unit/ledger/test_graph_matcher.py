"""A matcher on the cluster's graph, and the graph as it changes in place."""

from __future__ import annotations

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.units import COARSE
from fluence_extender.ledger.graph_matcher import GraphMatcher, MatcherSetup
from fluence_extender.matcher import MatcherOptions, create_matcher
from fluence_extender.matcher.errors import Busy, InvalidJobspec, MatcherError
from fluence_extender.matcher.port import Jgf, Matcher
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from tests.core.values import asks, node


def make(document: Jgf) -> Matcher:
    return create_matcher("embedded", document, MatcherOptions("lonode", "ALL:core,ALL:memory,ALL:gpu"))


def graph_matcher(*nodes: Node, resources: str = "", incremental: bool = True) -> GraphMatcher:
    made = GraphMatcher(MatcherSetup(make, COARSE, incremental=incremental))
    made.load(nodes, parse_resources(resources))
    return made


def types(of: GraphMatcher) -> tuple[str, ...]:
    """Return the types of devices in the graph."""
    return of.graph.catalogue.types


def test_empty_graph_is_busy_not_broken() -> None:
    empty = graph_matcher()
    with pytest.raises(Busy):
        empty.match_equal(asks(1000), 1, [])
    empty.cancel((1, 2))
    empty.close()


def test_match_of_equal_pods_counts_them_by_node_and_holds_nothing() -> None:
    one = graph_matcher(node("n0"), node("n1"))
    for _ in range(2):
        assert one.match_equal(asks(1500, 1), 3, ["n0", "n1"]) == {"n0": 2, "n1": 1}
    assert one.match_equal(asks(1000), 2, ["n1"]) == {"n1": 2}
    with pytest.raises(MatcherError):
        one.match_equal(asks(1000), 5, ["n1"])


def test_request_that_the_graph_does_not_count_is_invalid() -> None:
    with pytest.raises(InvalidJobspec):
        graph_matcher(node("n0")).match_equal(Resources({"pods": 1}), 1, ["n0"])


def test_pod_without_leaves_needs_no_job() -> None:
    assert graph_matcher(node("n0")).hold_shares([("n0", Resources({"pods": 1}))]) == [None]


def test_cancelling_unknown_jobs_does_nothing() -> None:
    one = graph_matcher(node("n0"))
    (job,) = one.hold_shares([("n0", asks(4000))])
    assert isinstance(job, int)
    assert job is not None
    one.cancel((job, job, 17))
    assert isinstance(one.hold_shares([("n0", asks(4000))])[0], int)


def changed(
    one: GraphMatcher, leaving: str | None, joining: Node | None, resources: str | None = None
) -> None:
    edit = one.plan_edit(leaving, joining, parse_resources(resources) if resources is not None else None)
    assert edit is not None
    one.apply_edit(edit)


SIMULATOR = "resources: [{type: simulator, name: sv1, count: 1}]"
LOCAL = "resources: [{type: simulator, name: s, parent: n1, count: 1}, {type: laser, name: l, count: 1}]"


def test_graph_that_cannot_change_in_place_plans_no_edit() -> None:
    assert graph_matcher(node("n0"), incremental=False).plan_edit(None, node("n1")) is None


def test_node_that_needs_larger_units_is_not_added_in_place() -> None:
    one = GraphMatcher(MatcherSetup(make))
    one.load([node("n0")], parse_resources(""))
    assert one.plan_edit(None, node("n1", gib=8 * 1024)) is None


def test_last_node_leaves_and_another_joins() -> None:
    one = graph_matcher(node("n0"))
    changed(one, "n0", None)
    with pytest.raises(Busy):
        one.match_equal(asks(1000), 1, [])
    changed(one, None, node("n1"))
    assert one.match_equal(asks(4000), 1, ["n1"]) == {"n1": 1}


def test_node_with_the_name_of_a_backend_replaces_it_until_the_node_leaves() -> None:
    one = graph_matcher(node("n0"), resources=SIMULATOR)
    changed(one, None, node("sv1"))
    assert types(one) == ()
    assert one.match_equal(asks(4000), 2, ["n0", "sv1"]) == {"n0": 1, "sv1": 1}
    changed(one, "sv1", None)
    assert types(one) == ("simulator",)


def test_resources_of_a_node_join_leave_and_move_with_it() -> None:
    one = graph_matcher(node("n0"), resources=LOCAL)
    assert types(one) == ("laser",)
    changed(one, None, node("n1"))
    assert types(one) == ("laser", "simulator")
    changed(one, "n1", node("n1", labels={"topology.kubernetes.io/zone": "a"}))
    moved = one.graph.catalogue.at("/cluster/n1/s")
    assert moved is not None
    assert moved.path == "/cluster/zone=a/n1/s"
    changed(one, "n1", None)
    assert types(one) == ("laser",)


def test_only_edited_resources_are_changed() -> None:
    one = graph_matcher(node("n0"), node("n1"), resources=LOCAL)
    kept = one.graph.catalogue.at("/cluster/l")
    edited = "resources: [{type: laser, name: l, count: 1}, {type: laser, name: m, count: 2, parent: n0}]"
    changed(one, None, None, edited)
    assert [device.path for device in one.graph.catalogue.devices] == ["/cluster/l", "/cluster/n0/m"]
    assert one.graph.catalogue.at("/cluster/l") is kept
    changed(one, "n0", None)
    changed(one, None, None, LOCAL)
    assert types(one) == ("laser", "simulator")


def test_nodes_stay_in_the_order_of_their_ranks() -> None:
    one = graph_matcher(node("n2"), node("n10"), node("n1"))
    assert one.graph.all_in_order(descending=False) == ("n1", "n2", "n10")
    changed(one, "n2", node("n2", 8000))
    assert one.graph.all_in_order(descending=False) == ("n1", "n10", "n2")
    assert one.graph.all_in_order(descending=True) == ("n2", "n10", "n1")
    assert one.graph.in_order({"n2", "n1", "elsewhere"}, descending=False) == ("n1", "n2")


def test_graph_that_is_behind_does_not_offer_devices_that_are_gone() -> None:
    one = graph_matcher(node("n0"), node("n1"), resources=LOCAL, incremental=False)
    one.graph.mask_devices({"n0"}, parse_resources(LOCAL))
    assert types(one) == ("laser",)
    one.graph.mask_devices({"n0", "n1"}, parse_resources(""))
    assert types(one) == ()


def test_resource_whose_parent_is_gone_is_left_out() -> None:
    text = "resources: [{type: simulator, name: s, parent: n1, count: 1}, {type: laser, name: l, count: 1}]"
    one = graph_matcher(node("n0"), resources=text)
    assert types(one) == ("laser",)
    one.load([node("n0"), node("n1")], parse_resources(text))
    assert types(one) == ("laser", "simulator")
