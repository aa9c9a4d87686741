"""What users are told unasked."""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import GATE, GROUP_SIZE_ANNOTATION
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld, gang


def test_reason_is_announced_once_it_has_stood_for_a_moment(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 1000, size=3)
    w.advance(1)
    assert w.told() == []
    w.advance(2)
    assert w.told() == ["gang default/g: waiting for members (1 of 3 exist)"]
    assert w.cluster.events[0].reason == "WaitingForMembers"
    assert w.cluster.events[0].regarding.name == "g-0"


def test_same_reason_is_announced_once(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 9000)
    for number in range(10):
        w.foreign("n0", f"f{number}", requests=asks(10))
        w.advance(5)
    assert [event.count for event in w.cluster.events] == [1]


def test_gang_that_becomes_whole_in_time_leaves_no_trail(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 100, size=3)
    for _ in range(2):
        w.advance(0.5)
        w.pod(
            f"g-late-{len(w.cluster.pods())}",
            labels=pods[0].labels,
            annotations=pods[0].annotations,
            gates=(GATE,),
            requests=asks(100),
        )
    w.advance(3)
    assert w.told() == []
    assert all(pod.nominated == "n0" for pod in w.cluster.pods())


def test_first_members_speak_for_a_large_gang(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False, limits=Limits(announced_members=3))
    gang(w, "g", *[100] * 12, size=99)
    w.advance(3)
    assert [event.regarding.name for event in w.cluster.events] == ["g-0", "g-1", "g-2"]


def test_condition_of_gated_members_says_why_they_wait(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False, limits=Limits(announced_members=2))
    pods = gang(w, "g", 100, 100, 100, size=4)
    ungated = w.pod("late", labels=pods[0].labels, annotations={GROUP_SIZE_ANNOTATION: "5"})
    w.advance(3)
    (told,) = set(w.cluster.waiting.values())
    assert told.startswith("gang default/g: members of gang default/g disagree on its size")
    assert set(w.cluster.waiting) == {pods[0].uid, pods[1].uid}
    w.cluster.remove(ungated)
    w.advance(3)
    assert w.cluster.waiting[pods[0].uid] == "gang default/g: waiting for members (3 of 4 exist)"


def test_pod_group_shows_whether_it_is_scheduled(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "pg", "uid", 2))
    pods = [w.pod(f"p{number}", group="pg", gates=(GATE,), requests=asks(3000)) for number in range(2)]
    w.advance(5)
    assert w.cluster.reports["default", "pg"] == (
        False,
        "Unsatisfiable",
        "unsatisfiable: 1 of 2 members would fit if nothing else ran, short of cpu",
    )
    w.cluster.put(node("n1"))
    w.advance(5)
    assert all(w.nodes_of(*pods))
    assert w.cluster.reports["default", "pg"] == (True, "Scheduled", "2 members have their nodes")


def test_pod_group_that_is_seen_again_unchanged_is_not_reported_again(world: MakeWorld) -> None:
    group = PodGroup("default", "pg", "uid", 1)
    w = world(node("n0"), group)
    w.pod("p", group="pg", gates=(GATE,), requests=asks(1000))
    w.advance(5)
    w.cluster.reports.clear()
    w.cluster.put(group)
    w.advance(5)
    assert w.cluster.reports == {}


def test_gang_of_one_is_reported_in_the_singular(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "pg", "uid", 1))
    w.pod("p", group="pg", gates=(GATE,), requests=asks(1000))
    w.advance(5)
    assert w.cluster.reports["default", "pg"] == (True, "Scheduled", "1 member has its node")
    assert "1 member has its node" in [entry.detail for entry in w.gang("pg").history.entries]
