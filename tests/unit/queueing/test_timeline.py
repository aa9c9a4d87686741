"""What is free over time follows from the room, the holds and the reservations, however they came about."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.queueing.entry import NEVER, Amounts, Footprint, Running
from fluence_extender.queueing.reservation import Reservation
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.values import free_at, places, room

ROWS = 4
times = st.sampled_from([10.0, 20.0, 30.0, 50.0, 80.0, 130.0, NEVER])
"""From now on."""

taking = st.dictionaries(
    st.integers(0, ROWS - 1), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1
).map(places)
keys = st.sampled_from(["a", "b", "c", "d"])
steps = st.one_of(
    st.tuples(st.just("hold"), keys, taking, times, st.booleans()),
    st.tuples(st.just("release"), keys),
    st.tuples(st.just("reserve"), keys, taking, times, times),
    st.tuples(st.just("cancel"), keys),
    st.tuples(st.just("reserve again"), keys),
    st.tuples(st.just("advance"), st.sampled_from([5.0, 10.0, 25.0])),
    st.tuples(st.just("resize"), taking),
)


def apply(timeline: Timeline, step: tuple[object, ...]) -> None:
    match step:
        case "hold", str() as key, Footprint() as at, float() as end, bool() as foreign:
            timeline.hold(Running(key, at, timeline.now + end, foreign))
        case "release", str() as key:
            timeline.release(key)
        case "reserve", str() as key, Footprint() as at, float() as start, float() as end:
            timeline.cancel(key)
            if start == NEVER:
                timeline.reserve(Reservation(key, at, NEVER, NEVER, draining=True))
            else:
                since = timeline.now + start
                timeline.reserve(Reservation(key, at, since, since + end))
        case "cancel", str() as key:
            timeline.cancel(key)
        case "reserve again", str() as key:
            again = timeline.reservations.get(key)
            timeline.cancel(key)
            if again is not None:
                timeline.reserve(again)
        case "advance", float() as pause:
            timeline.advance(timeline.now + pause)
        case "resize", Footprint() as at:
            timeline.resize(at.rows, at.amounts)


def left(timeline: Timeline, span: float) -> Amounts:
    """Return what an entry that starts now and runs for so long may take beside all reservations."""
    kept = timeline.kept(timeline.levels_within(span))
    found = timeline.unreserved(timeline.now)
    found[kept.rows] -= kept.amounts
    return found


def built_anew(timeline: Timeline) -> Timeline:
    other = Timeline(timeline.room, timeline.now)
    for hold in timeline.holds.values():
        other.hold(hold)
    for one in sorted(timeline.reservations.values(), key=lambda one: one.key):
        if one.start > timeline.now:
            other.reserve(one)
    return other


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(steps, min_size=10, max_size=20), st.sampled_from([1.0, 15.0, 35.0, 500.0]))
def test_it_equals_what_is_added_up_from_its_parts(history: list[tuple[object, ...]], span: float) -> None:
    timeline = Timeline(room(*[(5, 5)] * ROWS))
    for step in history:
        left(timeline, span)
        apply(timeline, step)
        assert np.array_equal(timeline.free, free_at(timeline, timeline.now))
        for start in timeline.starts:
            assert np.array_equal(timeline.at(start), free_at(timeline, start))
        moments = [timeline.now, *(one for one in timeline.starts if one < timeline.now + span)]
        lowest = np.min([free_at(timeline, moment) for moment in moments], axis=0)
        assert np.array_equal(left(timeline, span), lowest)
        for moment in (timeline.now + 1, timeline.now + 20, timeline.now + 333):
            assert np.array_equal(timeline.at(moment), free_at(timeline, moment))


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(steps, min_size=10, max_size=20))
def test_it_equals_one_built_anew(history: list[tuple[object, ...]]) -> None:
    timeline = Timeline(room(*[(5, 5)] * ROWS))
    for step in history:
        apply(timeline, step)
    if any(one.start <= timeline.now for one in timeline.reservations.values()):
        return
    other = built_anew(timeline)
    assert np.array_equal(other.free, timeline.free)
    assert np.array_equal(other.capacity, timeline.capacity)
    assert other.starts == timeline.starts
    assert np.array_equal(other.returns(), timeline.returns())
    assert {key: other.until(key) for key in other.holds} == {key: timeline.until(key) for key in other.holds}


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(steps, min_size=8, max_size=20), times, st.sampled_from([5.0, 25.0, NEVER]))
def test_what_is_available_is_the_minimum_over_the_whole_time(
    history: list[tuple[object, ...]], start: float, duration: float
) -> None:
    timeline = Timeline(room(*[(5, 5)] * ROWS))
    for step in history:
        apply(timeline, step)
    start = timeline.now + 7 if start == NEVER else max(start, timeline.now)
    moments = [start, *(one for one in timeline.starts if start < one < start + duration)]
    lowest = np.min([free_at(timeline, moment) for moment in moments], axis=0)
    assert np.array_equal(timeline.available(np.arange(len(timeline.room)), start, duration), lowest)


def test_work_on_many_nodes_leaves_less_beside_a_reservation() -> None:
    wide = 300
    timeline = Timeline(room(*[5] * wide))
    timeline.reserve(Reservation("later", places({0: 2}), 10.0, 20.0))
    assert left(timeline, NEVER)[0, 0] == 3
    timeline.hold(Running("all", places(dict.fromkeys(range(wide), 1)), 5.0))
    assert left(timeline, NEVER)[:2, 0].tolist() == [3, 4]
    assert left(timeline, 5.0)[:2, 0].tolist() == [4, 4]


def test_a_pod_that_runs_on_takes_from_later_starts() -> None:
    timeline = Timeline(room(4))
    timeline.hold(Running("late", places({0: 3}), 50.0))
    timeline.reserve(Reservation("next", places({0: 1}), 80.0, 200.0))
    assert timeline.at(80.0).tolist() == [[3]]
    timeline.advance(50.0)
    assert timeline.at(80.0).tolist() == [[0]]
    assert timeline.free.tolist() == [[1]]


def test_a_reservation_counts_from_its_start_to_its_end() -> None:
    timeline = Timeline(room(4))
    timeline.reserve(Reservation("next", places({0: 1}), 80.0, 200.0))
    timeline.advance(80.0)
    assert timeline.free.tolist() == [[3]]
    assert timeline.at(200.0).tolist() == [[4]]
    timeline.advance(200.0)
    assert timeline.free.tolist() == [[4]]
    assert not timeline.reservations
