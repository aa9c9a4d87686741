"""One order for everything that waits."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.queueing.entry import Entry
from fluence_extender.queueing.order import WaitingEntries, rank
from tests.queueing.values import entry

entries = st.builds(
    lambda key, priority, at, number, begun: replace(
        entry(key, priority=priority), created=(at, number), begun=begun
    ),
    st.sampled_from("abcdef"),
    st.integers(-1, 1),
    st.sampled_from([1.0, 2.0]),
    st.integers(0, 2),
    st.booleans(),
)


def test_what_has_begun_comes_before_priority_and_priority_before_age() -> None:
    waiting = WaitingEntries()
    waiting.put(entry("young", at=5))
    waiting.put(entry("old", at=1))
    waiting.put(entry("important", priority=9, at=7))
    waiting.put(replace(entry("begun", priority=-1, at=9), begun=True))
    assert [one.key for one in waiting.in_order()] == ["begun", "important", "old", "young"]
    assert [one.key for one in waiting.in_order(2)] == ["begun", "important"]


def test_entries_of_the_same_second_are_served_as_they_were_created() -> None:
    first, second = replace(entry("z"), created=(5.0, 17)), replace(entry("a"), created=(5.0, 18))
    assert rank(first) < rank(second)


@given(st.lists(st.tuples(entries, st.booleans())))
def test_entries_stay_sorted_whatever_comes_and_goes(history: list[tuple[Entry, bool]]) -> None:
    waiting = WaitingEntries()
    expected: dict[str, Entry] = {}
    for one, leaves in history:
        if leaves:
            assert waiting.remove(one.key) is expected.pop(one.key, None)
        else:
            waiting.put(one)
            expected[one.key] = one
    assert waiting.in_order() == sorted(expected.values(), key=rank)
    assert len(waiting) == len(expected)
