"""Sets of numbered units, kept as ranges, agree with plain sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.matcher.counted.ranges import (
    Ranges,
    difference,
    size,
    take_highest,
    take_lowest,
    union,
    whole,
)
from fluence_extender.matcher.counted.scoring import group_sums

UNITS = st.sets(st.integers(0, 30))


def ranges(units: set[int]) -> Ranges:
    found: Ranges = ()
    for unit in units:
        found = union(found, ((unit, unit + 1),))
    return found


def listed(found: Ranges) -> list[int]:
    return [unit for low, high in found for unit in range(low, high)]


@given(UNITS, UNITS)
def test_set_operations_agree_with_sets(one: set[int], other: set[int]) -> None:
    assert listed(union(ranges(one), ranges(other))) == sorted(one | other)
    assert listed(difference(ranges(one), ranges(other))) == sorted(one - other)
    assert size(ranges(one)) == len(one)


@given(UNITS)
def test_a_set_is_as_few_ranges_as_can_be(units: set[int]) -> None:
    found = ranges(units)
    assert all(low < high for low, high in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(UNITS, st.data())
def test_taking_splits_at_either_end(units: set[int], data: st.DataObject) -> None:
    amount = data.draw(st.integers(0, len(units)))
    free, ordered = ranges(units), sorted(units)
    lowest, rest = take_lowest(free, amount)
    assert (listed(lowest), listed(rest)) == (ordered[:amount], ordered[amount:])
    highest, rest = take_highest(free, amount)
    assert listed(highest) == ordered[len(ordered) - amount :]
    assert listed(rest) == ordered[: len(ordered) - amount]
    assert all(low < high for part in (lowest, highest, rest) for low, high in part)


def test_a_pool_of_terabytes_is_one_range() -> None:
    taken, rest = take_lowest(whole(10**13), 8 * 2**30)
    assert taken == ((0, 8 * 2**30),)
    assert rest == ((8 * 2**30, 10**13),)


@given(st.sets(st.integers(0, 60), min_size=1), st.data())
def test_sums_of_groups_are_those_of_the_listed_units(units: set[int], data: st.DataObject) -> None:
    group = data.draw(st.integers(1, len(units)))
    count = len(units) // group
    for ascending in (True, False):
        ordered = sorted(units, reverse=not ascending)
        expected = [sum(ordered[place * group : (place + 1) * group]) for place in range(count)]
        assert group_sums(ranges(units), group, count, ascending=ascending).tolist() == expected
