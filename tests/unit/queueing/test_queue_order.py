"""One order for everything that waits."""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.queueing.order import rank
from tests.queueing.values import entry


def test_what_has_begun_comes_before_priority_and_priority_before_age() -> None:
    waiting = [
        entry("young", at=5),
        entry("old", at=1),
        entry("important", priority=9, at=7),
        replace(entry("begun", priority=-1, at=9), begun=True),
    ]
    assert [one.key for one in sorted(waiting, key=rank)] == ["begun", "important", "old", "young"]


def test_entries_of_the_same_second_are_served_as_they_were_created() -> None:
    first, second = replace(entry("z"), created=(5.0, 17)), replace(entry("a"), created=(5.0, 18))
    assert rank(first) < rank(second)
