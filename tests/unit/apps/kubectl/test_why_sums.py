"""The sums that ``why`` shows along with the service's reason, and when it shows none."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from fluence_extender.apps.kubectl.graph import drawn, tree
from fluence_extender.apps.kubectl.why import explanation
from fluence_extender.model.reason import Reason, ReasonCode, busy, unsatisfiable, waiting
from tests.unit.apps.kubectl.test_questions import GIB, STORY, node

NODES = [node("n1", 4), node("n2", 4)]


def answer(reason: Reason, *asks: dict[str, Any]) -> dict[str, str]:
    """Return the text under each heading of the answer; of several, the last one."""
    said = {
        "reason": reason.text,
        "why": reason.code,
        "fitting": reason.fitting,
        "lacking": reason.lacking,
    }
    story = json.loads(json.dumps({**STORY, **said, "asks": asks, "history": []}))
    lines = list(explanation(story, NODES, [], False))[1:]
    return {line[2:12].strip(): line[12:] for line in lines}


@pytest.mark.parametrize(("times", "said"), [(0, []), (1, ["once"]), (3, ["3 times"])])
def test_preemptions_are_told_with_the_last_time(times: int, said: list[str]) -> None:
    story = {**STORY, "preemptions": times, "preempted": "2026-06-30T12:00:00Z"}
    lines = [line.strip() for line in explanation(story, [], [], False)]
    told = [f"preempted {often}, last at 2026-06-30T12:00:00Z" for often in said]
    assert [line for line in lines if line.startswith("preempted")] == told


def ask(members: int, **requests: float) -> dict[str, Any]:
    return {"members": members, "requests": {"pods": 1, **requests}, "devices": {}, "requires": {}}


@pytest.mark.parametrize(
    "reason",
    [
        unsatisfiable("no node may be used (nodes refused: 2 node selector)"),
        unsatisfiable("no single node has 3 cpu and 1 gpu (the nearest has 2 cpu)", 0),
        Reason(ReasonCode.BUSY, "busy: 2 of 4 fit now, short of qpu (backends that match: fez)"),
        waiting(1, 4),
        busy(2, 4, ("example.com/fpga",)),
    ],
)
def test_nothing_is_counted_unless_requested_amounts_of_nodes_are_short(reason: Reason) -> None:
    found = answer(reason, ask(4, cpu=3, memory=GIB))
    assert set(found) <= {"reason", "asks", "free"}


def test_sums_that_agree_with_the_reason_are_shown() -> None:
    found = answer(busy(2, 4, ("cpu",)), ask(4, cpu=3, memory=GIB))
    assert found["fits now"] == "2 of 4 by these amounts: n1 (1), n2 (1)"
    assert found["would fit"] == "4 with at most 2 cpu each"


def test_sums_that_find_more_capacity_than_the_service_are_not_shown() -> None:
    for reason, members in ((busy(1, 4, ("cpu",)), 4), (busy(0, 2, ("cpu",)), 2)):
        assert set(answer(reason, ask(members, cpu=3))) == {"reason", "asks", "free"}


def test_answer_of_an_older_service_has_no_sums() -> None:
    story = {name: value for name, value in STORY.items() if name not in ("fitting", "lacking")}
    assert not any("fits now" in line for line in explanation(story, NODES, [], False))


def test_largest_possible_request_is_shown_for_a_member_too_large_for_any_node() -> None:
    found = answer(
        unsatisfiable("no node has 16 cpu (the largest has 4 cpu)", 0, ("cpu",)), ask(1, cpu=16, memory=GIB)
    )
    assert "fits now" not in found
    assert found["would fit"] == "1 with at most 4 cpu each if nothing else ran"


def test_advice_for_a_gang_that_never_fits_counts_empty_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    full = [node("n1", 4, held=3.9), node("n2", 4, held=3.9)]
    monkeypatch.setattr(sys.modules[__name__], "NODES", full)
    found = answer(unsatisfiable("2 of 4 members would fit", 2, ("cpu",)), ask(4, cpu=3, memory=GIB))
    assert found["would fit"] == "4 with at most 2 cpu each if nothing else ran"


def test_full_nodes_are_not_counted_among_those_with_something_free(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("n1", 4, held=4), node("n2", 4, held=3), node("n3", 4, held=4)]
    monkeypatch.setattr(sys.modules[__name__], "NODES", nodes)
    found = answer(busy(0, 1, ("cpu",)), ask(1, cpu=3, memory=GIB))
    assert found["free"] == "1 cpu, 24Gi memory on 1 of 3 nodes; 2 full"


def test_a_node_is_not_said_to_take_more_members_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "NODES", [node("n1", 5)])
    said = busy(2, 3, ("cpu",))
    stories = {**STORY, "reason": said.text, "why": "Busy", "fitting": 2, "lacking": ["cpu"], "history": []}
    lines = list(explanation({**stories, "asks": [ask(1, cpu=1), ask(2, cpu=4)]}, NODES, [], False))
    assert "  fits now  1 of 1 by these amounts: n1 (1)" in lines


def test_sums_are_shown_if_one_kind_of_members_falls_short() -> None:
    short = answer(busy(2, 5, ("cpu",)), ask(1, cpu=1), ask(4, cpu=3))
    assert short["fits now"].startswith("2 of 4")
    enough = answer(busy(2, 3, ("cpu",)), ask(1, cpu=4), ask(2, cpu=2))
    assert "fits now" not in enough


def test_no_smaller_request_is_suggested_for_what_is_not_short() -> None:
    found = answer(busy(2, 4, ("cpu",)), ask(4, cpu=3, memory=6 * GIB))
    assert "memory each" not in found.get("would fit", "")


def test_pods_of_a_node_that_is_gone_take_nothing_from_other_nodes() -> None:
    gone = node("n3", 4, held=3, problems=["the node is gone; these pods were there"])
    gone.update(allocatable={}, free={"cpu": -3})
    lines = list(drawn(tree([node("n1", 4, held=1, levels={"zone": "z"}), gone]), []))
    assert " 1/4 " in lines[0]
    assert lines[3].startswith("└─ n3")
    assert lines[3].endswith("the node is gone; these pods were there")
    total = tree([node("n1", 4, held=1), gone]).json()
    assert (total["free"]["cpu"], total["held"]["cpu"]) == (3, 1)
