"""The earliest start is what trying every moment finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.queueing.earliest import earliest, still_free
from fluence_extender.queueing.entry import NEVER, Entry, Footprint, OperatorReservation, Reservation
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.planner import FirstFit
from tests.queueing.values import Running, entry, places, room, timeline_of

ROWS = 3
times = st.sampled_from([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0])
one_row = st.dictionaries(st.integers(0, ROWS - 1), st.integers(1, 4), min_size=1, max_size=2).map(places)
holds = st.lists(st.tuples(one_row, st.one_of(times, st.just(NEVER))), max_size=6)
reserved = st.lists(st.tuples(one_row, times, st.sampled_from([5.0, 10.0, 15.0, 40.0, NEVER])), max_size=6)
operators = st.lists(st.tuples(st.integers(0, ROWS - 1), times, times, st.booleans()), max_size=2)
durations = st.sampled_from([5.0, 10.0, 11.0, 25.0, 60.0, NEVER])


def by_trying(timeline: Timeline, one: Entry, closed: list[OperatorReservation]) -> float | None:
    planner = FirstFit()
    for moment in (float(number) for number in range(int(timeline.now) + 1, 200)):
        view = timeline.available(np.arange(len(timeline.room)), moment, one.duration)
        for reservation in closed:
            if reservation.closes(one, moment, moment + one.duration):
                view[reservation.rows] = 0
        if planner.place(one, view) is not None:
            return moment
    return None


@given(holds, reserved, operators, st.integers(1, 5), st.integers(1, 3), durations)
def test_it_is_the_first_moment_at_which_the_entry_fits(
    running: list[tuple[Footprint, float]],
    later: list[tuple[Footprint, float, float]],
    closed: list[tuple[int, float, float, bool]],
    count: int,
    size: int,
    duration: float,
) -> None:
    held = [Running(f"h{number}", at, end) for number, (at, end) in enumerate(running)]
    timeline = timeline_of(room(*[4] * ROWS), held)
    for number, (at, start, length) in enumerate(later):
        timeline.reserve(Reservation(f"r{number}", at, start, start + length))
    reservations = [
        OperatorReservation(
            str(number), places({row: 0}).rows, start, start + length, frozenset(["me"] * mine)
        )
        for number, (row, start, length, mine) in enumerate(closed)
    ]
    one = entry("e", count, size, duration, queue="me")
    planner = FirstFit()
    found = earliest(timeline, one, planner, reservations)
    expected = by_trying(timeline, one, reservations)
    now = timeline.available(np.arange(len(timeline.room)), timeline.now, duration)
    for reservation in reservations:
        if reservation.closes(one, 0, duration):
            now[reservation.rows] = 0
    if planner.place(one, now) is not None:
        return  # It may start at once, so the search isn't asked for it.
    assert (None if found is None else found[0]) == expected
    if found is not None:
        start, at = found
        view = timeline.available(np.arange(len(timeline.room)), start, duration)
        assert (view[at.rows] >= at.amounts).all()
        assert at.amounts.sum() == count * size


@given(holds, reserved, st.integers(1, 5), st.integers(1, 3), durations, st.integers(0, 5))
def test_a_promise_that_can_be_kept_is_found_like_a_start_anew(
    running: list[tuple[Footprint, float]],
    later: list[tuple[Footprint, float, float]],
    count: int,
    size: int,
    duration: float,
    over: int,
) -> None:
    held = [Running(f"h{number}", at, end) for number, (at, end) in enumerate(running)]
    timeline = timeline_of(room(*[4] * ROWS), held)
    for number, (at, start, length) in enumerate(later):
        timeline.reserve(Reservation(f"r{number}", at, start, start + length))
    one, planner = entry("e", count, size, duration), FirstFit()
    found = earliest(timeline, one, planner)
    if found is None:
        return
    promise = Reservation("e", found[1], found[0], found[0] + duration)
    kept_reservations = [one for one in timeline.reservations.values() if one.key != f"r{over}"]
    timeline = timeline_of(room(*[4] * ROWS), held[:over] + held[over + 1 :])
    for one_reserved in kept_reservations:
        timeline.reserve(one_reserved)
    assert still_free(promise, timeline)
    kept, anew = earliest(timeline, one, planner, (), promise), earliest(timeline, one, planner)
    now = timeline.available(np.arange(len(timeline.room)), timeline.now, duration)
    if planner.place(one, now) is not None:
        return  # It may start at once, so the search isn't asked for it.
    assert anew is not None
    start = promise.start if kept is None else kept[0]
    assert start == min(anew[0], promise.start)
