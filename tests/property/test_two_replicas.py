"""The whole placement core with two replicas of which the schedule picks the leader.

Beside all that happens to a cluster, kube-schedulers end, pods are replaced, leaders are cut off at any moment with
their writes under way, and come back. There is never more than one leader, nothing is booked twice, no gang is left
half placed, and who stands by knows the facts.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.node import Node
from tests.core.pair import LAGS, Pair, check_pair
from tests.core.shapes import allocatable
from tests.property.test_core_state_machine import BROKEN, QUANTUM, SHARE, Core, choice, running

FAIL_OVER = 25.0
"""Seconds in which a new leader is found at the latest, of a Lease of 15 s."""


class TwoReplicas(Core):
    """`Core` on a `Pair`; what the extender's restart is there is here the replacement of a pod."""

    world: Pair

    @initialize(
        count=st.integers(2, 4),
        size=st.integers(2, 6),
        text=st.sampled_from([None, QUANTUM]),
        running=running,
    )
    def begin(self, count: int, size: int, text: str | None, running: list[int]) -> None:
        nodes = [Node(f"n{number}", allocatable=allocatable(size, 8, number % 2)) for number in range(count)]
        self.world = Pair(*nodes, ResourcesFile("test", text), engine=self.engine, policy=self.policy)
        self.text = text
        self._run(running)

    def _mend_resources(self) -> None:
        if self.text == BROKEN:
            # With a broken file a new process would refuse to start until somebody mends that.
            self.resources_are_edited(None)

    @rule()
    def extender_restarts(self) -> None:
        """The leading pod is killed, and replaced."""
        self._mend_resources()
        self.world.remove(self.world.foremost)
        self.world.add()

    @rule(random=choice)
    def any_pod_is_killed_and_replaced(self, random: Random) -> None:
        self._mend_resources()
        self.world.remove(random.choice(self.world.replicas))
        self.world.add()

    @rule(seconds=st.sampled_from([0.0, 0.02, 0.3]))
    def pod_is_replaced_by_a_rolling_update(self, seconds: float) -> None:
        self._mend_resources()
        old = self.world.foremost
        self.world.add()
        old.scheduler_stops()
        self.world.advance(seconds)
        self.world.remove(old)

    @rule(release=st.booleans())
    def kube_scheduler_ends(self, release: bool) -> None:
        self.world.foremost.scheduler_ends(release)

    @rule(seconds=st.lists(st.sampled_from([2.5, 3.2, 4.0, 5.7]), min_size=3, max_size=6))
    def lease_goes_from_hand_to_hand(self, seconds: list[float]) -> None:
        """It is let go and taken in the same moment, and who had it finds out some time after somebody else has."""
        for pause in seconds:
            old = self.world.foremost
            old.scheduler_ends(release=True)
            for one in self.world.replicas:
                if one is not old:
                    self.world.run(one.stand())
            self.world.advance(pause)

    @rule(random=choice, leader=st.booleans())
    def replica_is_cut_off(self, random: Random, leader: bool) -> None:
        replica = self.world.foremost if leader else random.choice(self.world.replicas)
        replica.link.break_off()

    @rule(seconds=st.sampled_from([0.6, 1.0, 1.2, 1.9]), pause=st.sampled_from([0.3, 1.1, 2.0]))
    def leader_learns_late_that_its_lease_was_let_go(self, seconds: float, pause: float) -> None:
        old = self.world.foremost
        old.link.lag = seconds
        self.world.advance(pause)
        old.scheduler_ends(release=True)
        for one in self.world.replicas:
            if one is not old:
                self.world.run(one.stand())
        self.world.advance(6.0)

    @rule()
    def replicas_are_connected_again(self) -> None:
        self._mend_resources()
        for replica in self.world.replicas:
            replica.link.heal()
            replica.link.lag = min(replica.link.lag, max(LAGS))

    @rule(seconds=st.sampled_from([8.0, 10.0, 14.0, 16.0, 25.0]))
    def time_passes_until_another_leads(self, seconds: float) -> None:
        self.world.cluster.reap()
        self.world.advance(seconds)

    def quiet(self) -> None:
        self.replicas_are_connected_again()
        self.world.advance(FAIL_OVER)
        assert self.world.leading is not None
        super().quiet()

    @invariant()
    def core_is_consistent(self) -> None:
        if hasattr(self, "world"):
            self.world.advance(0.011)
            check_pair(self.world)
            if not self.world.binding:
                self.world.scheduler.disturbed.clear()


def test_one_writer_at_a_time_books_nothing_twice_and_leaves_no_gang_half_placed() -> None:
    run_state_machine_as_test(
        TwoReplicas,
        settings=settings(
            max_examples=max(1, settings().max_examples // (2 * SHARE)),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
