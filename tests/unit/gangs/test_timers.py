"""Timers: when gangs are looked at although nothing was observed of them."""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.deadlines import GangIndex
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import Convention, GangKey

A, B = (GangKey("default", name, Convention.LABEL) for name in "ab")


def index() -> GangIndex:
    return GangIndex(Registry(), Limits())


def test_gang_is_due_once_at_the_earliest_requested_time() -> None:
    timers = index()
    timers.look_at(A, 5.0)
    timers.look_at(A, 2.0)
    timers.look_at(A, 9.0)
    timers.look_at(B, 3.0)
    assert timers.take_due(1.9) == set()
    assert timers.take_due(3.0) == {A, B}
    assert timers.take_due(100.0) == set()


def test_timer_that_was_due_can_be_set_again() -> None:
    timers = index()
    timers.look_at(A, 1.0)
    assert timers.take_due(1.0) == {A}
    timers.look_at(A, 4.0)
    assert timers.take_due(5.0) == {A}


def test_never_is_never_due() -> None:
    timers = index()
    timers.look_at(A, NEVER)
    assert timers.take_due(1e300) == set()
