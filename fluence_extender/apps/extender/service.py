"""The service as the HTTP shell sees it: look-ups, bindings and state, over the controller.

Everything here runs on the event loop that also feeds the controller, so an answer is never half old and half new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.binder import CannotBind
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.lifecycle.handover import marked_go_first, unbindable
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.http.port import (
    Anywhere,
    AskedPod,
    BindRefused,
    Location,
    NotSimulated,
    Nowhere,
    On,
    Unseen,
)
from fluence_extender.http.state.backends import device_listing
from fluence_extender.http.state.gangs import NO_PLACE_YET, allocation_listing, gang_listing, gang_story
from fluence_extender.http.state.graph import graph
from fluence_extender.http.state.nodes import node_listing, node_story
from fluence_extender.http.state.state import (
    AllocationView,
    Counts,
    DeviceView,
    GangStory,
    GangView,
    Graph,
    Listing,
    NodeStory,
    NodeView,
)
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.names import MARK_RESOURCE, SCHEDULER_NAME
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.whatif.documents import BadManifest
from fluence_extender.whatif.live import Rules, Simulator, TooMany, nothing_known

NOT_SEEN = "the pod has not been seen yet"
UNMARKED = (
    f"asks for devices and not for {MARK_RESOURCE}, so that nobody could tell it which ones it got: create it anew "
    "where fluence's admission policy or webhook is installed, or start kube-scheduler with what "
    "`fluence-extender scheduler-config --barrier` prints"
)
NOT_ITS_TURN = "waiting for the members of its gang that are bound together"


PATIENCE = 6.0
"""Seconds that a filter call waits for us to take over: an error would clear the nominations we are about to read."""


class Service:
    """Implements the `Placements` port.

    ``missing`` says what has still to be listed, "" when nothing; ``asked`` is told that a scheduler calls a replica
    that stands by; ``rules`` reads what of the cluster preemption depends on.
    """

    def __init__(
        self,
        controller: Controller,
        driver: Driver,
        missing: Callable[[], str],
        asked: Callable[[], None] = lambda: None,
        rules: Rules = nothing_known,
    ) -> None:
        self._controller = controller
        self._driver = driver
        self._missing = missing
        self._asked = asked
        self._simulator = Simulator(controller, rules)

    @property
    def ready(self) -> bool:
        """Whether the cluster has been listed and replayed, and is still being watched."""
        return not self.not_ready_reason

    @property
    def not_ready_reason(self) -> str:
        """What is missing, "" when ready."""
        missing = self._missing()
        if missing or self._controller.started:
            return missing
        return "the cluster has been listed, what runs there is being replayed"

    @property
    def leading(self) -> bool:
        """Whether this replica decides and writes."""
        return self._driver.leading

    async def settled(self) -> None:
        """Wait until this replica leads, for a few seconds at most."""
        self._asked()
        await self._driver.led(PATIENCE)

    def locate(self, pod: AskedPod) -> Location:
        """Say where the pod is to go."""
        if pod.scheduler != SCHEDULER_NAME:
            return Anywhere()
        if not self._driver.leading:
            return Unseen(self._driver.why_not_leading)
        found = self._controller.member(pod.uid)
        if found is None:
            return Unseen(NOT_SEEN)
        gang, member = found
        self._controller.lifecycle.asked(pod.uid)
        if member.bound:
            return On(member.bound)
        if member.assignment is not None:
            gang.note(
                HistoryKind.FILTERED, member.pod.name, f"kube-scheduler was told {member.assignment.node}"
            )
            return On(member.assignment.node, bool(member.pod.pinned_to))
        return Nowhere(gang.reason.text) if gang.reason is not None else Unseen(NO_PLACE_YET)

    def refused(self, pod: AskedPod, node: str) -> None:
        """Take note that the planned node wasn't offered."""
        self._controller.lifecycle.refused(pod.uid, node)

    def hand_over(self, pod: AskedPod, node: str) -> Location:
        """See `Placements.hand_over`."""
        found = self._controller.member(pod.uid)
        if found is None or found[1].bound or found[1].pod.marked:
            return On(node)
        gang, member = found
        unmarked = unbindable(gang, member)
        if unmarked is not None:
            why = Reason(ReasonCode.REFUSED_BY_FILTERS, f"{unmarked.pod.name} {UNMARKED}")
            self._controller.lifecycle.resting.unbindable(gang, unmarked, why)
            return Nowhere(why.text)
        if marked_go_first(gang):
            # kube-scheduler will clear its nomination, which says nothing about the node.
            member.excused = bool(member.pod.nominated)
            return Unseen(NOT_ITS_TURN)
        self._controller.lifecycle.producer_annotation(gang, member)
        return On(node)

    async def bind(self, pod: AskedPod, node: str) -> None:
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

    async def simulate(self, manifests: bytes, namespace: str) -> dict[str, Any]:
        """Say what would become of the gangs of ``manifests``. Raises `NotSimulated`."""
        try:
            return await self._simulator.answer(manifests, namespace)
        except BadManifest as bad:
            raise NotSimulated(400, str(bad)) from bad
        except TooMany as many:
            raise NotSimulated(429, str(many)) from many

    def gangs(self, gone: bool = False) -> Listing[GangView]:
        """All gangs, by namespace and name."""
        return gang_listing(self._controller, gone)

    def gang(self, namespace: str, name: str, convention: str = "") -> GangStory | None:
        """One gang with its history."""
        return gang_story(self._controller, namespace, name, convention)

    def allocations(self) -> Listing[AllocationView]:
        """What pods of ours hold, by namespace and pod."""
        return allocation_listing(self._controller)

    def nodes(self) -> Listing[NodeView]:
        """All nodes, by name."""
        return node_listing(self._controller)

    def node(self, name: str) -> NodeStory | None:
        """One node with the pods that use it."""
        return node_story(self._controller, name)

    def backends(self) -> Listing[DeviceView]:
        """All virtual devices."""
        return device_listing(self._controller)

    def graph(self, expand: bool) -> Graph:
        """The graph as JGF, compact or in whole cores and GiB with one vertex a leaf."""
        return graph(self._controller, expand)

    def counts(self) -> Counts:
        """How many gangs there are in each state, and how many pods hold something."""
        states = Counter(gang.state.value for gang in self._controller.registry.gangs.values())
        return Counts(states, len(self._controller.ledger.allocations))
