"""Simulating on the running service: one question at a time, parsed and answered beside the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fluence_extender.cluster.budgets import PreemptionRules
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.conventions.membership import Workloads
from fluence_extender.matcher.collector import paused_collector
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job
from fluence_extender.whatif.documents import Manifest, read_manifests
from fluence_extender.whatif.forecast import end_of
from fluence_extender.whatif.manifests import Asked, asked
from fluence_extender.whatif.preemption import Surroundings
from fluence_extender.whatif.shown import shown
from fluence_extender.whatif.simulation import Simulation
from fluence_extender.whatif.snapshot import Snapshot, snapshot
from fluence_extender.whatif.standing import CopiedGangs, copied_gangs
from fluence_extender.whatif.turns import short_turns

MOST_WAITING = 8
"""Questions that wait for their turn; more are refused."""

SLICE = 0.002
"""Seconds for which gangs are copied before others have their turn."""

Rules = Callable[[], Awaitable[PreemptionRules]]


class TooMany(Exception):
    """Others ask already; the text says so."""


async def nothing_known() -> PreemptionRules:
    """The rules where there is no cluster to ask."""
    return PreemptionRules()


def ends(controller: Controller) -> dict[str, float]:
    """When running pods end, by uid, as far as they say."""
    find = controller.registry.workloads.find
    found: dict[str, float] = {}
    for pod in controller.pods.values():
        if not pod.node or pod.finished:
            continue
        job = _job(pod, find)
        if job is None and pod.duration is None:
            continue
        end = end_of(pod, job)
        if end is not None:
            found[pod.uid] = end
    return found


def _job(pod: Pod, find: Callable[[type[Job], str, str], Job | None]) -> Job | None:
    if pod.owner is None or pod.owner.kind != "Job":
        return None
    return find(Job, pod.namespace, pod.owner.name)


def copied(controller: Controller) -> tuple[Snapshot, dict[str, float]]:
    """The ledger as it is now, and when running pods end."""
    known = ends(controller)
    return snapshot(controller.ledger, controller.eligibility.nodes.values(), known), known


class Simulator:
    """Answers what-if questions about ``controller``'s cluster; ``rules`` reads what of it preemption depends on."""

    def __init__(
        self,
        controller: Controller,
        rules: Rules = nothing_known,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._rules = rules
        self._now = now
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, body: bytes, namespace: str = "default") -> dict[str, Any]:
        """The answer as JSON values. Raises `BadManifest` and `TooMany`."""
        if self._waiting >= MOST_WAITING:
            raise TooMany(f"{self._waiting} other questions are waiting to be answered")
        self._waiting += 1
        try:
            async with self._turn:
                rules = await self._rules()
                with short_turns():
                    there = self._controller.registry.workloads
                    wanted = await asyncio.to_thread(_read, body, namespace, rules, there)
                    around = await self._around(wanted, rules)
                    taken, known = copied(self._controller)
                    return await asyncio.to_thread(_run, taken, wanted, self._now(), known, around)
        finally:
            self._waiting -= 1

    async def _around(self, wanted: Asked, rules: PreemptionRules) -> Surroundings:
        """The gangs that might have to make way, copied a few at a time, and what of them is going already."""
        registry, preemptor = self._controller.registry, self._controller.lifecycle.preemptor
        highest = max((one.priority for one in wanted.gangs), default=0)
        gangs = CopiedGangs()
        if highest > registry.lowest_priority:
            began = time.monotonic()
            for gang in copied_gangs(registry.gangs, highest):
                gangs.gangs[gang.key] = gang
                if time.monotonic() - began > SLICE:
                    await asyncio.sleep(0)
                    began = time.monotonic()
        state = preemptor.state()
        return Surroundings(gangs, state.departing, state.evicted, state.preemptors, rules.budgets)


def _read(body: bytes, namespace: str, rules: PreemptionRules, there: Workloads) -> Asked:
    with paused_collector():
        manifests: list[Manifest] = read_manifests(body)
        return asked(manifests, namespace, rules.classes, there)


def _run(
    taken: Snapshot, wanted: Asked, now: float, known: dict[str, float], around: Surroundings
) -> dict[str, Any]:
    # A round of the collector over all that a large question makes would keep the event loop waiting, too.
    with paused_collector():
        return shown(Simulation(taken, wanted, now, known, around).run(), wanted, now)
