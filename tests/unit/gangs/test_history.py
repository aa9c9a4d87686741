"""What a gang's history says, and that it stays short."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.reporting import history as module
from fluence_extender.gangs.reporting.history import KEPT, KEPT_FIRST, History
from fluence_extender.gangs.reporting.past_gangs import REMEMBERED, REMEMBERED_FOR, PastGangs
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.pod import Pod
from tests.core.values import node
from tests.unit.gangs.conftest import MakeWorld, gang


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def told(history: History) -> list[tuple[str, str, str, int]]:
    return [(one.kind.value, one.pod, one.detail, one.count) for one in history.entries]


def test_each_member_of_a_small_gang_has_entries_of_its_own() -> None:
    history = History(Clock())
    for pod in ("a", "b"):
        history.note(HistoryKind.BOUND, pod, f"to n-{pod}", members=2)
    assert told(history) == [("bound", "a", "to n-a", 1), ("bound", "b", "to n-b", 1)]
    assert [one.at for one in history.entries] == [1001, 1002]


def test_members_of_a_large_gang_share_entries_that_count_them() -> None:
    history = History(Clock())
    for number in range(500):
        history.note(HistoryKind.STEERED, f"p-{number}", "to n1", members=500)
        history.note(HistoryKind.BOUND, f"p-{number}", f"to n-{number}", members=500)
    assert told(history) == [("steered", "", "to n1", 500), ("bound", "", "", 500)]
    assert (history.entries[0].at, history.entries[0].until) == (1001, 1999)
    assert history.noted == 1000


def test_what_happens_again_is_counted_until_the_plan_changes() -> None:
    history = History(Clock())
    history.note(HistoryKind.PLANNED, "", "on n1")
    for _ in range(3):
        history.note(HistoryKind.FILTERED, "p", "n1")
    history.note(HistoryKind.PLANNED, "", "on n2")
    history.note(HistoryKind.FILTERED, "p", "n2")
    history.note(HistoryKind.FILTERED, "p", "n1")
    assert [(what, count) for what, _, _, count in told(history)] == [
        ("planned", 1),
        ("filtered", 3),
        ("planned", 1),
        ("filtered", 1),
        ("filtered", 1),
    ]


def test_a_reason_that_only_counts_on_is_one_entry() -> None:
    history = History(Clock())
    for present in range(1, 8):
        history.wait("WaitingForMembers", f"waiting for members ({present} of 8 exist)")
    history.wait("WaitingForMembers", "waiting for members (7 of 8 exist)")
    history.wait("Busy", "busy")
    assert told(history) == [
        ("waiting", "", "waiting for members (7 of 8 exist)", 7),
        ("waiting", "", "busy", 1),
    ]


def test_a_long_history_keeps_its_beginning_and_its_end() -> None:
    history = History(Clock())
    for number in range(1000):
        history.note(HistoryKind.PLANNED, "", f"on n{number}")
    details = [one.detail for one in history.entries]
    assert len(details) == KEPT
    assert details[:KEPT_FIRST] == [f"on n{number}" for number in range(KEPT_FIRST)]
    assert details[-1] == "on n999"
    assert history.forgotten == 1000 - KEPT
    history.note(HistoryKind.FAILED, "p", "x" * 10_000)
    assert len(history.entries[-1].detail) == module.LONGEST_DETAIL


def test_an_entry_that_was_dropped_is_not_counted_on() -> None:
    history = History(Clock())
    for number in range(KEPT + KEPT_FIRST):
        history.note(HistoryKind.FAILED, "p", f"fault {number}")
    history.note(HistoryKind.FAILED, "p", f"fault {KEPT_FIRST}")
    assert history.entries[-1].detail == f"fault {KEPT_FIRST}"


def past(name: str, clock: Clock) -> Gang:
    """A gang with one entry in its history, which is its name."""
    gone = Gang(GangKey("default", name, Convention.ALONE), history=History(clock))
    gone.note(HistoryKind.SEEN, name)
    return gone


def story(memory: PastGangs, name: str) -> list[str]:
    """What is in the history with which a gang of that name begins."""
    key, pod = GangKey("default", name, Convention.ALONE), Pod("default", name, name)
    return [one.pod for one in memory.history_of(key, pod).entries]


def test_gangs_that_are_gone_are_remembered_for_a_while() -> None:
    clock = Clock()
    memory = PastGangs(clock)
    gone = past("a", clock)
    memory.keep(gone)
    assert [one.gang for one in memory] == [gone]
    found = memory.get(gone.key)
    assert found is not None
    assert found.gang is gone
    clock.now += REMEMBERED_FOR
    assert memory.get(gone.key) is None
    assert list(memory) == []
    memory.keep(past("b", clock))
    assert story(memory, "a") == []
    assert story(memory, "b") == ["b"]
    assert story(memory, "b") == []


def test_no_more_than_a_number_of_gangs_is_remembered() -> None:
    clock = Clock()
    memory = PastGangs(clock)
    for number in range(REMEMBERED + 5):
        memory.keep(past(f"{number}", clock))
    assert [one.gang.key.name for one in memory] == [f"{number}" for number in range(5, REMEMBERED + 5)]


def test_what_is_left_to_heirs_is_forgotten_with_the_gangs() -> None:
    clock = Clock()
    memory, line = PastGangs(clock), ("default", "uid-of-j", "0")
    for number in range(REMEMBERED + 5):
        memory.keep(past(f"{number}", clock), line)
    assert [key.name for key in memory._heirless] == [f"{number}" for number in range(5, REMEMBERED + 5)]
    clock.now += REMEMBERED_FOR
    assert list(memory) == []
    assert not memory._heirless


def test_history_that_goes_on_stays_short() -> None:
    clock = Clock()
    before, history = History(clock), History(clock)
    for number in range(KEPT):
        before.note(HistoryKind.PLANNED, "", f"on n{number}")
        history.note(HistoryKind.PLANNED, "", f"on m{number}")
    history.follow(before)
    assert len(history.entries) == KEPT
    assert history.forgotten == KEPT
    assert [one.at for one in history.entries] == sorted(one.at for one in history.entries)
    assert history.entries[-1].detail == f"on m{KEPT - 1}"


def test_history_covers_the_life_of_a_gang_from_its_first_pod_to_its_last(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), direct=False)
    pods = gang(w, "g", 3000, 3000)
    w.advance(5)
    story = w.state.gang("default", "g", "", EVERYTHING)
    assert story is not None
    assert [(one.what, one.pod) for one in story.item.history if one.what not in ("filtered", "steered")] == [
        ("seen", "g-0"),
        ("seen", "g-1"),
        ("whole", ""),
        ("planned", ""),
        ("committed", ""),
        *[("bound", one.pod) for one in story.item.history if one.what == "bound"],
        ("complete", ""),
    ]
    assert {one.pod for one in story.item.history if one.what == "bound"} == {"g-0", "g-1"}
    assert {one.pod for one in story.item.history if one.what == "steered"} == {"g-0", "g-1"}
    assert {one.pod for one in story.item.history if one.what == "filtered"} == {"g-0", "g-1"}
    assert [one.detail for one in story.item.history if one.what == "planned"] == ["on n0, n1"]
    for pod in pods:
        w.cluster.remove(w.now(pod))
    w.advance(1)
    story = w.state.gang("default", "g", "", EVERYTHING)
    assert story is not None
    assert (story.item.state, story.item.members) == ("gone", ())
    assert (story.item.reason, story.item.former) == ("its pods are gone", ("g-0", "g-1"))
    assert [one.what for one in story.item.history][-3:] == ["released", "released", "gone"]
    gang(w, "g", 1000)
    w.advance(1)
    story = w.state.gang("default", "g", "", EVERYTHING)
    assert story is not None
    assert (story.item.state, story.item.size) == ("bound", 1)
    assert "gone" in [one.what for one in story.item.history]


def test_history_has_waits_refusals_and_the_end(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = gang(w, "g", 1000, size=2)[0]
    w.advance(1)
    story = w.state.gang("default", "g", "", EVERYTHING)
    assert story is not None
    assert (story.item.history[-1].what, story.item.history[-1].detail) == (
        "waiting",
        "waiting for members (1 of 2 exist)",
    )
    other = w.pod("g-1", labels=one.labels, annotations=one.annotations, requests=one.requests)
    w.advance(1)
    w.placements.refused(w.asked(other), "n0")
    w.change(one, phase="Failed")
    w.change(other, phase="Succeeded")
    w.advance(1)
    story = w.state.gang("default", "g", "", EVERYTHING)
    assert story is not None
    told_ = [(entry.what, entry.pod, entry.detail) for entry in story.item.history]
    assert ("refused", "g-1", "n0: not offered") in told_
    assert ("released", "g-0", "the pod has failed") in told_
    assert ("released", "g-1", "the pod has succeeded") in told_
    assert told_[-1][0] == "finished"


def test_history_after_a_restart_has_what_was_bound_before(world: MakeWorld) -> None:
    w = world(node("n0"))
    gang(w, "g", 1000)
    w.advance(5)
    w.restart()
    w.advance(1)
    story = w.state.gang("default", "g", "", EVERYTHING)
    assert story is not None
    assert [(one.what, one.detail) for one in story.item.history][1] == (
        "taken-over",
        "bound to n0 before this service started",
    )


@pytest.mark.parametrize("convention", ["", Convention.ALONE, Convention.LABEL])
def test_namesakes_are_told_apart_by_their_convention(convention: str, world: MakeWorld) -> None:
    w = world(node("n0"))
    gang(w, "twin", 1000)
    w.pod("twin")
    w.advance(3)
    story = w.state.gang("default", "twin", convention, EVERYTHING)
    assert story is not None
    assert story.item.convention == (convention or Convention.LABEL)
    assert w.state.gang("default", "twin", Convention.POD_GROUP, EVERYTHING) is None
