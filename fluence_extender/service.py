"""The service as the HTTP shell sees it: look-ups, bindings and state, over the controller.

Everything here runs on the event loop that also feeds the controller, so an answer is never half old and half new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluence_extender.extender.port import (
    AllocationView,
    Anywhere,
    AskedPod,
    BindRefused,
    GangView,
    Location,
    MemberView,
    Nowhere,
    On,
    Unseen,
)
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.driver import CannotBind, Driver
from fluence_extender.gangs.gang import Gang, Member
from fluence_extender.graph.units import leaf_type
from fluence_extender.ledger.holding import Holding
from fluence_extender.model.gang import GangKey, GangState
from fluence_extender.model.names import SCHEDULER_NAME
from fluence_extender.model.resources import CPU, MEMORY

NOT_SEEN = "the pod has not been seen yet"
NO_PLACE_YET = "the gang is about to be placed"


class Service:
    """Implements the `Placements` port; ``missing`` says what has still to be listed, "" when nothing."""

    def __init__(self, controller: Controller, driver: Driver, missing: Callable[[], str]) -> None:
        self._controller = controller
        self._driver = driver
        self._missing = missing

    @property
    def ready(self) -> bool:
        """Whether the cluster has been listed and replayed, and is still being watched."""
        return not self.not_ready_reason

    @property
    def not_ready_reason(self) -> str:
        """What is missing, "" when ready."""
        missing = self._missing() or self._controller.books.fault
        if missing or self._controller.started:
            return missing
        return "the cluster has been listed, what runs there is being replayed"

    def locate(self, pod: AskedPod) -> Location:
        """Say where the pod is to go."""
        if pod.scheduler != SCHEDULER_NAME:
            return Anywhere()
        found = self._controller.member(pod.uid)
        if found is None:
            return Unseen(NOT_SEEN)
        gang, member = found
        if member.bound:
            return On(member.bound)
        if member.assignment is not None:
            return On(member.assignment.node)
        return Nowhere(gang.reason.text) if gang.reason is not None else Unseen(NO_PLACE_YET)

    def refused(self, pod: AskedPod, node: str) -> None:
        """Take note that the planned node wasn't offered."""
        self._controller.lifecycle.refused(pod.uid, node)

    async def bind(self, pod: AskedPod, node: str) -> None:
        """Bind the pod with its gang. Raises `BindRefused`."""
        try:
            await self._driver.bind(pod.uid, node)
        except CannotBind as refused:
            raise BindRefused(str(refused)) from refused

    def may_evict(self, uids: Sequence[str]) -> bool:
        """Whether no gang of ours would be left running below its size."""
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

    def gangs(self) -> Sequence[GangView]:
        """All gangs, by namespace and name."""
        gangs = sorted(self._controller.registry.gangs.values(), key=lambda gang: gang.key)
        return [_gang_view(gang) for gang in gangs]

    def allocations(self) -> Sequence[AllocationView]:
        """What pods of ours hold, by namespace and pod."""
        held = sorted(self._controller.books.holdings.values(), key=lambda one: (one.namespace, one.name))
        return [_allocation_view(one) for one in held]

    def graph(self, expand_leaves: bool) -> dict[str, Any]:
        """The graph as JGF, compact or in whole cores and GiB with one vertex a leaf."""
        return self._controller.books.document(expand_leaves)


def _member_view(member: Member) -> MemberView:
    assignment = member.assignment
    node = member.bound or member.pod.node or (assignment.node if assignment is not None else "")
    return MemberView(
        member.pod.name, member.pod.uid, node, assignment.backend if assignment is not None else ""
    )


def _being_bound(gang: Gang) -> str:
    """What a gang that has its places still waits for, in kube-scheduler's words where it has any."""
    refused = min(
        ((one.pod.name, one.pod.refusal) for one in gang.pending() if one.pod.refusal), default=None
    )
    return (
        "placed, being bound"
        if refused is None
        else f"placed; kube-scheduler says of {refused[0]}: {refused[1]}"
    )


def _gang_view(gang: Gang) -> GangView:
    members = sorted(gang.members.values(), key=lambda member: member.pod.name)
    reason = gang.reason.text if gang.reason is not None else ""
    if not reason and gang.state in (GangState.WAITING, GangState.PLANNED, GangState.COMMITTED):
        reason = NO_PLACE_YET if gang.state is GangState.WAITING else _being_bound(gang)
    return GangView(
        gang.key.namespace,
        gang.key.name,
        gang.state.value,
        reason,
        gang.size,
        tuple(_member_view(member) for member in members),
    )


def _allocation_view(held: Holding) -> AllocationView:
    devices: dict[str, int] = {}
    gpus = 0
    for name, amount in held.requests.items():
        leaf = leaf_type(name)
        if leaf == "gpu":
            gpus += amount
        elif leaf not in (None, "core", "memory"):
            devices[name] = amount
    for share in held.assignment.devices:
        devices[share.type] = devices.get(share.type, 0) + share.amount
    return AllocationView(
        held.namespace,
        held.name,
        held.uid,
        held.assignment.node,
        held.requests[CPU] / 1000,
        held.requests[MEMORY],
        gpus,
        held.assignment.backend,
        devices,
    )
