"""When gangs are looked at although nothing was seen of them."""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.agenda import NEVER, Agenda
from fluence_extender.model.gang import Convention, GangKey

A, B = (GangKey("default", name, Convention.LABEL) for name in "ab")


def test_gang_is_due_once_at_the_earliest_time_asked_for() -> None:
    agenda = Agenda()
    agenda.note(A, 5.0)
    agenda.note(A, 2.0)
    agenda.note(A, 9.0)
    agenda.note(B, 3.0)
    assert agenda.take_due(1.9) == []
    assert agenda.take_due(3.0) == [A, B]
    assert agenda.take_due(100.0) == []


def test_gang_that_was_handed_out_can_be_noted_again() -> None:
    agenda = Agenda()
    agenda.note(A, 1.0)
    assert agenda.take_due(1.0) == [A]
    agenda.note(A, 4.0)
    assert agenda.take_due(5.0) == [A]


def test_never_is_never() -> None:
    agenda = Agenda()
    agenda.note(A, NEVER)
    assert agenda.take_due(1e300) == []
