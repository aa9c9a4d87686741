"""Hostlists and idsets as constraints write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.walker.constraint import Hostlist, Idset


@given(st.sets(st.integers(0, 60)))
def test_idset_holds_exactly_the_ids_written(ids: set[int]) -> None:
    written = Idset([",".join(map(str, sorted(ids)))])
    assert {number for number in range(62) if number in written} == ids


@given(st.integers(0, 50), st.integers(1, 50), st.integers(1, 4))
def test_hostlist_range_holds_exactly_its_hosts(low: int, more: int, width: int) -> None:
    high = low + more
    hosts = Hostlist([f"n[{low:0{width}d}-{high}]x"])
    inside = {f"n{number:0{width}d}x" for number in range(low, high + 1)}
    assert all(name in hosts for name in inside)
    assert f"n{high + 1:0{width}d}x" not in hosts
    assert f"n{low:0{width + 9}d}x" not in hosts
    assert f"n{low:0{width}d}" not in hosts


def test_hostlist_splits_outside_of_brackets_only() -> None:
    hosts = Hostlist(["a[1,3-4],b7 c", ""])
    assert [name for name in ("a1", "a2", "a3", "a4", "b7", "c", "", "a") if name in hosts] == [
        "a1",
        "a3",
        "a4",
        "b7",
        "c",
    ]


@pytest.mark.parametrize("text", ["a[1", "a]1", "a[x]", "a[3-1]", "a[]", "a[0-99999999]", "a[-1]"])
def test_malformed_hostlists_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Hostlist([text])


@pytest.mark.parametrize("text", ["a", "3-1", "2,1", "1,1", "01", "-1", "1-", "[1", "4294967295", "1 2"])
def test_malformed_idsets_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Idset([text])


def test_idset_may_stand_in_brackets_and_be_empty() -> None:
    assert 5 in Idset(["[2,4-6]"])
    assert 0 not in Idset([""])
