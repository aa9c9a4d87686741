"""What others use of a node, as one job of the matcher."""

from __future__ import annotations

import pytest

from fluence_extender.ledger.mirror import Mirror
from fluence_extender.ledger.others import OthersUse
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.resources import NOTHING
from tests.core.values import asks, node
from tests.unit.ledger.test_mirror import mirror


def ask(one: Mirror, cpu: int) -> dict[str, int]:
    return one.ask(asks(cpu), 1, ["n0"])


def test_use_that_has_no_room_is_a_deficit_until_it_has() -> None:
    one = mirror(node("n0"))
    others = OthersUse(one)
    whole = node("n0").allocatable
    (ours,) = one.book_all([("n0", asks(3000, 1))])
    assert isinstance(ours, int)
    others.book("n0", whole, asks(3000, 2))
    assert others.deficits == {"n0": {"core": 2}}
    one.cancel((ours,))
    others.book("n0", whole, asks(3000, 2))
    assert others.deficits == {}
    assert ask(one, 1000) == {"n0": 1}
    with pytest.raises(MatcherError):
        ask(one, 2000)
    others.book("n0", whole, NOTHING)
    assert ask(one, 4000) == {"n0": 1}


def test_use_beyond_the_node_takes_all_of_it() -> None:
    one = mirror(node("n0"))
    others = OthersUse(one)
    others.book("n0", node("n0").allocatable, asks(99_000, 999))
    assert others.deficits == {}
    with pytest.raises(MatcherError):
        ask(one, 1000)


def test_leaves_that_the_node_has_lost_count_as_used() -> None:
    one = mirror(node("n0", 8000))
    OthersUse(one).book("n0", node("n0", 4000).allocatable, asks(1000))
    assert ask(one, 3000) == {"n0": 1}
    with pytest.raises(MatcherError):
        ask(one, 4000)
