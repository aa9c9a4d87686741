"""What must hold of the queue whenever it has had a moment to look."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fluence_extender.gangs.queue.submissions import RANK, turn, waits
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.objects.queues import DEFAULT_QUEUE
from tests.core.world import World
from tests.queueing.values import left_at


def check_queue(world: World) -> None:
    """All that holds after every step."""
    room_is_there_for_what_is_reserved(world)
    what_gangs_hold_is_counted(world)


def room_is_there_for_what_is_reserved(world: World) -> None:
    """At each reservation's start what holds its nodes then and what is reserved there is no more than they have."""
    queue = world.controller.queue
    if queue.cluster is None or world.controller.lifecycle.restless:
        return
    timeline = queue.cluster.timeline
    for one in queue.blocked:
        reservation = one.reservation
        if reservation is None or reservation.draining or reservation.start <= timeline.now:
            continue
        left = left_at(timeline, reservation.start)[reservation.places.rows]
        over = (left < 0) & (reservation.places.amounts > 0)
        assert not np.any(over), f"{one.key} has reserved what isn't there"


def what_gangs_hold_is_counted(world: World) -> None:
    """What a queue is said to use is at least what the ledger holds for the pods of its gangs."""
    admission = world.controller.queue.admission
    if not admission.quotas.active or world.controller.lifecycle.restless:
        return
    held: dict[str, Resources] = {}
    for gang in world.controller.registry.gangs.values():
        place = admission.usage.place(gang.key)
        for member in gang.alive():
            if place is not None and member.pod.uid in world.ledger.holdings:
                held[place.queue] = held.get(place.queue, NOTHING) + member.pod.amounts
    for queue, amounts in held.items():
        used = admission.quotas.use.used(queue)
        assert all(amount <= used.get(kind, 0) for kind, amount in amounts.items()), (queue, amounts, used)


def limit_of_cores(world: World) -> float:
    """How many cores the default queue may use, by its own limit and those of the queues that it is part of."""
    name, found = DEFAULT_QUEUE, math.inf
    while (queue := world.controller.queue.settings.made.get(name)) is not None:
        found = min(found, queue.quota.limit.get("cpu", math.inf))
        name = queue.parent
    return found


class WithinLimits:
    """A step gives no place with which a queue uses more than its limit.

    What has begun is completed, whatever the limit is by now, as far as it was large enough for it when it began: a
    member that is lost leaves its share to the one that is made anew. What another hand has bound stays.
    """

    def __init__(self) -> None:
        self._begun: dict[GangKey, int] = {}
        self._controller: object = None

    @contextmanager
    def __call__(self, world: World) -> Iterator[None]:
        """Compare what gangs have before and after a step."""
        if self._controller is not world.controller:
            self._controller = world.controller
            self._begun.clear()
        before = self._used(world)
        yield
        used, limit = self._used(world), limit_of_cores(world)
        assert used <= max(limit, before), f"{used} is more than {limit}, and before {before}"

    def _used(self, world: World) -> int:
        """Return how many cores gangs have that have places, with those that they have begun with."""
        found, begun = 0, self._begun
        self._begun = {}
        for gang in world.controller.registry.gangs.values():
            placed = [one for one in gang.alive() if one.assignment is not None or one.pod.node]
            cores = sum(one.pod.amounts["cpu"] for one in placed)
            if placed and gang.must_be_completed:
                lacking = [one for one in gang.pending() if one not in placed]
                lacking = lacking[: max(gang.size - len(placed) - gang.ended, 0)]
                due = begun.get(gang.key, cores + sum(one.pod.amounts["cpu"] for one in lacking))
                cores = self._begun[gang.key] = max(cores, due)
            found += cores
        return found


def cores_left(world: World) -> float:
    """How many more cores the default queue may use once nothing is under way: all gangs are in it."""
    pods = (
        one for one in world.cluster.pods() if one.ours and one.node and not (one.finished or one.deleting)
    )
    return limit_of_cores(world) - sum(pod.amounts["cpu"] for pod in pods)


def kept_turns_are_those_of_the_gangs(world: World) -> None:
    """The turn that the queue has kept of a gang is the one that it has."""
    queue = world.controller.queue
    for gang in world.controller.registry.gangs.values():
        if any(member.assignment is None for member in gang.pending()):
            assert queue.turns.of(gang) == turn(gang), f"{gang.key} is in line at a place that it had before"


def those_who_wait_are_in_line(world: World) -> None:
    """Gangs that wait are in line once, in order, unless something has happened to them since the last step."""
    registry, line = world.controller.registry, world.controller.queue.turns.line
    assert line == sorted(line, key=RANK)
    there = [one.gang.key for one in line if registry.gangs.get(one.gang.key) is one.gang]
    assert len(there) == len(set(there))
    if world.controller.leading:
        settled = registry.gangs.keys() - registry.dirty
        waiting = {key for key in settled if waits(registry.gangs[key])}
        assert waiting <= set(there), f"{waiting - set(there)} are not in line"


def nobody_is_stopped_by_nothing(world: World) -> None:
    """A gang that waits behind a reservation waits behind one that is there."""
    waiting = [
        gang
        for gang in world.controller.registry.gangs.values()
        if gang.reason is not None and gang.reason.code is ReasonCode.BEHIND_RESERVATION
    ]
    assert not waiting or world.controller.queue.reservations(), [str(gang.key) for gang in waiting]
