"""The queue as /v1 shows it: queues with their counts, the line in its order, and what is kept free."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.queue.book import GangReservation
from fluence_extender.http.metrics import Metrics, QueueCount
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.names import (
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
    USER_ANNOTATION,
)
from fluence_extender.model.pod import Requirement
from fluence_extender.objects.queues import DEFAULT_QUEUE, NodeReservation, Queue, QueueLimits, Stop
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def single(w: World, name: str, notes: dict[str, str] | None = None, priority: int = 0) -> None:
    w.pod(
        name,
        annotations=notes or {},
        gates=(GATE,),
        requests=asks(3000, 1),
        priority=priority,
        preempts=False,
    )


def test_line_is_in_the_order_in_which_gangs_are_served(world: MakeWorld) -> None:
    w = world(node("n0"))
    single(w, "runs")
    w.advance(2)
    single(w, "first", {USER_ANNOTATION: "ada"})
    single(w, "second", {HOLD_ANNOTATION: "true"})
    single(w, "higher", priority=7)
    w.advance(2)
    line = w.state.line(EVERYTHING).read()
    entries = [line.make(key) for key in line.keys]
    shown = [(one.position, one.name, one.user, one.why, one.held) for one in entries if one is not None]
    assert shown == [
        (1, "higher", "namespace default", "Busy", False),
        (2, "first", "ada", shown[1][3], False),
        (3, "second", "namespace default", "Held", True),
    ]


def test_queue_shows_its_counts_limits_and_first_gang(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.controller.queue.settings.put(
        Queue(DEFAULT_QUEUE, stop=Stop.DRAIN, limits=QueueLimits(running=5), problems=("x",))
    )
    single(w, "runs")
    w.advance(2)
    single(w, "held", {HOLD_ANNOTATION: "true"}, priority=9)
    single(w, "waits")
    w.advance(2)
    listing = w.state.queues().read()
    (found,) = [listing.make(key) for key in listing.keys]
    assert found is not None
    assert (found.name, found.stop, found.waiting, found.running) == (DEFAULT_QUEUE, "Drain", 2, 1)
    assert (found.limits, found.head, found.problems) == ({"running": 5}, "default/waits", ("x",))
    assert found.oldest is not None


def test_what_is_kept_free_is_shown_with_its_nodes(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(node("n0"), node("n1", labels={"rack": "r7"}), node("n2"))
    w.controller.queue.settings.put(
        NodeReservation(
            "rack7",
            100.0,
            60.0,
            frozenset({"n0"}),
            (Requirement("rack", "In", ("r7",)),),
            frozenset({"physics"}),
            "firmware",
        )
    )
    w.controller.queue.settings.put(NodeReservation("everything", 100.0, 60.0))
    single(w, "big")
    w.advance(2)
    key = w.gang("big").key
    kept = (GangReservation(key, ("n2",), None, None),)
    monkeypatch.setattr(w.controller.queue, "reservations", lambda: kept)
    listing = w.state.reservations(with_nodes=True).read()
    found = [one for key in listing.keys if (one := listing.make(key)) is not None]
    assert [(one.kind, one.name, one.nodes) for one in found] == [
        ("gang", "big", ("n2",)),
        ("reservation", "everything", ("n0", "n1", "n2")),
        ("reservation", "rack7", ("n0", "n1")),
    ]
    assert (found[0].start, found[2].reason, found[2].queues) == (None, "firmware", ("physics",))
    hidden = w.state.reservations(with_nodes=False).read()
    counted = [one for key in hidden.keys if (one := hidden.make(key)) is not None]
    assert [(one.count, one.nodes) for one in counted] == [(1, ("n2",)), (3, ()), (2, ())]


def test_metrics_count_by_queue(world: MakeWorld) -> None:
    w = world(node("n0"))
    single(w, "runs")
    w.advance(2)
    single(w, "waits")
    w.advance(2)
    metrics = Metrics()
    metrics.set_queues(w.state.queue_counts(), w.state.untried_for())
    text = metrics.render()[0].decode()
    assert f'fluence_queue_waiting{{queue="{DEFAULT_QUEUE}"}} 1.0' in text
    assert f'fluence_queue_running{{queue="{DEFAULT_QUEUE}"}} 1.0' in text
    assert "fluence_queue_oldest_wait_seconds" in text
    assert "fluence_oldest_untried_seconds 0.0" in text
    metrics.set_queues({}, 0.0)
    assert "fluence_queue_waiting{" not in metrics.render()[0].decode()


def test_gang_that_no_turn_helps_stands_in_no_line(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.controller.queue.settings.put(Queue(DEFAULT_QUEUE, uid="d"))
    w.pod("huge", gates=(GATE,), requests=asks(99000, 1), priority=9)
    w.pod("quantum", gates=(GATE,), requests=asks(1, 1), devices={"qpu": 1}, priority=9)
    w.pod("wrong", gates=(GATE,), requests=asks(1, 1), annotations={HOLD_ANNOTATION: "perhaps"}, priority=9)
    w.advance(5)
    assert w.state.queue_counts()[DEFAULT_QUEUE] == QueueCount(waiting=0, running=0, oldest_wait=0.0)
    single(w, "runs")
    w.advance(2)
    single(w, "waits")
    w.advance(2)
    line = w.state.line(EVERYTHING).read()
    assert [(one.position, one.name) for key in line.keys if (one := line.make(key)) is not None] == [
        (1, "waits")
    ]
    gangs = w.state.gangs(False, EVERYTHING).read()
    places = {gang.name: gang.position for key in gangs.keys if (gang := gangs.make(key)) is not None}
    assert places == {"huge": None, "quantum": None, "wrong": None, "runs": None, "waits": 1}
    listing = w.state.queues().read()
    (found,) = [listing.make(key) for key in listing.keys]
    assert found is not None
    assert (found.waiting, found.head) == (1, "default/waits")
    assert found.oldest is not None
    count = w.state.queue_counts()[DEFAULT_QUEUE]
    assert (count.waiting, count.running) == (1, 1)
    assert 0 < count.oldest_wait < 5


def test_gang_that_lacks_members_that_never_fit_stands_in_no_line(world: MakeWorld) -> None:
    w = world(node("n0"))
    notes = {GROUP_SIZE_ANNOTATION: "99"}
    w.pod("g-0", labels={GROUP_LABEL: "g"}, annotations=notes, gates=(GATE,), requests=asks(3000, 1))
    w.advance(5)
    assert not w.state.line(EVERYTHING).read().keys


def test_queue_says_whether_an_object_states_it(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.controller.queue.settings.put(Queue("physics", uid="p"))
    w.advance(2)
    listing = w.state.queues().read()
    stated = {
        queue.name: queue.has_object for key in listing.keys if (queue := listing.make(key)) is not None
    }
    assert stated == {DEFAULT_QUEUE: False, "physics": True}


def test_hold_of_a_gang_that_runs_is_noted(world: MakeWorld) -> None:
    w = world(node("n0"))
    single(w, "runs", {HOLD_ANNOTATION: "false"})
    w.advance(2)
    for value, notes in (("false", 0), ("true", 1)):
        pod = next(member.pod for member in w.gang("runs").members.values())
        w.change(pod, annotations={**pod.annotations, HOLD_ANNOTATION: value})
        w.advance(2)
        found = w.state.gang("default", "runs", "", EVERYTHING)
        assert found is not None
        said = found.item.notes
        assert len(said) == notes, said
        assert all("has its places and goes on" in note for note in said)


def test_gang_that_waits_for_members_names_what_states_how_many(world: MakeWorld) -> None:
    w = world(node("n0"))
    gang(w, "g", 100, 100, size=4)
    w.advance(2)
    found = w.state.gang("default", "g", "", EVERYTHING)
    assert found is not None
    assert "(2 of 4 exist)" in found.item.reason
    assert found.item.notes == (
        f"it waits for 4 members because annotation {GROUP_SIZE_ANNOTATION} of pod g-0 says so",
    )
