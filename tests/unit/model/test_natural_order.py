"""Names are sorted as people number them."""

from __future__ import annotations

from itertools import permutations

import pytest

from fluence_extender.model.natural_order import natural_order


@pytest.mark.parametrize(
    "ordered",
    [
        ["node2", "node10"],
        ["worker-2", "worker-2-0", "worker-2-1", "worker-10"],
        ["", "2", "10", "a", "a1", "a-b", "b"],
        ["rack1-node9", "rack1-node10", "rack2-node1"],
    ],
)
def test_digits_count_as_numbers(ordered: list[str]) -> None:
    assert sorted(reversed(ordered), key=natural_order) == ordered


def test_names_that_differ_in_leading_zeros_only_have_one_order() -> None:
    names = ["n1", "n01", "n001"]
    assert len({tuple(sorted(given, key=natural_order)) for given in permutations(names)}) == 1
