"""Gangs are served in one order: promised ones first, then by priority and age; preemptors by priority and age."""

from __future__ import annotations

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.preemptions import PreemptorDemand, behind, devices_held_for
from fluence_extender.gangs.queue.submissions import precedence, turn
from fluence_extender.kinds.membership import alone
from fluence_extender.model.gang import GangState
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.room.holds import HeldNodes, HoldKind
from fluence_extender.room.records import PlaceRecord
from tests.core.values import node, pod
from tests.unit.gangs.conftest import MakeWorld, gang


def one(name: str, priority: int = 0, created: float = 0.0, begun: bool = False) -> Gang:
    member = pod(name, priority=priority, created=created)
    membership = alone(member)
    made = Member(member, membership, record=PlaceRecord(membership.key, 1), accepted="n0" if begun else "")
    return Gang(membership.key, {member.uid: made})


def names(gangs: list[Gang]) -> list[str]:
    return [gang.key.name for gang in gangs]


def test_gangs_are_ordered_by_priority_and_then_by_age() -> None:
    gangs = [one("young", created=9), one("b", created=5), one("a", created=5), one("high", 10, created=20)]
    assert names(sorted(gangs, key=precedence)) == ["high", "a", "b", "young"]
    assert names(sorted(gangs, key=turn)) == ["high", "a", "b", "young"]


def test_promised_gangs_are_tried_first_but_have_no_precedence_over_preemptors() -> None:
    high, begun, committed = one("high", 10), one("begun", 1, begun=True), one("committed")
    committed.state = GangState.COMMITTED
    gangs = [high, committed, begun]
    assert names(sorted(gangs, key=turn)) == ["begun", "committed", "high"]
    assert names(sorted(gangs, key=precedence)) == ["high", "begun", "committed"]


def test_reasons_name_the_preemptor_that_comes_first() -> None:
    older, newer = one("z", 5, created=1), one("a", 5, created=2)
    holds = HeldNodes()
    preemptors = {}
    for preemptor in (newer, older):
        holds.hold(HoldKind.PREEMPTION, preemptor.key, {"n0"})
        preemptors[preemptor.key] = PreemptorDemand(
            order=precedence(preemptor), priority=5, device_types=frozenset({"qpu"})
        )
    busy = Reason(ReasonCode.BUSY, "busy", 1, ("cpu",))
    reason = behind(busy, older.key._replace(name="m"), preemptors, (), holds)
    text = f"busy; behind {older.key} (priority 5)"
    assert reason.text == reason.full_text == text
    assert (reason.fitting, reason.lacking) == (1, ("cpu",))
    conflict = devices_held_for({"qpu"}, older.key.namespace, preemptors, lambda key: True)
    assert conflict is not None
    assert conflict.text == f"busy: qpu held for {older.key} (priority 5)"


def test_gang_whose_turn_comes_last_moves_off_a_node_that_others_have_taken(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    older, newer = gang(w, "z", 2000, gates=()), gang(w, "a", 2000, gates=())
    w.advance(1)
    w.foreign("n0", "thief", requests=older[0].requests)
    w.advance(1)
    assert [w.member(one.uid).assignment is not None for one in (*older, *newer)] == [True, False]
