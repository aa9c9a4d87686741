"""Overruns move expected ends out seldom, and never into the past."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.queueing.entry import FIRST_STEP, NEVER, expected_end

moments = st.floats(0, 1e10)


@given(moments, moments)
def test_an_expected_end_is_in_the_future_and_not_before_the_declared_one(
    declared: float, now: float
) -> None:
    end = expected_end(declared, now)
    assert end >= declared
    assert end > now


def test_a_pod_that_declares_no_end_is_not_expected_to_end() -> None:
    assert expected_end(NEVER, 1e9) == NEVER


@given(moments, st.floats(0, 1e7))
def test_it_ends_when_declared_until_then(declared: float, before: float) -> None:
    now = declared - before
    assert expected_end(declared, now) == declared or now == declared


def test_over_a_long_overrun_the_estimate_moves_a_logarithmic_number_of_times() -> None:
    overrun, now, moves = 1e6, 1000.0, 0
    while now < 1000.0 + overrun:
        now = expected_end(1000.0, now)
        moves += 1
    assert moves <= math.log2(overrun / FIRST_STEP) + 2
