"""The states of a member: the transition table, the data of each state, the history and the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.lifecycle.member_states import (
    BINDING,
    BOUND,
    DATA,
    ENDED,
    MOVABLE,
    NOT_BOUND,
    PLACED,
    PLANNED,
    STEERED,
    TRANSITIONS,
    WAITING,
    Bound,
    ImpossibleTransition,
    MemberEvent,
    MemberState,
    Placed,
    end_binding,
    move,
    steer_again,
    update,
)
from fluence_extender.gangs.membership.conventions.membership import alone
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.assignment import Assignment
from tests.core.values import pod

DOCS = Path(__file__).parents[3] / "docs" / "gangs.md"
FROM_MOST = 5
"""An event that leads from so many states to one state is listed below the diagram."""

USUAL = (
    (BINDING, MemberEvent.BIND_SUCCEEDED),
    (BINDING, MemberEvent.SEEN_BOUND),
    (BOUND, MemberEvent.END),
)
"""The diagram shows these transitions in any case."""

ON_BOUND = {MemberEvent.SEEN_BOUND, MemberEvent.TAKEN_OVER, MemberEvent.BIND_SUCCEEDED}


def lone_member() -> tuple[Gang, Member]:
    one = pod()
    member = Member(one, alone(one))
    return Gang(member.membership.key, {one.uid: member}), member


def apply(gang: Gang, member: Member, event: MemberEvent) -> None:
    """Apply ``event`` with what it needs."""
    place = Assignment(member.pod.uid, "n0")
    if event in (MemberEvent.PLAN, MemberEvent.RESUME):
        move(gang, member, event, place)
    elif event in ON_BOUND and TRANSITIONS[member.state, event] is BOUND:
        move(gang, member, event, place, "to n0", node="n0")
    else:
        move(gang, member, event)


def after(*events: MemberEvent) -> tuple[Gang, Member]:
    gang, member = lone_member()
    for event in events:
        apply(gang, member, event)
    return gang, member


def test_every_state_can_be_reached_and_left_but_for_the_end() -> None:
    assert {state for state, _ in TRANSITIONS} == set(MemberState)
    reached, found = set[MemberState](), {WAITING}
    while found - reached:
        reached |= found
        found = {after for (before, _), after in TRANSITIONS.items() if before in reached}
    assert reached == set(MemberState)


def test_every_event_changes_some_state() -> None:
    assert {event for (before, event), after in TRANSITIONS.items() if before is not after} == set(
        MemberEvent
    )


def test_place_with_a_binding_under_way_is_not_dropped() -> None:
    for state in (BINDING, BOUND, ENDED):
        assert (state, MemberEvent.DROP) not in TRANSITIONS
    assert all(TRANSITIONS[state, MemberEvent.DROP] is WAITING for state in MOVABLE)


def test_event_that_the_state_excludes_is_an_error() -> None:
    gang, member = after(MemberEvent.SEEN_BOUND)
    with pytest.raises(ImpossibleTransition, match="is bound, which excludes that a place is planned"):
        apply(gang, member, MemberEvent.PLAN)


def test_usual_life() -> None:
    gang, member = lone_member()
    states = []
    for event in (
        MemberEvent.PLAN,
        MemberEvent.STEER,
        MemberEvent.BIND,
        MemberEvent.BIND_SUCCEEDED,
        MemberEvent.SEEN_BOUND,
        MemberEvent.END,
    ):
        apply(gang, member, event)
        states.append(member.state)
    assert states == [PLANNED, STEERED, BINDING, BOUND, BOUND, ENDED]
    entries = [(entry.kind.value, entry.detail) for entry in gang.history.entries]
    assert entries == [("bound", "to n0"), ("released", "")]


def test_data_that_both_states_have_goes_on() -> None:
    gang, member = after(MemberEvent.PLAN, MemberEvent.STEER)
    update(member, requested_at=3.0, nomination_seen=True)
    apply(gang, member, MemberEvent.BIND)
    assert member.state is BINDING
    end_binding(gang, member, MemberEvent.BIND_FAILED)
    assert (member.state, member.data) == (STEERED, Placed(nomination_seen=True, requested_at=3.0))
    apply(gang, member, MemberEvent.SEEN_BOUND)
    assert member.data == Bound("n0")


def test_node_is_written_again_after_a_binding_during_which_its_nomination_was_cleared() -> None:
    gang, member = after(MemberEvent.PLAN, MemberEvent.STEER, MemberEvent.BIND)
    steer_again(gang, member, MemberEvent.NOMINATION_CLEARED)
    assert member.state is BINDING
    end_binding(gang, member, MemberEvent.BIND_FAILED, unbound="quota")
    assert (member.state, member.unbound) == (PLANNED, "quota")


@given(st.lists(st.sampled_from(list(MemberEvent)), max_size=30))
def test_each_state_has_its_data_and_a_place_only_if_it_is_placed(events: list[MemberEvent]) -> None:
    gang, member = lone_member()
    for event in events:
        if (member.state, event) not in TRANSITIONS:
            with pytest.raises(ImpossibleTransition):
                apply(gang, member, event)
            continue
        apply(gang, member, event)
        assert type(member.data) is DATA[member.state]
        if member.state in PLACED:
            assert member.assignment is not None
        elif member.state in (WAITING, ENDED):
            assert member.assignment is None
        assert (member.state in NOT_BOUND) == (not member.bound and member.state is not ENDED)


def documentation() -> str:
    """The table as the documentation shows it, in Markdown.

    A Mermaid diagram shows the transitions between different states. Events that lead from most states to one would
    clutter it, so they are listed below it.
    """
    edges: dict[tuple[MemberState, MemberState], list[str]] = {}
    sources: dict[tuple[MemberEvent, MemberState], list[MemberState]] = {}
    for (before, event), after in TRANSITIONS.items():
        if before is not after:
            sources.setdefault((event, after), []).append(before)
    for (event, after), states in sources.items():
        for before in states if len(states) < FROM_MOST else [one for one in states if (one, event) in USUAL]:
            edges.setdefault((before, after), []).append(event.value)
    order = list(MemberState)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {WAITING.name}"]
    lines += [f"    {state.name}: {state.value}" for state in order]
    for (before, after), events in sorted(
        edges.items(), key=lambda edge: [order.index(one) for one in edge[0]]
    ):
        lines.append(f"    {before.name} --> {after.name}: {' / '.join(events)}")
    lines += [f"    {ENDED.name} --> [*]", "```", "", "| event | from | to |", "|---|---|---|"]
    for (event, after), states in sources.items():
        if len(states) >= FROM_MOST:
            from_all = len(states) == len(order) - 1
            names = "every other state" if from_all else ", ".join(one for one in order if one in states)
            lines.append(f"| {event} | {names} | {after} |")
    return "\n".join(lines)


def test_documentation_shows_the_table() -> None:
    assert documentation() in DOCS.read_text(encoding="utf-8")
