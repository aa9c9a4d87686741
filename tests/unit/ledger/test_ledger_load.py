"""A graph that can't be built is a reported fault, not an empty cluster; the old graph stays in use meanwhile."""

from __future__ import annotations

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.ledger.graph_matcher import MatcherSetup
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.matcher import InvalidGraph, Jgf, Matcher, MatcherOptions, create_matcher
from fluence_extender.model.resources import Resources
from tests.core.values import node


class Factory:
    """Makes matchers, or raises while it is ``broken``."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, document: Jgf) -> Matcher:
        if self.broken:
            raise InvalidGraph("no such graph")
        return create_matcher("embedded", document, MatcherOptions(policy="lonode"))


ONE_CORE = Resources({"cpu": 1000, "pods": 1})


@pytest.fixture
def factory() -> Factory:
    return Factory()


@pytest.fixture
def ledger(factory: Factory) -> Ledger:
    return Ledger(MatcherSetup(factory, incremental=False))


def test_graph_that_cannot_be_loaded_is_refused_each_time(ledger: Ledger, factory: Factory) -> None:
    factory.broken = True
    for _ in range(2):
        with pytest.raises(InvalidGraph):
            ledger.load([node("n0")])
        assert "no such graph" in ledger.graph.fault


def test_fault_ends_when_the_graph_can_be_loaded(ledger: Ledger, factory: Factory) -> None:
    factory.broken = True
    with pytest.raises(InvalidGraph):
        ledger.load([node("n0")])
    factory.broken = False
    ledger.graph.catch_up()
    assert ledger.in_order(["n0"]) == ("n0",)
    assert ledger.graph.fault == ""


def test_loaded_graph_stays_in_use_when_another_cannot_be_built(ledger: Ledger, factory: Factory) -> None:
    ledger.load([node("n0")])
    factory.broken = True
    ledger.put_node(node("n1"))
    for _ in range(2):
        with pytest.raises(InvalidGraph):
            ledger.graph.catch_up()
        assert ledger.match_equal(ONE_CORE, 1, ["n0"]) == {"n0": 1}


def test_resources_from_which_no_graph_can_be_built_are_taken_back(ledger: Ledger, factory: Factory) -> None:
    ledger.load([node("n0")], parse_resources("resources: [{type: qpu, name: one}]"))
    factory.broken = True
    ledger.replace_resources(parse_resources("resources: [{type: laser, name: two}]"))
    with pytest.raises(InvalidGraph):
        ledger.graph.catch_up()
    refused = ledger.graph.take_back_resources()
    assert refused is not None
    assert refused.types == ("laser",)
    assert ledger.graph.resources.types == ("qpu",)
    assert ledger.graph.catalogue.types == ("qpu",)
    assert ledger.graph.take_back_resources() is None
    factory.broken = False
    ledger.graph.catch_up()
    assert ledger.graph.catalogue.types == ("qpu",)
