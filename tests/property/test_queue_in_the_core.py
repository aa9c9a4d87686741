"""The queue under arbitrary histories of a cluster in which pods say how long they run.

Whatever happens, the timeline is that of the ledger, there is room for what is reserved, and the gang's history says
when a promised start moves later.
"""

from __future__ import annotations

from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import DEFAULT_QUEUE, Queue, Quota
from tests.core.queue_laws import WithinLimits, check_queue
from tests.property.test_core_state_machine import Core, choice

SHARE = 10

limits = st.sampled_from([None, 1000, 3000, 6000])
durations = st.sampled_from([None, 5.0, 30.0, 600.0, 5000.0])


class TimedCore(Core):
    """The cluster of `Core`, with pods that declare durations, start, end early or overrun."""

    declared: float | None = 600.0

    def _member(self, name: str, **fields: Any) -> Pod:
        return super()._member(name, **{"duration": self.declared, **fields})

    @rule(seconds=durations)
    def later_pods_declare(self, seconds: float | None) -> None:
        self.declared = seconds

    @rule(random=choice, seconds=durations)
    def pod_declares_otherwise(self, random: Random, seconds: float | None) -> None:
        pod = self._one(random, ours=random.random() < 0.8)
        if pod is not None:
            self.world.change(pod, duration=seconds)

    @rule(random=choice)
    def pods_start(self, random: Random) -> None:
        for pod in self.world.cluster.pods():
            if pod.node and not pod.started and random.random() < 0.7:
                self.world.change(pod, started=self.world.loop.time())

    @rule(random=choice)
    def gang_ends(self, random: Random) -> None:
        pod = self._one(random, ours=True, bound=True)
        if pod is None:
            return
        found = self.world.controller.member(pod.uid)
        for member in list(found[0].members.values()) if found is not None else ():
            if member.pod.node and not member.pod.finished and not member.pod.expected:
                self.world.change(member.pod, phase="Succeeded")

    def _run(self, sizes: list[int]) -> None:
        self.world.around_steps = WithinLimits()
        super()._run(sizes)

    @rule(limit=limits, above=st.none() | limits)
    def quota_is_stated(self, limit: int | None, above: int | None) -> None:
        """Limit the queue that all gangs are in, and the one that it is part of."""
        for name, parent, most in (("all", "", above), (DEFAULT_QUEUE, "all", limit)):
            quota = Quota() if most is None else Quota(limit={"cpu": most})
            self.world.cluster.put(Queue(name, parent=parent, quota=quota, uid=name))

    @invariant()
    def queue_keeps_its_laws(self) -> None:
        if hasattr(self, "world"):
            check_queue(self.world)
            self._promises_are_kept()

    def _promises_are_kept(self) -> None:
        before: dict[GangKey, tuple[Gang, object, float, int]] = getattr(self, "promised", {})
        self.promised = {}
        for head in self.world.controller.queue.blocked:
            if head.reservation is None:
                continue
            gang = self.world.controller.registry.gangs[head.key]
            delays = sum(one.count for one in _delays(gang))
            old, alike, start, told = before.get(head.key, (gang, None, head.reservation.start, delays))
            self.promised[head.key] = gang, head.alike, head.reservation.start, delays
            if gang is old and alike == head.alike and head.reservation.start > start:
                assert delays > told, f"{head.key} starts later and wasn't told"


def _delays(gang: Gang) -> list[Any]:
    return [one for one in gang.history.entries if one.kind is HistoryKind.DELAYED]


@pytest.mark.parametrize("policy", ["lonode", "lonodex"])
def test_queue_keeps_its_laws_whatever_happens(policy: str) -> None:
    machine = type("TimedCore", (TimedCore,), {"policy": policy})
    if settings().derandomize:
        machine = seed(crc32(f"queue {policy}".encode()))(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=settings().max_examples // SHARE,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
