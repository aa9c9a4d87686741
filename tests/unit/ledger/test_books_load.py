"""A graph that can't be loaded is a fault that stays, not an empty cluster."""

from __future__ import annotations

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.ledger.books import Books
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.matcher import InvalidGraph, Jgf, Matcher, MatcherOptions, create_matcher
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources


class Factory:
    """Makes matchers, or refuses as long as ``broken``."""

    def __init__(self) -> None:
        self.broken = True

    def __call__(self, document: Jgf) -> Matcher:
        if self.broken:
            raise InvalidGraph("no such graph")
        return create_matcher("embedded", document, MatcherOptions(policy="lonode"))


@pytest.fixture
def factory() -> Factory:
    return Factory()


@pytest.fixture
def books(factory: Factory) -> Books:
    made = Books(Mirror(factory))
    made.load([Node("n0", allocatable=Resources({"cpu": 4000, "memory": 2**30, "pods": 10}))])
    return made


def test_graph_that_cannot_be_loaded_is_refused_each_time(books: Books) -> None:
    for _ in range(2):
        with pytest.raises(InvalidGraph):
            books.in_order(["n0"])
        assert "no such graph" in books.fault


def test_fault_ends_when_the_graph_can_be_loaded(books: Books, factory: Factory) -> None:
    with pytest.raises(InvalidGraph):
        books.in_order(["n0"])
    factory.broken = False
    assert books.in_order(["n0"]) == ("n0",)
    assert books.fault == ""


def test_loaded_graph_serves_on_when_another_can_not_be_loaded(books: Books, factory: Factory) -> None:
    factory.broken = False
    requests = Resources({"cpu": 1000, "pods": 1})
    assert books.ask(requests, 1, ["n0"]) == {"n0": 1}
    factory.broken = True
    for _ in range(2):
        with pytest.raises(InvalidGraph):
            books.replace_resources(parse_resources("resources: [{type: qpu, name: one}]"))
        assert books.ask(requests, 1, ["n0"]) == {"n0": 1}
        assert books.fault == ""


def test_refused_resources_leave_the_old_ones_in_force(books: Books, factory: Factory) -> None:
    factory.broken = False
    books.replace_resources(parse_resources("resources: [{type: qpu, name: one}]"))
    factory.broken = True
    with pytest.raises(InvalidGraph):
        books.replace_resources(parse_resources("resources: [{type: laser, name: two}]"))
    assert [one.name for one in books.resources.resources] == ["one"]
    assert books.mirror.catalogue.types == ("qpu",)


def test_matcher_is_closed_once_however_many_loads_fail(books: Books, factory: Factory) -> None:
    factory.broken = False
    assert books.in_order(["n0"]) == ("n0",)
    for broken in (True, True, False):
        factory.broken = broken
        books.load([Node("n1", allocatable=Resources({"cpu": 4000, "memory": 2**30, "pods": 10}))])
        if broken:
            with pytest.raises(InvalidGraph):
                books.in_order(["n1"])
    assert books.in_order(["n1"]) == ("n1",)
    assert books.fault == ""
