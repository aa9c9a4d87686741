"""One order for everything that waits."""

from __future__ import annotations

from fluence_extender.queueing.entry import EQUAL, Age, Rank, rank


def ranked(key: str, priority: int = 0, created: Age = (0.0, 0), begun: bool = False) -> Rank:
    """Return the rank of an entry of a queue like all others."""
    return rank(begun, EQUAL, priority, created, key)


def test_what_has_begun_comes_before_priority_and_priority_before_age() -> None:
    waiting = [
        ranked("young", created=(5.0, 0)),
        ranked("old", created=(1.0, 0)),
        ranked("important", priority=9, created=(7.0, 0)),
        ranked("begun", priority=-1, created=(9.0, 0), begun=True),
    ]
    assert [one[-1] for one in sorted(waiting)] == ["begun", "important", "old", "young"]


def test_entries_of_the_same_second_are_served_as_they_were_created() -> None:
    assert ranked("z", created=(5.0, 17)) < ranked("a", created=(5.0, 18))
