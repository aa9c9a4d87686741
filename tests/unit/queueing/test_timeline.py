"""What is free over time follows from the room, the holds and the reservations, however they came about."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.queueing.entry import NEVER, Amounts, Footprint, Reservation
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.values import Running, free_at, left_at, places, room, timeline_of

ROWS = 4
times = st.sampled_from([10.0, 20.0, 30.0, 50.0, 80.0, 130.0, NEVER])
"""From now on."""

taking = st.dictionaries(
    st.integers(0, ROWS - 1), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1
).map(places)
keys = st.sampled_from(["a", "b", "c", "d", "e", "f"])
running = st.lists(
    st.builds(Running, st.just(""), taking, st.one_of(times, st.sampled_from([-5.0, -100.0])), st.booleans()),
    max_size=8,
)
steps = st.one_of(
    st.tuples(st.just("start"), taking, times),
    st.tuples(st.just("reserve"), keys, taking, times, times),
)


@dataclass
class Told:
    """A timeline, and all the work that it was told of."""

    holds: list[Running]
    timeline: Timeline = field(init=False)

    def __post_init__(self) -> None:
        self.timeline = timeline_of(room(*[(5, 5)] * ROWS), self.holds)

    def apply(self, step: tuple[object, ...]) -> None:
        """Let something happen."""
        timeline = self.timeline
        match step:
            case "start", Footprint() as at, float() as end:
                self.holds.append(Running("", at, end))
                timeline.start(at, end)
            case "reserve", str() as key, Footprint() as at, float() as start, float() as end:
                if key in timeline.reservations:
                    return
                if start == NEVER:
                    timeline.reserve(Reservation(key, at, NEVER, NEVER, draining=True))
                else:
                    timeline.reserve(Reservation(key, at, start, start + end))

    def free_at(self, time: float) -> Amounts:
        """Return what is free, added up from its parts."""
        return free_at(self.timeline, self.holds, time)


def left(timeline: Timeline, span: float) -> Amounts:
    """Return what an entry that starts now and runs for so long may take beside all reservations."""
    kept = timeline.kept(timeline.starts_within(span))
    found = timeline.unreserved(timeline.now)
    found[kept.rows] -= kept.amounts
    return found


@settings(max_examples=settings().max_examples // 2)
@given(running, st.lists(steps, min_size=5, max_size=15), st.sampled_from([1.0, 15.0, 35.0, 500.0]))
def test_it_equals_what_is_added_up_from_its_parts(
    holds: list[Running], history: list[tuple[object, ...]], span: float
) -> None:
    told = Told(holds)
    timeline = told.timeline
    for step in history:
        left(timeline, span)
        told.apply(step)
        assert np.array_equal(timeline.free, told.free_at(timeline.now))
        for start in timeline.starts:
            assert np.array_equal(left_at(timeline, start), told.free_at(start))
        moments = [timeline.now, *(one for one in timeline.starts if one < timeline.now + span)]
        lowest = np.min([told.free_at(moment) for moment in moments], axis=0)
        assert np.array_equal(left(timeline, span), lowest)
        for moment in (timeline.now + 1, timeline.now + 20, timeline.now + 333):
            assert np.array_equal(left_at(timeline, moment), told.free_at(moment))


@settings(max_examples=settings().max_examples // 2)
@given(running, st.lists(steps, min_size=5, max_size=15))
def test_it_equals_one_built_anew(holds: list[Running], history: list[tuple[object, ...]]) -> None:
    told = Told(holds)
    for step in history:
        told.apply(step)
    timeline, anew = told.timeline, timeline_of(room(*[(5, 5)] * ROWS), told.holds)
    for one in sorted(timeline.reservations.values(), key=lambda one: one.key):
        anew.reserve(one)
    assert np.array_equal(anew.free, timeline.free)
    assert np.array_equal(anew.capacity, timeline.capacity)
    assert anew.starts == timeline.starts
    assert np.array_equal(anew.returns(), timeline.returns())


@settings(max_examples=settings().max_examples // 2)
@given(running, st.lists(steps, min_size=4, max_size=15), times, st.sampled_from([5.0, 25.0, NEVER]))
def test_what_is_available_is_the_minimum_over_the_whole_time(
    holds: list[Running], history: list[tuple[object, ...]], start: float, duration: float
) -> None:
    told = Told(holds)
    for step in history:
        told.apply(step)
    timeline = told.timeline
    start = timeline.now + 7 if start == NEVER else max(start, timeline.now)
    moments = [start, *(one for one in timeline.starts if start < one < start + duration)]
    lowest = np.min([told.free_at(moment) for moment in moments], axis=0)
    assert np.array_equal(timeline.available(np.arange(len(timeline.room)), start, duration), lowest)


def test_work_on_many_nodes_leaves_less_beside_a_reservation() -> None:
    wide = 300
    timeline = timeline_of(room(*[5] * wide))
    timeline.reserve(Reservation("later", places({0: 2}), 10.0, 20.0))
    assert left(timeline, NEVER)[0, 0] == 3
    timeline.start(places(dict.fromkeys(range(wide), 1)), 5.0)
    assert left(timeline, NEVER)[:2, 0].tolist() == [3, 4]
    assert left(timeline, 5.0)[:2, 0].tolist() == [4, 4]


def test_a_pod_that_runs_on_takes_from_later_starts() -> None:
    late = Running("late", places({0: 3}), 50.0)
    before, after = timeline_of(room(4), [late], 0.0), timeline_of(room(4), [late], 50.0)
    for timeline in (before, after):
        timeline.reserve(Reservation("next", places({0: 1}), 80.0, 200.0))
    assert left_at(before, 80.0).tolist() == [[3]]
    assert left_at(after, 80.0).tolist() == [[0]]
    assert after.free.tolist() == [[1]]


def test_a_reservation_counts_from_its_start_to_its_end() -> None:
    for now, free in ((0.0, 4), (80.0, 3), (200.0, 4)):
        timeline = timeline_of(room(4), [], now)
        timeline.reserve(Reservation("next", places({0: 1}), 80.0, 200.0))
        assert left_at(timeline, now).tolist() == [[free]]
        assert left_at(timeline, 200.0).tolist() == [[4]]
