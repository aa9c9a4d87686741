"""The placements for kube-scheduler's calls, from the controller and the driver.

Everything here runs on the event loop that also feeds the controller, so an answer never mixes old and new state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.binder import CannotBind
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.http.scheduler.port import (
    Anywhere,
    BindRefused,
    Location,
    Nowhere,
    On,
    RequestedPod,
    Undecided,
)
from fluence_extender.http.state.gangs import NO_PLACE_YET
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.names import SCHEDULER_NAME

NOT_SEEN = "the pod has not been seen yet"

TAKEOVER_WAIT = 6.0
"""Seconds that a filter call waits for us to take over the lead.

An error would make kube-scheduler clear the nominations that we are about to read.
"""


SIGHT_WAIT = 1.0
"""Seconds that a filter call waits for the watch to show its pod, which it does within milliseconds.

An answer without a node would cost the pod a back-off of a second.
"""


class LivePlacements:
    """Implements the `Placements` port.

    ``missing`` returns in words what hasn't been listed yet, "" if all has. ``requested`` is called when a scheduler
    calls a replica that doesn't lead.
    """

    def __init__(
        self,
        controller: Controller,
        driver: Driver,
        missing: Callable[[], str],
        requested: Callable[[], None] = lambda: None,
    ) -> None:
        self._controller = controller
        self._driver = driver
        self._missing = missing
        self._lifecycle = controller.lifecycle
        self._requested = requested

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

    async def wait_for_lead(self) -> None:
        """Wait a few seconds at most until this replica leads."""
        self._requested()
        await self._driver.led(TAKEOVER_WAIT)

    async def wait_for_pod(self, pod: RequestedPod) -> None:
        """Wait a moment at most until the watch has shown the pod."""
        if self._driver.leading and self._controller.member(pod.uid) is None:
            await self._driver.seen(pod.uid, SIGHT_WAIT)

    def locate(self, pod: RequestedPod) -> Location:
        """Return where the pod is to run."""
        if pod.scheduler != SCHEDULER_NAME:
            return Anywhere()
        if not self._driver.leading:
            return Undecided(self._driver.fence.why_not_leading)
        found = self._controller.member(pod.uid)
        if found is None:
            return Undecided(NOT_SEEN)
        gang, member = found
        self._lifecycle.node_requested(pod.uid)
        if member.bound:
            return On(member.bound)
        if member.assignment is not None:
            gang.note(HistoryKind.FILTERED, member.pod.name, f"kube-scheduler got {member.assignment.node}")
            return On(member.assignment.node)
        return Nowhere(gang.reason.text) if gang.reason is not None else Undecided(NO_PLACE_YET)

    def refused(self, pod: RequestedPod, node: str) -> None:
        """Note that the planned node wasn't offered."""
        self._lifecycle.refused(pod.uid, node)

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
