"""The queue's laws under arbitrary histories.

Entries come and go, pods end early and late, nodes are cordoned and lost, other schedulers' pods and operators'
reservations appear. Before each pass a second queue is built from the entries and the holds alone, as after a restart.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fluence_extender.queueing.engine import Decision, QueueEngine, Start
from fluence_extender.queueing.entry import NEVER, Entry, Footprint, Rows, Running, Slots
from fluence_extender.queueing.fitting import may_fit
from fluence_extender.queueing.order import rank
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.reservation import Delay, DelayCause, OperatorReservation, Reservation
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.planner import FirstFit
from tests.queueing.values import decisions, free_at, room

NODES = 4
WHOLE = [(4, 2, 0)] * NODES + [(0, 0, 3)]
"""Nodes with cores and gpus, and a pool of devices as the last row."""

ALLOWED = {"left": np.array([True, True, False, False, True])}
COUNTED = {
    DelayCause.OVERRUN: "overrun",
    DelayCause.NODE_LOST: "lost",
    DelayCause.FOREIGN: "foreign",
}

sizes = st.sampled_from([(1, 0, 0), (2, 0, 0), (4, 0, 0), (1, 1, 0), (3, 2, 0)])
equal = st.builds(lambda count, size: (Slots(count, size),), st.integers(1, 4), sizes)
mixed = st.builds(
    lambda count, size, devices: (Slots(count, size), Slots(devices, (0, 0, 1))),
    st.integers(1, 2),
    sizes,
    st.integers(1, 2),
)
durations = st.sampled_from([5.0, 10.0, 30.0, 100.0, NEVER])
pauses = st.sampled_from([0.0, 1.0, 5.0, 30.0, 200.0])
asked = st.builds(
    Entry,
    key=st.just(""),
    slots=st.one_of(equal, equal, mixed),
    created=st.just((0.0, 0)),
    duration=durations,
    priority=st.sampled_from([0, 0, 0, 1]),
    begun=st.sampled_from([False] * 9 + [True]),
    where=st.sampled_from(["", "", "left"]),
    queue=st.sampled_from(["", "team"]),
)
rows = st.integers(0, NODES)
choice = st.integers(0, 10**6)


class Laws(RuleBasedStateMachine):
    """Rules are what users, pods, nodes and operators do; ``decide`` is a pass, after which the laws are checked."""

    @initialize(
        policy=st.sampled_from(list(PolicyName)),
        depth=st.sampled_from([None, 2]),
        starvation=st.sampled_from([20.0, NEVER]),
        running=st.lists(
            st.tuples(st.integers(0, NODES - 1), st.integers(1, 4), durations), min_size=1, max_size=6
        ),
        some=st.lists(asked, min_size=2, max_size=6),
    )
    def begin(
        self,
        policy: PolicyName,
        depth: int | None,
        starvation: float,
        running: list[tuple[int, int, float]],
        some: list[Entry],
    ) -> None:
        self.now = 0.0
        self.number = 0
        self.policy = QueuePolicy(policy, depth, None, starvation)
        self.operators: list[OperatorReservation] = []
        self.queue = QueueEngine(Timeline(room(*WHOLE)), FirstFit(ALLOWED), self.policy)
        self.submitted: dict[str, Entry] = {}
        self.started: dict[str, Footprint] = {}
        self.happened: dict[str, set[int]] = {"overrun": set(), "lost": set(), "foreign": set()}
        self.changed = False
        for row, cores, end in running:
            at = Footprint(np.array([row]), room((cores, 0, 0)))
            self.queue.hold(Running(f"h{self.number}", at, end))
            self.number += 1
        self.submit(some)
        self._pass(1.0)

    # Users.

    @rule(some=st.lists(asked, min_size=1, max_size=4))
    def submit(self, some: list[Entry]) -> None:
        for one in some:
            key = f"e{self.number}"
            self.submitted[key] = replace(one, key=key, created=(self.now, self.number))
            self.queue.submit(self.submitted[key])
            self.number += 1

    @rule(pick=choice)
    def withdraw(self, pick: int) -> None:
        key = self._pick(sorted(self.queue.waiting.entries), pick)
        if key:
            self.queue.withdraw(key)
            del self.submitted[key]

    # Pods.

    @rule(pick=choice)
    def end(self, pick: int) -> None:
        key = self._pick(sorted(self.queue.timeline.holds), pick)
        if key:
            self.queue.release(key)

    @rule(row=rows, amount=st.integers(1, 3), end=st.sampled_from([7.0, 50.0, NEVER]))
    def foreign_pod(self, row: int, amount: int, end: float) -> None:
        at = Footprint(np.array([row]), room((amount, 0, 0)))
        self.queue.hold(Running(f"f{self.number}", at, self.now + end, foreign=True))
        self.happened["foreign"].add(row)
        self.number += 1

    # Nodes and operators.

    @rule(row=rows, up=st.booleans())
    def cordon(self, row: int, up: bool) -> None:
        self._resize(np.array([row]), up)

    @rule(row=rows)
    def lose_node(self, row: int) -> None:
        self._resize(np.array([row]), False)
        for key, hold in list(self.queue.timeline.holds.items()):
            if row in hold.places.rows.tolist():
                self.queue.release(key)

    @rule(
        row=rows, wide=st.booleans(), start=pauses, length=st.sampled_from([10.0, 60.0]), team=st.booleans()
    )
    def reserve_nodes(self, row: int, wide: bool, start: float, length: float, team: bool) -> None:
        which = np.arange(NODES + 1)[row:] if wide else np.array([row])
        users = frozenset(["team"]) if team else frozenset()
        since = self.now + start
        self.operators.append(OperatorReservation(f"o{self.number}", which, since, since + length, users))
        self.number += 1
        self._configure()

    @rule()
    def forget_operators(self) -> None:
        if self.operators:
            self.operators = []
            self._configure()

    @rule(policy=st.sampled_from(list(PolicyName)), depth=st.sampled_from([None, 1, 3]))
    def change_policy(self, policy: PolicyName, depth: int | None) -> None:
        self.policy = QueuePolicy(policy, depth, None, self.policy.starvation_after)
        self._configure()

    # Passes.

    @rule(pause=pauses)
    def decide(self, pause: float) -> None:
        self._pass(self.now + pause)

    @rule()
    def decide_at_once(self) -> None:
        self._pass(self.now)

    @rule(late=st.sampled_from([0.0, 1.0]))
    def decide_when_it_asks(self, late: float) -> None:
        wake = self.queue.wake_at()
        if wake < NEVER:
            self._pass(wake + late)

    def _pass(self, now: float) -> None:
        self.now = now
        promised = dict(self.queue.promises)
        again = self._restarted()
        for hold in self.queue.timeline.holds.values():
            if self.queue.timeline.until(hold.key) <= now:
                self.happened["overrun"].update(hold.places.rows.tolist())
        found = decisions(self.queue, now)
        self._check_restart(found, again, decisions(again, now))
        for one in found:
            if isinstance(one, Start):
                self._check_start(one)
        delays = [one for one in found if isinstance(one, Delay)]
        self._check_reservations()
        self._check_promises(promised, delays)
        self._check_policy(found)
        self.happened = {name: set() for name in self.happened}
        self.changed = False

    def _restarted(self) -> QueueEngine:
        timeline = Timeline(self.queue.timeline.room, self.queue.timeline.now)
        again = QueueEngine(timeline, FirstFit(ALLOWED), self.policy, self.operators)
        for hold in self.queue.timeline.holds.values():
            again.hold(hold)
        for one in self.queue.waiting.entries.values():
            again.submit(one)
        return again

    # Laws.

    @invariant()
    def nothing_is_lost_or_started_twice(self) -> None:
        if hasattr(self, "submitted"):
            assert set(self.submitted) == set(self.queue.waiting.entries) | set(self.started)
            assert not set(self.queue.waiting.entries) & set(self.started)

    @invariant()
    def the_timeline_is_the_sum_of_its_parts(self) -> None:
        if not hasattr(self, "submitted"):
            return
        timeline = self.queue.timeline
        assert np.array_equal(timeline.free, free_at(timeline, timeline.now))
        for number, start in enumerate(timeline.starts):
            assert np.array_equal(timeline.level(number), free_at(timeline, start))

    def _check_restart(self, found: list[Decision], again: QueueEngine, others: list[Decision]) -> None:
        """A queue built from the entries and the holds decides the same."""
        assert _starts(found) == _starts(others)
        assert _promises(self.queue) == _promises(again)

    def _check_start(self, start: Start) -> None:
        """A start has room, on rows that are open to it for as long as it runs."""
        key, entry = start.entry.key, start.entry
        assert key not in self.started
        assert self.submitted[key] is entry
        self.started[key] = start.places
        timeline, taken = self.queue.timeline, start.places.rows
        left = timeline.room.copy()
        for hold in timeline.holds.values():
            left[hold.places.rows] -= hold.places.amounts
        assert (left[taken][start.places.amounts > 0] >= 0).all()
        assert start.places.amounts.sum() == sum(one.count * sum(one.size) for one in entry.slots)
        if entry.where:
            assert ALLOWED[entry.where][taken].all()
        for one in self.operators:
            if one.closes(entry, self.now, self.now + entry.duration):
                assert not set(one.rows.tolist()) & set(taken.tolist())

    def _check_reservations(self) -> None:
        """At each start, on each node of the reservation: what is held and reserved is no more than there is."""
        timeline = self.queue.timeline
        assert set(timeline.reservations) == set(self.queue.promises)
        for one in timeline.reservations.values():
            if one.draining:
                continue
            assert one.start > self.now
            for moment in [one.start, *(other for other in timeline.starts if one.start < other < one.end)]:
                left = free_at(timeline, moment)[one.places.rows]
                assert (left[one.places.amounts > 0] >= 0).all(), (one.key, moment)

    def _check_promises(self, promised: dict[str, Reservation], delays: list[Delay]) -> None:
        """A promised start moves later only with a cause that there is."""
        told = {one.key: one for one in delays}
        for key, old in promised.items():
            if key in self.started:
                assert key not in told
                continue
            now = self.queue.promises.get(key)
            start = NEVER if now is None else now.start
            assert (key in told) == (start > old.start), (key, old.start, start)
            if key in told:
                assert (told[key].promised, told[key].start) == (old.start, start)
                self._check_cause(told[key].cause, old)

    def _check_cause(self, cause: DelayCause, old: Reservation) -> None:
        there = set(old.places.rows.tolist())
        if cause in COUNTED:
            assert there & self.happened[COUNTED[cause]]
        elif cause is DelayCause.QUEUE_CHANGED:
            assert self.changed
        else:
            own = rank(self.submitted[old.key])
            before = sum(1 for one in self.queue.waiting.entries.values() if rank(one) < own)
            if old.key not in self.queue.promises and before >= self.policy.depth:
                return  # Entries that are served earlier have all the reservations.
            earlier = [
                places
                for key, places in [
                    *self.started.items(),
                    *((key, one.places) for key, one in self.queue.promises.items()),
                ]
                if rank(self.submitted[key]) < own
            ]
            assert any(there & set(places.rows.tolist()) for places in earlier)

    def _check_policy(self, found: list[Decision]) -> None:
        depth = self.policy.depth
        assert len(self.queue.promises) <= depth
        if self.policy.policy is PolicyName.FCFS:
            capacity = self.queue.timeline.capacity
            waiting = [
                rank(one)
                for one in self.queue.waiting.entries.values()
                if may_fit(one.slots, capacity, ALLOWED.get(one.where))
            ]
            ranks = [rank(one.entry) for one in found if isinstance(one, Start)]
            assert not ranks or not waiting or max(ranks) < min(waiting)

    # Helpers.

    def _resize(self, which: Rows, up: bool) -> None:
        amounts = room(*(WHOLE[row] if up else (0, 0, 0) for row in which.tolist()))
        self.happened["lost"].update(which.tolist())
        self.queue.resize(which, amounts)

    def _configure(self) -> None:
        self.changed = True
        self.queue.configure(self.policy, self.operators)

    @staticmethod
    def _pick(keys: list[str], pick: int) -> str:
        return keys[pick % len(keys)] if keys else ""


def _starts(found: list[Decision]) -> list[tuple[str, Any]]:
    return [(one.entry.key, _plain(one.places)) for one in found if isinstance(one, Start)]


def _promises(queue: QueueEngine) -> dict[str, Any]:
    return {
        key: (one.start, one.end, one.draining, _plain(one.places)) for key, one in queue.promises.items()
    }


def _plain(places: Footprint) -> str:
    return json.dumps([places.rows.tolist(), places.amounts.tolist()])


TestLaws = Laws.TestCase
TestLaws.settings = settings(
    max_examples=settings().max_examples // 2,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
