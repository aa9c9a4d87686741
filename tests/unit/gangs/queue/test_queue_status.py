"""The status of Queues and Reservations is kept up to date, and written seldom."""

from __future__ import annotations

from msgspec import structs

from fluence_extender.cluster.port import Kind
from fluence_extender.gangs.reporting.status import queue_status, reservation_status
from fluence_extender.model.names import GATE, QUEUE_LABEL
from fluence_extender.objects.queues import NodeReservation, Queue, QueueStatus, ReservationStatus, Stop
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

PHYSICS = Queue("physics", uid="q")
RACK = NodeReservation("rack7", 1e9, 60.0, frozenset({"n1", "n7"}), queues=frozenset({"phisics"}), uid="r")


def test_gangs_are_counted_and_problems_told() -> None:
    assert queue_status(PHYSICS, (3, 2), ["why"], 0.0) == QueueStatus(3, 2, None, "why")
    assert queue_status(PHYSICS, (0, 0), [], 0.0) == QueueStatus()


def test_time_at_which_a_queue_was_stopped_stays() -> None:
    drained = structs.replace(PHYSICS, stop=Stop.DRAIN)
    assert queue_status(drained, (0, 0), [], 7.9).stopped_since == 7.0
    assert queue_status(structs.replace(drained, stopped_since=7.0), (0, 0), [], 90.0).stopped_since == 7.0


def test_reservation_counts_its_nodes_and_names_what_is_not_there() -> None:
    nodes = {"n0": node("n0"), "n1": node("n1")}
    assert reservation_status(RACK, nodes, {"physics": PHYSICS}) == ReservationStatus(
        1, "there is no node n7; there is no queue phisics"
    )


def status(w: World, kind: Kind) -> object:
    ((_, found),) = w.cluster._objects[kind].items()
    assert isinstance(found, Queue | NodeReservation)
    return found.status


def test_status_is_written_and_written_again_when_it_differs(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), node("n1", cpu=1000), PHYSICS, RACK)
    w.advance(1)
    assert status(w, Queue) == QueueStatus()
    assert status(w, NodeReservation) == ReservationStatus(
        1, "there is no node n7; there is no queue phisics"
    )
    w.pod("a", labels={QUEUE_LABEL: "physics"}, gates=(GATE,), requests=asks(1000, 1))
    w.pod("b", labels={QUEUE_LABEL: "physics"}, gates=(GATE,), requests=asks(1000, 1))
    w.advance(15)
    found = status(w, Queue)
    assert isinstance(found, QueueStatus)
    assert (found.waiting, found.admitted) == (1, 1)


def test_status_that_stays_is_not_written_again(world: MakeWorld) -> None:
    w = world(node("n0"), PHYSICS)
    w.advance(60)
    assert len([call for call in w.cluster.calls if "report_queue" in str(call)]) <= 1


def test_queue_drains_at_once_although_its_status_was_just_written(world: MakeWorld) -> None:
    w = world(node("n0"), PHYSICS)
    w.advance(3)
    assert status(w, Queue) == QueueStatus()
    w.cluster.put(structs.replace(PHYSICS, stop=Stop.DRAIN, status=QueueStatus()))
    w.advance(3)
    found = status(w, Queue)
    assert isinstance(found, QueueStatus)
    assert found.stopped_since is not None
