"""Foreign pods on a node are one job of the matcher."""

from __future__ import annotations

import pytest

from fluence_extender.ledger.bookings import ForeignBookings, NodeUse
from fluence_extender.ledger.graph_matcher import GraphMatcher
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.resources import NOTHING
from tests.core.values import asks, node
from tests.unit.ledger.test_graph_matcher import graph_matcher


def ask(one: GraphMatcher, cpu: int) -> dict[str, int]:
    return one.match_equal(asks(cpu), 1, ["n0"])


def test_use_without_capacity_is_a_deficit_until_there_is_some() -> None:
    one = graph_matcher(node("n0"))
    foreign = ForeignBookings(one)
    whole = node("n0").allocatable
    (ours,) = one.hold_shares([("n0", asks(3000, 1))])
    assert isinstance(ours, int)
    foreign.book_all({"n0": NodeUse(whole, asks(3000, 2))})
    assert foreign.deficits == {"n0": {"core": 2}}
    one.cancel((ours,))
    foreign.book_all({"n0": NodeUse(whole, asks(3000, 2))})
    assert foreign.deficits == {}
    assert ask(one, 1000) == {"n0": 1}
    with pytest.raises(MatcherError):
        ask(one, 2000)
    foreign.book_all({"n0": NodeUse(whole, NOTHING)})
    assert ask(one, 4000) == {"n0": 1}


def test_use_beyond_the_node_takes_all_of_it() -> None:
    one = graph_matcher(node("n0"))
    foreign = ForeignBookings(one)
    foreign.book_all({"n0": NodeUse(node("n0").allocatable, asks(99_000, 999))})
    assert foreign.deficits == {}
    with pytest.raises(MatcherError):
        ask(one, 1000)


def test_leaves_that_the_node_has_lost_count_as_used() -> None:
    one = graph_matcher(node("n0", 8000))
    ForeignBookings(one).book_all({"n0": NodeUse(node("n0", 4000).allocatable, asks(1000))})
    assert ask(one, 3000) == {"n0": 1}
    with pytest.raises(MatcherError):
        ask(one, 4000)
