"""Times too far away to be written as dates stop nobody from deciding, and those that are told can be written."""

from __future__ import annotations

from typing import TypeVar

import pytest

from fluence_extender.gangs.queue.submissions import LATEST
from fluence_extender.http.state.listings import Listing
from fluence_extender.http.state.queue import line_listing, queue_listing, reservation_listing
from fluence_extender.model.access import EVERYTHING
from fluence_extender.objects.queues import (
    DEFAULT_QUEUE,
    NodeReservation,
    PolicyName,
    Queue,
    SchedulingOptions,
)
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

Shown = TypeVar("Shown")


def line_up(w: World, *durations: float) -> None:
    """Let a gang run, and the others wait for the whole cluster, each for the one before it."""
    w.controller.queue.settings.put(
        Queue(DEFAULT_QUEUE, scheduling=SchedulingOptions(PolicyName.CONSERVATIVE, 8))
    )
    first, *others = durations
    (pod,) = gang(w, "runs", 3000, duration=first)
    w.advance(1)
    w.change(pod, started=w.loop.time(), phase="Running")
    w.advance(0.5)
    for number, duration in enumerate(others):
        gang(w, f"wide-{number}", 3000, 3000, duration=duration)
    w.advance(10)


def shown(listing: Listing[Shown]) -> list[Shown]:
    """Return what the state API shows."""
    items = listing.read()
    return [one for key in items.keys if (one := items.make(key)) is not None]


@pytest.mark.parametrize("before", [-30.0, 0.0, 1.0, 30.0, 59.0, 90.0])
def test_work_that_ends_with_the_last_minute_stops_nobody(world: MakeWorld, before: float) -> None:
    w = world(node("n0"), node("n1"))
    line_up(w, LATEST - w.loop.time() - 1 - before, 100)
    assert w.gang("wide-0").reason is not None
    shown(queue_listing(w.controller))


def test_starts_that_add_up_to_too_late_a_time_are_told_as_the_latest(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    line_up(w, LATEST * 0.6, LATEST * 0.6, 100)
    assert w.gang("wide-0").starts_about is not None
    assert w.gang("wide-1").starts_about == LATEST
    assert [one.end for one in w.controller.queue.reservations()] == [LATEST, LATEST]
    assert len(shown(line_listing(w.controller, EVERYTHING))) == 2
    w.controller.queue.settings.put(NodeReservation("always", start=0.0, duration=2 * LATEST))
    assert len(shown(reservation_listing(w.controller, with_nodes=True))) == 3
