"""What-if questions to the running service, answered one at a time, in a thread beside the event loop.

A computing thread hands over the interpreter every 5 ms (CPython's switch interval). The event loop needs it again
after each system call, so an answer with a few system calls would take tens of milliseconds. With a switch interval of
a tenth of a millisecond it takes a fraction of that, and the computation takes no longer.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fluence_extender.cluster.budgets import Budget
from fluence_extender.cluster.port import TryPod
from fluence_extender.devices.allocator import selectors_of
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import short_switch_interval
from fluence_extender.model.access import EVERYTHING, CallerSight
from fluence_extender.model.dependency import Target
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.whatif.documents import TooManyPods, read_manifests
from fluence_extender.whatif.manifests import (
    SimulationRequest,
    namespaces_of,
    read_question,
    requested_gangs,
)
from fluence_extender.whatif.result_json import named_namespaces, results_as_json
from fluence_extender.whatif.simulation import Simulation
from fluence_extender.whatif.trials import try_templates

MOST_WAITING = 8
"""The most questions that may wait; more are refused."""

MOST_OF_ONE = 4
"""The most of them from one client, so that there is room for others."""

MOST_PLACES = 50_000_000
"""The most pods of a question times nodes of the cluster."""

SLICE = 0.002
"""Seconds of looking at gangs before the event loop does other work."""

LONGEST_EVALUATION, LOOK = 5.0, 0.01
"""Seconds that a question waits for the verdicts on its claims' selectors, and seconds between looks at them."""

Budgets = Callable[[], Awaitable[Sequence[Budget] | None]]
"""Returns the PodDisruptionBudgets of the cluster, None if they can't be read."""

Permit = Callable[[str], Awaitable[None]]
"""Raises the error to answer with if the client may not see what is in a namespace."""

See = Callable[[frozenset[str]], Awaitable[CallerSight]]
"""Returns which of these namespaces the client may see."""


class TooManyQuestions(Exception):
    """Too many questions are waiting; the message says how many."""


async def anything(_: str) -> None:
    """Permit every namespace. It serves where clients may see all of them."""


async def all_of_them(_: frozenset[str]) -> CallerSight:
    """Return the sight of clients that may see every namespace."""
    return EVERYTHING


class Simulator:
    """Answers what-if questions about the cluster of ``controller``.

    ``try_pod`` makes a dry run there, and ``budgets`` reads its disruption budgets.
    """

    def __init__(self, controller: Controller, try_pod: TryPod, budgets: Budgets) -> None:
        self._controller = controller
        self._try_pod = try_pod
        self._budgets = budgets
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    async def answer(
        self,
        body: bytes,
        namespace: str = "default",
        client: str = "",
        permit: Permit = anything,
        see: See = all_of_them,
    ) -> dict[str, Any]:
        """Return the answer as JSON values.

        An answer tells of PodGroups, claims, dependencies and users in the namespaces of the objects, so ``permit`` is
        asked about each of them before anything is looked up. Before the answer is worded, ``see`` is asked about the
        other namespaces of which it could name gangs.

        Raise `BadManifest`, what ``permit`` and ``see`` raise, `TooManyQuestions` if too many of all clients or of this
        one wait, and `ClusterError` if the API server can't be asked.
        """
        if (waiting := self._waiting.total()) >= MOST_WAITING:
            raise TooManyQuestions(f"{waiting} other questions are waiting to be answered")
        if self._waiting[client] >= MOST_OF_ONE:
            raise TooManyQuestions(f"{MOST_OF_ONE} questions of this client are waiting to be answered")
        self._waiting[client] += 1
        try:
            async with self._turn:
                return await self._answer(body, namespace, client, permit, see)
        finally:
            self._waiting -= Counter([client])

    async def _answer(
        self, body: bytes, namespace: str, client: str, permit: Permit, see: See
    ) -> dict[str, Any]:
        budgets = await self._budgets()
        workloads = self._controller.registry.workloads
        with short_switch_interval(), _paused_collector():
            manifests = await asyncio.to_thread(read_manifests, body)
            for one in namespaces_of(manifests, namespace):
                await permit(one)
            question = await asyncio.to_thread(read_question, manifests, namespace)
            trials = await try_templates(question.templates, question.objects, self._try_pod)
            request = await asyncio.to_thread(requested_gangs, question, trials, workloads)
            _check_size(request, len(self._controller.eligibility.nodes))
            async with self._judged(request, client):
                obstacles = await self._obstacles(request)
                view = self._controller.simulation_view()
                simulation = Simulation(view, self._controller.new_memory(), request, obstacles, budgets)
                results = await asyncio.to_thread(simulation.run)
                sight = await see(named_namespaces(results))
                return await asyncio.to_thread(results_as_json, results, request, view.calendar, sight)

    @asynccontextmanager
    async def _judged(self, request: SimulationRequest, client: str) -> AsyncIterator[None]:
        """Have the selectors of the pods' claims evaluated at the client's expense, and wait a while for the verdicts.

        The verdicts are kept within this context.
        """
        unclaimed = [gang.pods for gang in request.gangs]
        await asyncio.to_thread(_claim, request, unclaimed, self._controller)
        pods = (pod for gang in request.gangs for pod in gang.pods if pod.claims)
        wanted = list(dict.fromkeys(selectors_of(pod.claims) for pod in pods))
        judge, until = self._controller.devices.judge, time.monotonic() + LONGEST_EVALUATION
        try:
            while any(judge.want((self, at), f"client {client}", one)[1] for at, one in enumerate(wanted)):
                if time.monotonic() > until:
                    break
                await asyncio.sleep(LOOK)
            if wanted:
                await asyncio.to_thread(_claim, request, unclaimed, self._controller)
            yield
        finally:
            for at in range(len(wanted)):
                judge.drop((self, at))

    async def _obstacles(self, request: SimulationRequest) -> dict[GangKey, Reason]:
        """Return which rules would keep gangs from being tried if they were created now, a few gangs at a time."""
        lifecycle, now = self._controller.lifecycle, self._controller.queue.now()
        together, began = _targets(request), time.monotonic()
        found: dict[GangKey, Reason] = {}
        for gang in request.gangs:
            namespace = gang.key.namespace
            reason = lifecycle.admission.obstacle_of_new(
                gang.key, gang.pods, gang.submission, now, together[namespace]
            ) or lifecycle.namespace_quotas.obstacle_for_new(namespace, gang.pods)
            if reason is not None:
                found[gang.key] = reason
            if time.monotonic() - began > SLICE:
                await asyncio.sleep(0)
                began = time.monotonic()
        return found


def _targets(request: SimulationRequest) -> dict[str, set[Target]]:
    """Return the Jobs and gangs of a question by namespace."""
    targets: dict[str, set[Target]] = {}
    for gang in request.gangs:
        jobs = {pod.owner.name for pod in gang.pods if pod.owner is not None and pod.owner.kind == "Job"}
        targets.setdefault(gang.key.namespace, set()).update(
            {Target("gang", gang.key.name)}, (Target("job", name) for name in jobs)
        )
    return targets


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause automatic collection of cycles in the block, if it was on before.

    A question makes many objects that stay, so the collector finds nothing, and its rounds block the event loop.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _claim(request: SimulationRequest, unclaimed: Iterable[Sequence[Pod]], controller: Controller) -> None:
    """Give the pods of the gangs what they would claim, as far as it is known; ``unclaimed`` are they without that."""
    for gang, pods in zip(request.gangs, unclaimed, strict=True):
        gang.pods = controller.devices.asking(pods, request.claims)


def _check_size(request: SimulationRequest, nodes: int) -> None:
    """Raise `TooManyPods` if planning these gangs on so many nodes may take too long."""
    pods = sum(len(gang.pods) for gang in request.gangs)
    if pods * nodes > MOST_PLACES:
        raise TooManyPods(
            f"{pods:,} pods on {nodes:,} nodes: pods times nodes may be {MOST_PLACES:,} in one question; ask about at "
            f"most {MOST_PLACES // nodes:,} pods at once"
        )
