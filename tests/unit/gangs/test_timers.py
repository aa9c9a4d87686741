"""Timers: when gangs are looked at although nothing was observed of them."""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.gang_index import Timers
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.model.gang import Convention, GangKey

A, B = (GangKey("default", name, Convention.LABEL) for name in "ab")


def test_gang_is_due_once_at_the_earliest_requested_time() -> None:
    timers = Timers()
    timers.set(A, 5.0)
    timers.set(A, 2.0)
    timers.set(A, 9.0)
    timers.set(B, 3.0)
    assert timers.take_due(1.9) == []
    assert timers.take_due(3.0) == [A, B]
    assert timers.take_due(100.0) == []


def test_timer_that_was_due_can_be_set_again() -> None:
    timers = Timers()
    timers.set(A, 1.0)
    assert timers.take_due(1.0) == [A]
    timers.set(A, 4.0)
    assert timers.take_due(5.0) == [A]


def test_never_is_never_due() -> None:
    timers = Timers()
    timers.set(A, NEVER)
    assert timers.take_due(1e300) == []
