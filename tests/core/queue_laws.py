"""What must hold of the queue whenever it has had a moment to look."""

from __future__ import annotations

import numpy as np

from fluence_extender.gangs.queue.ledger_timeline import LedgerTimeline
from fluence_extender.gangs.queue.turns import turn
from fluence_extender.model.reason import ReasonCode
from tests.core.world import World


def check_queue(world: World) -> None:
    """All that holds after every step."""
    timeline_is_that_of_the_ledger(world)
    room_is_there_for_what_is_reserved(world)


def timeline_is_that_of_the_ledger(world: World) -> None:
    """The timeline that was kept up to date is the one that would be built anew, at each time."""
    kept = world.controller.queue.followed
    if not kept.built:
        return
    kept.follow()
    anew = LedgerTimeline(world.ledger, world.controller.eligibility.nodes, kept._ends, world.loop.time)
    for pod in world.controller.pods.values():
        anew.seen(pod)
    assert anew._ending == kept._ending
    anew._placed = dict(kept._placed)
    anew.follow()
    now = world.loop.time()
    for time in (now, *kept.timeline.returns().tolist()):
        was, built = kept.timeline.unreserved(time), anew.timeline.unreserved(time)
        for name, row in anew.rows.items():
            for kind, column in anew.columns.items():
                amount = was[kept.rows[name], kept.columns[kind]]
                assert amount == built[row, column], f"{name} has {amount} {kind} at {time}"
    # A kind of resource that only nodes had that are gone is no column of a timeline that is built anew.
    if kept.columns.keys() == anew.columns.keys():
        assert sorted(kept.timeline.holds) == sorted(anew.timeline.holds)


def room_is_there_for_what_is_reserved(world: World) -> None:
    """At each reservation's start what holds its nodes then and what is reserved there is no more than they have."""
    queue = world.controller.queue
    timeline = queue.followed.timeline
    for head in queue.heads.blocked:
        promise = head.promise
        if promise is None or promise.draining or promise.start <= timeline.now:
            continue
        left = timeline.at(promise.start)[promise.places.rows]
        over = (left < 0) & (promise.places.amounts > 0)
        assert not np.any(over), f"{head.gang.key} has reserved what isn't there"


def kept_turns_are_those_of_the_gangs(world: World) -> None:
    """The turn that the queue has kept of a gang is the one that it has."""
    queue = world.controller.queue
    for gang in world.controller.registry.gangs.values():
        if any(member.assignment is None for member in gang.pending()):
            assert queue.turns.of(gang) == turn(gang), f"{gang.key} is in line at a place that it had before"


def nobody_is_stopped_by_nothing(world: World) -> None:
    """A gang that waits behind a reservation waits behind one that is there."""
    waiting = [
        gang
        for gang in world.controller.registry.gangs.values()
        if gang.reason is not None and gang.reason.code is ReasonCode.BEHIND_RESERVATION
    ]
    assert not waiting or world.controller.queue.reservations(), [str(gang.key) for gang in waiting]
