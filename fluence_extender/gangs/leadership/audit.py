"""The audit while the service runs: it compares the ledger with the cluster, and repairs what differs.

The audit compares the objects as the watch shows them. Now and then it also lists our pods, which reveals lost
observations. It works in slices of milliseconds, between which observations come in and filter calls are answered. Each
object is compared and repaired within one slice, so a change between slices is never taken for drift.

Invariant: a repair never moves a bound pod. It takes a planned place away only if the ledger can't hold it, and then
the gang is planned anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import structlog

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Changed, Deleted, Kind, ListOwnPods, OwnPods
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.room import audit
from fluence_extender.room.audit import Drift, DriftKind
from fluence_extender.room.holdings import Strength

log = structlog.get_logger(__name__)

SLICE = 0.002
"""Seconds of comparing at a time."""

LOOK_EVERY = 5
"""The number of audits from one list of our pods to the next."""

SETTLE = 5.0
"""Seconds within which the watch should show what a list has shown."""


class Auditor:
    """Audits ``controller`` every ``every`` seconds.

    ``count`` is called with the kind of each drift. ``look`` lists our pods (None: they aren't listed). ``watching``
    returns whether the watch is connected. ``done`` is called after each audit.
    """

    def __init__(
        self,
        controller: Controller,
        count: Callable[[DriftKind], None],
        look: ListOwnPods | None = None,
        watching: Callable[[], bool] = lambda: True,
        every: float = 60.0,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._controller = controller
        self._count = count
        self._look = look
        self._watching = watching
        self._every = every
        self._done = done

    async def run(self, mended: Callable[[], None]) -> None:
        """Audit until cancelled; ``mended`` is called after an audit that found drift."""
        audits = 0
        while True:
            await asyncio.sleep(self._every)
            if not self._controller.started:
                continue
            audits += 1
            try:
                found = await self.audit()
                if self._look is not None and audits % LOOK_EVERY == 1:
                    found += await self.compare_with_a_fresh_list(self._look)
            except Exception:
                log.exception("an audit failed; the next one tries again")
                continue
            self._done()
            if found:
                mended()

    async def audit(self) -> list[Drift]:
        """Compare everything once; repair the drifts, and return them."""
        found: list[Drift] = []
        began = time.perf_counter()
        for differences in self.comparisons():
            for drift in differences:
                self._mend(drift)
                found.append(drift)
            if time.perf_counter() - began > SLICE:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return found

    def comparisons(self) -> Iterator[list[Drift]]:
        """Iterate over the drifts of one object after the other; nothing is repaired."""
        controller, ledger = self._controller, self._controller.ledger
        for uid in list(controller.pods):
            pod = controller.pods.get(uid)
            if pod is not None:
                yield list(audit.of_pod(ledger, pod, self._place(uid)))
        for uid in list(ledger.foreign):
            if uid not in controller.pods:
                yield list(audit.of_foreign_gone(ledger, uid))
        for uid in list(ledger.holdings):
            held = ledger.holdings.get(uid)
            if held is not None:
                yield list(audit.of_holding(ledger, held, controller.pods.get(uid), self._place(uid)))
        for name in {**ledger.accounts, **controller.eligibility.nodes}:
            yield list(audit.of_node(ledger, name, controller.eligibility.nodes.get(name)))

    def _place(self, uid: str) -> Assignment | None:
        found = self._controller.member(uid)
        return found[1].assignment if found is not None else None

    def _mend(self, drift: Drift) -> None:
        self._count(drift.kind)
        done = repair(self._controller, drift)
        log.error(
            "drift found and mended",
            kind=str(drift.kind),
            object=drift.subject,
            uid=drift.uid,
            found=drift.found,
            expected=drift.expected,
            repair=done,
        )

    # The cluster itself.

    async def compare_with_a_fresh_list(self, look: ListOwnPods) -> list[Drift]:
        """Find what the watch has missed of our own pods, and take it in.

        A list that differs from what the watch showed before is only a suspicion. The watch has missed the change if it
        hasn't shown it a while later, and a second list still shows the same.
        """
        before = self._controller.versions()
        try:
            suspected = _differences(await look(before), before)
            if not suspected or not self._watching():
                return []
            await asyncio.sleep(SETTLE)
            again = self._controller.versions()
            if not self._watching():
                return []
            confirmed = _differences(await look(again), again)
        except ClusterError as error:
            log.info("our pods could not be listed for the audit", error=str(error))
            return []
        return list(self._take_in(suspected, confirmed, before))

    def _take_in(
        self,
        suspected: Mapping[str, Pod | None],
        confirmed: Mapping[str, Pod | None],
        before: Mapping[str, str],
    ) -> Iterable[Drift]:
        now = self._controller.versions()
        for uid, pod in suspected.items():
            if uid not in confirmed or confirmed[uid] != pod or now.get(uid) != before.get(uid):
                continue
            known = self._controller.pods.get(uid)
            about = pod or known
            if about is None:
                continue
            found = f"version {known.resource_version}" if known is not None else "unknown"
            expected = f"version {pod.resource_version}" if pod is not None else "gone"
            drift = Drift(DriftKind.MISSED_BY_WATCH, about.key, found, expected, uid, about.node)
            self._count(drift.kind)
            self._controller.observe(Changed(Kind.POD, pod) if pod is not None else Deleted(Kind.POD, about))
            log.error(
                "the watch has missed a pod; taken in",
                object=about.key,
                uid=uid,
                found=found,
                expected=expected,
            )
            yield drift


def _differences(look: OwnPods, known: Mapping[str, str]) -> dict[str, Pod | None]:
    """Return how a list differs from ``known``: the pods by uid, None for one that is gone."""
    found: dict[str, Pod | None] = {pod.uid: pod for pod in look.changed}
    found.update((uid, None) for uid in known if uid not in look.uids)
    return found


def repair(controller: Controller, drift: Drift) -> str:
    """Repair one drift; return what was done, in a few words for the log."""
    ledger = controller.ledger
    match drift.kind:
        case DriftKind.FOREIGN_DIFFERS:
            return _count_foreign(controller, drift.uid)
        case DriftKind.NODE_DIFFERS:
            return _take_node(controller, drift.node)
        case DriftKind.ACCOUNT_DIFFERS:
            ledger.recount(drift.node)
            return "the node was counted anew"
    found = controller.member(drift.uid)
    if found is None:
        ledger.release(drift.uid)
        return "the hold was released"
    return _mend_member(controller, *found, drift)


def _mend_member(controller: Controller, gang: Gang, member: Member, drift: Drift) -> str:
    ledger, pod = controller.ledger, member.pod
    controller.registry.dirty.add(gang.key)
    if pod.finished or not pod.node:
        ledger.release(pod.uid)
        if not member.bound:
            member.take_back()
        member.assignment = None
        return "the hold was released"
    member.bind(gang.key, None)
    if drift.kind is DriftKind.WRONG_AMOUNT:
        ledger.amend(pod)
        return "counted anew"
    if drift.kind is DriftKind.WRONG_STRENGTH:
        ledger.strengthen(pod.uid, Strength.BOUND)
        return "the claim was raised"
    held = ledger.holdings.get(pod.uid)
    if drift.kind is DriftKind.PLAN_DIFFERS and held is not None:
        member.assignment = held.assignment
        return "the plan follows the hold"
    member.assignment = ledger.adopt(pod, gang.key, Strength.BOUND)
    return "taken into the ledger anew"


def _count_foreign(controller: Controller, uid: str) -> str:
    controller.ledger.drop_foreign(uid)
    pod = controller.pods.get(uid)
    if pod is None or pod.ours or not pod.node or pod.finished:
        return "not counted any more"
    controller.ledger.put_foreign(pod)
    return "counted anew"


def _take_node(controller: Controller, name: str) -> str:
    controller.ledger.drop_node(name)
    node = controller.eligibility.nodes.get(name)
    if node is None:
        return "the node was taken out"
    controller.ledger.put_node(node)
    return "the node was taken in anew"
