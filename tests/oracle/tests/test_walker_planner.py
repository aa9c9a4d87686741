"""Planners: what is free over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.walker.planner import SpanPlanner, whole_seconds

Spans = list[tuple[int, int, int]]

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(0, 6)), max_size=12)


def _free(total: int, held: Spans, time: int) -> int:
    return total - sum(amount for at, duration, amount in held if at <= time < at + duration)


@given(spans)
def test_planner_agrees_with_a_table_of_seconds(wanted: Spans) -> None:
    planner = SpanPlanner(8)
    held: Spans = []
    for at, duration, amount in wanted:
        room = min(_free(8, held, time) for time in range(at, at + duration))
        assert planner.free_during(at, duration) == room
        assert planner.add(at, duration, amount) == (amount <= room)
        if amount <= room:
            held.append((at, duration, amount))
    assert [planner.free_at(time) for time in range(60)] == [_free(8, held, time) for time in range(60)]


@given(spans)
def test_planner_is_as_new_when_every_span_is_gone(wanted: Spans) -> None:
    planner = SpanPlanner(8)
    held = [span for span in wanted if planner.add(*span)]
    for span in reversed(held):
        assert planner.remove(*span)
    assert planner.timeline() == [(0, 8)]


def test_start_times_are_the_ends_and_starts_of_spans() -> None:
    planner = SpanPlanner(4)
    planner.add(0, 100, 4)
    planner.add(150, 50, 3)
    assert list(planner.starts(1, 10, 2)) == [100, 200]
    assert list(planner.starts(1, 50, 4)) == [100, 200]
    assert list(planner.starts(1, 51, 4)) == [200]


def test_a_shrunk_planner_never_shows_less_than_nothing() -> None:
    planner = SpanPlanner(8)
    planner.add(0, 10, 6)
    planner.resize(4)
    assert planner.free_at(0) == 0
    assert not planner.remove(0, 10, 6)


def test_more_than_the_total_never_fits() -> None:
    planner = SpanPlanner(4)
    assert not planner.add(0, 10, 5)
    assert not planner.add(0, 10, -1)
    assert planner.timeline() == [(0, 4)]


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        (0, 1000),
        (0.25, 1),
        (10, 10),
        (10.1, 11),
        (1000, 1000),
        (1001, None),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_durations_are_rounded_up_to_seconds(duration: float, seconds: int | None) -> None:
    assert whole_seconds(duration, 1000) == seconds
