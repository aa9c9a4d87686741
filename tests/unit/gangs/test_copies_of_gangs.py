"""A copy of a gang stays as it is while the gang changes, and the gang notes that it has changed."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.kinds.membership import alone
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey, GangState
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.values import pod

PODS = [pod(f"p{number}") for number in range(3)]
UIDS = st.sampled_from([one.uid for one in PODS])

Change = Callable[[Gang], object]

CHANGES: st.SearchStrategy[Change] = st.one_of(
    UIDS.map(lambda uid: lambda gang: uid in gang.members and gang.place(uid, Assignment(uid, "n0"))),
    UIDS.map(lambda uid: lambda gang: uid in gang.members and gang.change(uid, held_node="n1")),
    UIDS.map(lambda uid: lambda gang: uid in gang.members and gang.unplace(uid)),
    UIDS.map(lambda uid: lambda gang: uid in gang.members and gang.remove(uid)),
    st.sampled_from(PODS).map(lambda one: lambda gang: gang.put(Member(one, alone(one)))),
    st.floats(0, 9).map(
        lambda now: lambda gang: gang.explain(Reason(ReasonCode.BUSY, f"busy at {now}"), now)
    ),
    st.sampled_from(GangState).map(lambda state: lambda gang: setattr(gang, "state", state)),
)


def new_gang() -> Gang:
    return Gang(alone(PODS[0]).key, {one.uid: Member(one, alone(one)) for one in PODS})


def shown(gang: Gang) -> object:
    return dict(gang.members), gang.memory, gang.state


@given(st.lists(st.tuples(st.integers(0, 2), CHANGES), max_size=12))
def test_each_of_several_copies_changes_alone(changes: list[tuple[int, Change]]) -> None:
    gang = new_gang()
    copies = [gang, gang.copy(), gang.copy().copy()]
    for at, change in changes:
        others = [shown(one) for number, one in enumerate(copies) if number != at]
        change(copies[at])
        assert [shown(one) for number, one in enumerate(copies) if number != at] == others


@given(st.lists(CHANGES, max_size=12))
def test_gang_that_differs_from_its_copy_has_noted_that_it_changed(changes: list[Change]) -> None:
    gang, changed = new_gang(), set[GangKey]()
    gang.uncopied = changed
    changed.clear()
    before = gang.copy()
    for change in changes:
        change(gang)
        assert changed or shown(gang) == shown(before)


def test_what_was_announced_is_not_noted_as_a_change() -> None:
    gang, changed = new_gang(), set[GangKey]()
    gang.uncopied = changed
    changed.clear()
    gang.remember(announced="busy", job_problem="", starting=True)
    assert gang.memory.announced == "busy"
    assert changed == set()
    gang.remember(again_at=3.0)
    assert changed == {gang.key}
