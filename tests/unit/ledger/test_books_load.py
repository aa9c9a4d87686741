"""A graph that can't be loaded is a fault that stays, not an empty cluster."""

from __future__ import annotations

import pytest

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
