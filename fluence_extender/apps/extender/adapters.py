"""What the HTTP listeners need of the service, provided by the controller and the driver.

Everything here runs on the event loop that also feeds the controller, so an answer never mixes old and new state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.binder import CannotBind
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.http.metrics import Counts
from fluence_extender.http.scheduler.port import (
    Anywhere,
    BindRefused,
    Location,
    Nowhere,
    On,
    RequestedPod,
    Undecided,
)
from fluence_extender.http.state import v1
from fluence_extender.http.state.backends import backend_listing
from fluence_extender.http.state.gangs import NO_PLACE_YET, allocation_listing, gang_detail, gang_listing
from fluence_extender.http.state.graph import graph
from fluence_extender.http.state.nodes import node_detail, node_listing
from fluence_extender.http.state.port import GraphExport, Listing, NotSimulated, Single
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.names import SCHEDULER_NAME
from fluence_extender.whatif.documents import BadManifest
from fluence_extender.whatif.simulator import Rules, Simulator, TooManyQuestions, no_rules

NOT_SEEN = "the pod has not been seen yet"

TAKEOVER_WAIT = 6.0
"""Seconds that a filter call waits for us to take over the lead.

An error would make kube-scheduler clear the nominations that we are about to read.
"""


class LiveReadiness:
    """Whether the service is ready. ``missing`` returns what has still to be listed, "" when nothing."""

    def __init__(self, controller: Controller, driver: Driver, missing: Callable[[], str]) -> None:
        self._controller = controller
        self._driver = driver
        self._missing = missing

    @property
    def not_ready_reason(self) -> str:
        """What is missing until the cluster is listed and replayed, or when it is no longer watched; else ""."""
        missing = self._missing()
        if missing or self._controller.started:
            return missing
        return "the cluster has been listed; the pods that run there are being replayed"

    @property
    def leading(self) -> bool:
        """Whether this replica decides and writes."""
        return self._driver.leading


class LivePlacements(LiveReadiness):
    """Implements the `Placements` port. ``requested`` is called when a scheduler calls a replica that doesn't lead."""

    def __init__(
        self,
        controller: Controller,
        driver: Driver,
        missing: Callable[[], str],
        requested: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(controller, driver, missing)
        self._lifecycle = controller.lifecycle
        self._requested = requested

    async def wait_for_lead(self) -> None:
        """Wait a few seconds at most until this replica leads."""
        self._requested()
        await self._driver.led(TAKEOVER_WAIT)

    def locate(self, pod: RequestedPod) -> Location:
        """Return where the pod is to run."""
        if pod.scheduler != SCHEDULER_NAME:
            return Anywhere()
        if not self._driver.leading:
            return Undecided(self._driver.why_not_leading)
        found = self._controller.member(pod.uid)
        if found is None:
            return Undecided(NOT_SEEN)
        gang, member = found
        self._lifecycle.node_requested(pod.uid)
        if member.bound:
            return On(member.bound)
        if member.assignment is not None:
            gang.note(HistoryKind.FILTERED, member.pod.name, f"kube-scheduler got {member.assignment.node}")
            return On(member.assignment.node, bool(member.pod.pinned_to))
        return Nowhere(gang.reason.text) if gang.reason is not None else Undecided(NO_PLACE_YET)

    def refused(self, pod: RequestedPod, node: str) -> None:
        """Note that the planned node wasn't offered."""
        self._lifecycle.refused(pod.uid, node)

    def hand_over(self, pod: RequestedPod, node: str) -> Location:
        """Let kube-scheduler bind the pod to ``node``; see the port."""
        found = self._controller.member(pod.uid)
        if found is None or found[1].bound or found[1].pod.marked:
            return On(node)
        gang, member = found
        denied = self._lifecycle.hand_over(gang, member)
        if denied is None:
            return On(node)
        return Nowhere(denied.text) if denied.for_good else Undecided(denied.text)

    async def bind(self, pod: RequestedPod, node: str) -> None:
        """Bind the pod with its gang. Raises `BindRefused`."""
        try:
            await self._driver.binder.bind(pod.uid, node)
        except CannotBind as refused:
            raise BindRefused(str(refused)) from refused

    def may_evict(self, uids: Sequence[str]) -> bool:
        """Whether we lead, and no gang of ours would be left running below its size."""
        if not self._driver.leading:
            return False
        leaving = set(uids)
        touched: dict[GangKey, Gang] = {}
        for uid in leaving:
            found = self._controller.member(uid)
            if found is not None:
                touched[found[0].key] = found[0]
        for gang in touched.values():
            staying = sum(1 for member in gang.alive() if member.pod.uid not in leaving)
            if staying and staying + gang.ended < gang.size:
                return False
        return True


class LiveState(LiveReadiness):
    """Implements the `StateSource` port. ``rules`` reads what of the cluster preemption depends on."""

    def __init__(
        self,
        controller: Controller,
        driver: Driver,
        missing: Callable[[], str],
        rules: Rules = no_rules,
    ) -> None:
        super().__init__(controller, driver, missing)
        self._simulator = Simulator(controller, rules)

    def gangs(self, gone: bool = False) -> Listing[v1.Gang]:
        """Return all gangs, by namespace and name."""
        return gang_listing(self._controller, gone)

    def gang(self, namespace: str, name: str, convention: str = "") -> Single[v1.GangDetail] | None:
        """Return one gang with its history."""
        return gang_detail(self._controller, namespace, name, convention, self.leading)

    def allocations(self) -> Listing[v1.Allocation]:
        """Return what pods of ours hold, by namespace and pod."""
        return allocation_listing(self._controller)

    def nodes(self) -> Listing[v1.Node]:
        """Return all nodes, by name."""
        return node_listing(self._controller)

    def node(self, name: str) -> Single[v1.NodeDetail] | None:
        """Return one node with the pods that use it."""
        return node_detail(self._controller, name, self.leading)

    def backends(self) -> Listing[v1.Backend]:
        """Return all virtual devices."""
        return backend_listing(self._controller)

    def graph(self, expand: bool) -> GraphExport:
        """Return the graph as JGF, compact or in whole cores and GiB with one vertex for each leaf."""
        return graph(self._controller, expand)

    def counts(self) -> Counts:
        """Return how many gangs there are in each state, and how many pods have an allocation."""
        states = Counter(gang.state.value for gang in self._controller.registry.gangs.values())
        return Counts(states, len(self._controller.ledger.allocations))

    async def simulate(self, manifests: bytes, namespace: str) -> dict[str, Any]:
        """Return what would become of the gangs of ``manifests``. Raises `NotSimulated`."""
        try:
            return await self._simulator.answer(manifests, namespace)
        except BadManifest as bad:
            raise NotSimulated(400, str(bad)) from bad
        except TooManyQuestions as many:
            raise NotSimulated(429, str(many)) from many
