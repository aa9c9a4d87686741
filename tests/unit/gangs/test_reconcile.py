"""What is written for a pod, given where it is to be and what was written last, and what the documentation says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.execution.actions import Bind, Evict, Nominate, Steer
from fluence_extender.gangs.lifecycle.reconcile import (
    NOTHING_WRITTEN,
    RULES,
    UNANSWERED,
    Wanted,
    Written,
    after,
    is_cleared,
    reconcile,
)
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.kinds.membership import alone
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, GATE
from fluence_extender.model.pod import Pod
from fluence_extender.room.records import PlaceRecord
from tests.core.values import pod

DOCS = Path(__file__).parents[3] / "docs" / "gangs.md"
NODES = ("", "n0", "n1")


def filtered(**fields: Any) -> Pod:
    return replace(pod("p"), gates=(GATE,), resource_version="10", **fields)


def direct(**fields: Any) -> Pod:
    return replace(filtered(**fields), scheduler=DIRECT_SCHEDULER_NAME, gates=())


def lone_gang(one: Pod) -> tuple[Gang, str]:
    """Return a gang with that pod as its only member, and the pod's uid."""
    return Gang(alone(one).key, {one.uid: Member(one, alone(one))}), one.uid


def bound_to(member: Member, node: str) -> Member:
    """Return a copy of the member to which the API server has accepted our Binding."""
    return msgspec.structs.replace(member, accepted=node)


def test_gated_pod_with_a_place_is_nominated_and_ungated_once() -> None:
    waiting = filtered()
    action = reconcile(waiting, Wanted("n0"), NOTHING_WRITTEN)
    assert action == Steer(waiting, "n0")
    written = after(NOTHING_WRITTEN, action)
    assert reconcile(waiting, Wanted("n0"), written) is None
    told = replace(waiting, nominated="n0", gates=(), resource_version="12")
    assert reconcile(told, Wanted("n0"), replace(written, revision=12)) is None


def test_direct_pod_with_a_place_is_bound_once_its_gang_may_start() -> None:
    waiting = direct()
    assert reconcile(waiting, Wanted("n0", may_start=False), NOTHING_WRITTEN) is None
    action = reconcile(waiting, Wanted("n0"), NOTHING_WRITTEN)
    assert action == Bind(waiting, "n0")
    written = after(NOTHING_WRITTEN, action)
    assert written.binding
    assert reconcile(waiting, Wanted("n0"), written) is None


def test_pod_whose_place_has_changed_is_told_the_new_one_although_a_write_is_under_way() -> None:
    waiting = filtered()
    written = after(NOTHING_WRITTEN, Steer(waiting, "n0"))
    assert reconcile(waiting, Wanted("n1"), written) == Steer(waiting, "n1")


def test_nomination_without_a_place_is_cleared_once_and_again_if_it_comes_back() -> None:
    nominated = filtered(nominated="n0")
    action = reconcile(nominated, Wanted(), NOTHING_WRITTEN)
    assert action == Nominate(nominated, "")
    written = after(NOTHING_WRITTEN, action)
    assert reconcile(nominated, Wanted(), written) is None
    answered = replace(written, revision=12)
    assert reconcile(replace(nominated, resource_version="11"), Wanted(), answered) is None
    back = replace(nominated, resource_version="13")
    assert reconcile(back, Wanted(), answered) == Nominate(back, "")


def test_nomination_for_the_node_that_is_held_stays() -> None:
    nominated = filtered(nominated="n0")
    assert reconcile(nominated, Wanted(held="n0"), NOTHING_WRITTEN) is None
    assert reconcile(nominated, Wanted(held="n1"), NOTHING_WRITTEN) == Nominate(nominated, "")


def test_pod_is_nominated_once_for_the_node_that_is_held_for_it_and_keeps_its_gate() -> None:
    waiting = filtered()
    action = reconcile(waiting, Wanted(held="n0"), NOTHING_WRITTEN)
    assert action == Nominate(waiting, "n0")
    written = after(NOTHING_WRITTEN, action)
    assert reconcile(waiting, Wanted(held="n0"), written) is None
    lost = replace(waiting, resource_version="13")
    assert reconcile(lost, Wanted(held="n0"), replace(written, revision=12)) == Nominate(lost, "n0")
    assert reconcile(replace(waiting, gates=()), Wanted(held="n0"), NOTHING_WRITTEN) is None


def test_bound_pod_is_evicted_only_with_its_gang() -> None:
    bound = replace(filtered(node="n0"), gates=())
    assert reconcile(bound, Wanted("n0", bound="n0"), NOTHING_WRITTEN) is None
    assert reconcile(bound, Wanted("n0", bound="n0", undone="why"), NOTHING_WRITTEN) == Evict(bound, "why")


def test_cleared_nomination_is_one_only_after_the_watch_has_shown_the_write() -> None:
    written = Written("n0", revision=12)
    gone = replace(filtered(), gates=(), resource_version="13")
    assert is_cleared(gone, "n0", written)
    assert not is_cleared(replace(gone, nominated="n0"), "n0", written)
    assert not is_cleared(replace(gone, resource_version="11"), "n0", written)
    assert not is_cleared(gone, "n0", replace(written, revision=UNANSWERED))
    assert not is_cleared(gone, "n1", written)
    assert not is_cleared(replace(gone, scheduler=DIRECT_SCHEDULER_NAME), "n0", written)


PODS = st.builds(
    filtered,
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    deleting=st.booleans(),
    nominated=st.sampled_from(NODES),
    expected=st.booleans(),
).flatmap(lambda one: st.sampled_from((one, replace(one, scheduler=DIRECT_SCHEDULER_NAME, gates=()))))
WANTED = st.builds(
    Wanted, st.sampled_from(NODES), st.sampled_from(NODES), st.sampled_from(NODES), st.booleans()
)
WRITTEN = st.builds(
    Written,
    st.sampled_from((None, *NODES)),
    st.sampled_from((0, 11, UNANSWERED)),
    binding=st.booleans(),
)


@given(PODS, WANTED, WRITTEN)
def test_a_write_is_decided_once_and_never_for_a_pod_that_is_bound_or_over(
    one: Pod, wanted: Wanted, written: Written
) -> None:
    action = reconcile(one, wanted, written)
    if one.finished or wanted.bound or one.expected:
        assert action is None
    if action is not None:
        assert reconcile(one, wanted, after(written, action)) is None
    if isinstance(action, Bind | Steer):
        assert action.node == wanted.node != written.node
        assert wanted.may_start
        assert isinstance(action, Bind) == one.direct


@given(PODS, WANTED, WRITTEN, st.integers(11, 99))
def test_when_all_is_written_and_shown_nothing_is_left_to_do(
    one: Pod, wanted: Wanted, written: Written, revision: int
) -> None:
    action = reconcile(one, wanted, written)
    if isinstance(action, Steer | Nominate):
        node = action.node
        gates = one.gates if isinstance(action, Nominate) else ()
        shown = replace(one, nominated=node, gates=gates, resource_version=str(revision))
        answered = replace(after(written, action), revision=revision)
        assert reconcile(shown, wanted, answered) is None
        assert not is_cleared(shown, wanted.node, answered)


# Members.


def test_place_with_a_binding_under_way_is_not_movable() -> None:
    gang, uid = lone_gang(direct())
    member = gang.place(uid, Assignment(uid, "n0"))
    before = member.movable, member.binding
    member = gang.change(uid, written=after(member.written, Bind(member.pod, "n0")))
    assert (before, (member.movable, member.binding)) == ((True, False), (False, True))
    bound = bound_to(member, "n0")
    assert (bound.bound, bound.binding, bound.movable, bound.pending) == ("n0", False, False, False)


def test_taking_a_place_back_forgets_what_was_written_for_it() -> None:
    gang, uid = lone_gang(filtered())
    gang.place(uid, Assignment(uid, "n0"))
    gang.change(uid, written=Written("n0", revision=12, at=3.0, failure="quota", ours=True, cleared=9))
    member = gang.unplace(uid)
    assert (member.assignment, member.record, member.binding_failure) == (None, None, "")
    assert member.written == Written(ours=True, cleared=9)


def test_failed_binding_of_a_direct_pod_is_repeated_where_it_is_made() -> None:
    for one, again in ((direct(), False), (filtered(), True)):
        gang, uid = lone_gang(one)
        gang.place(uid, Assignment(uid, "n0"))
        gang.change(uid, written=Written("n0", revision=12, binding=True))
        gang.write_again(uid)
        assert gang.members[uid].steered is not again


def test_resumed_place_counts_as_written() -> None:
    one = replace(filtered(nominated="n0"), gates=())
    gang, uid = lone_gang(one)
    member = gang.restore(uid, Assignment(uid, "n0"))
    assert member.steered
    assert member.record == PlaceRecord(gang.key, gang.size, gang.queue)
    assert is_cleared(replace(one, nominated="", resource_version="11"), "n0", member.written)


def test_member_is_steered_for_a_standby_if_its_pod_has_a_nomination_and_no_gate() -> None:
    gated = filtered(nominated="n0")
    for one, steered_to in ((gated, ""), (replace(gated, gates=()), "n0")):
        gang, uid = lone_gang(one)
        assert gang.members[uid].steered_to == steered_to


# Documentation.


def documentation() -> str:
    rows = [f"| {rule.when} | {rule.then} |" for rule in RULES]
    return "\n".join(["| the pod | what is written |", "|---|---|", *rows])


def test_documentation_shows_the_rules() -> None:
    assert documentation() in DOCS.read_text(encoding="utf-8")
