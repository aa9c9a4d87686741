"""The audit while the service runs: it compares the ledger with the cluster, and repairs what differs.

The audit compares the ledger with the objects as the watch has shown them. Now and then it also lists our pods, which
reveals changes that the watch has missed. It works in slices of milliseconds, between which observations come in and
filter calls are answered. Each object is compared and repaired within one slice, so a change between slices is never
taken for drift.

Invariant: a repair never moves a bound pod. If the ledger doesn't hold a planned place, the gang is planned again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import structlog

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Changed, Deleted, ListOwnPods, OwnPods
from fluence_extender.gangs.controller import Controller
from fluence_extender.model.pod import Pod
from fluence_extender.room import audit
from fluence_extender.room.audit import Drift, DriftKind
from fluence_extender.room.holdings import Firmness

log = structlog.get_logger(__name__)

SLICE = 0.002
"""Seconds of comparing at a time."""

LOOK_EVERY = 5
"""The number of audits from one list of our pods to the next."""

SHOWN_WITHIN = 5.0
"""Seconds within which the watch should show what a list has shown."""


class Auditor:
    """Audits ``controller`` every ``every`` seconds.

    ``count`` is called with the kind of each drift. ``look`` lists our pods; without it they aren't listed.
    ``watching`` returns whether the watch is connected. ``done`` is called after each audit.
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
                drifts = await self.audit()
                if self._look is not None and audits % LOOK_EVERY == 1:
                    drifts += await self.compare_with_a_fresh_list(self._look)
            except Exception:
                log.exception("an audit failed; the next one tries again")
                continue
            self._done()
            if drifts:
                mended()

    async def audit(self) -> list[Drift]:
        """Compare everything once; repair the drifts, and return them."""
        drifts: list[Drift] = []
        began = time.perf_counter()
        for drift in self.comparisons():
            if drift is not None:
                self._repair(drift)
                drifts.append(drift)
            if time.perf_counter() - began > SLICE:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return drifts

    def comparisons(self) -> Iterator[Drift | None]:
        """Compare one object after the other; yield for each how it differs, None if it doesn't. Repair nothing."""
        controller, ledger = self._controller, self._controller.ledger
        for uid in dict.fromkeys(chain(controller.pods, ledger.holdings, ledger.foreign)):
            _, member = controller.member(uid) or (None, None)
            place = member.assignment if member is not None else None
            yield audit.of_pod(ledger, uid, controller.pods.get(uid), place)
        for name in {**ledger.accounts, **controller.eligibility.nodes}:
            yield audit.of_node(ledger, name, controller.eligibility.nodes.get(name))

    def _repair(self, drift: Drift) -> None:
        self._count(drift.kind)
        if drift.kind is DriftKind.NODE_DIFFERS:
            _count_node_again(self._controller, drift.subject)
        else:
            _count_pod_again(self._controller, drift.uid)
        log.error(
            "drift found and mended",
            kind=str(drift.kind),
            object=drift.subject,
            uid=drift.uid,
            found=drift.found,
            expected=drift.expected,
        )

    # The cluster itself.

    async def compare_with_a_fresh_list(self, look: ListOwnPods) -> list[Drift]:
        """Find changes of our own pods that the watch has missed, and take them in.

        A list that differs from what the watch showed before is only a suspicion. The watch has missed the change if it
        hasn't shown it a while later, and a second list still shows the same.
        """
        before = self._controller.versions()
        try:
            suspected = _differences(await look(before), before)
            if not suspected or not self._watching():
                return []
            await asyncio.sleep(SHOWN_WITHIN)
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
            watched = self._controller.pods.get(uid)
            about = pod or watched
            if about is None:
                continue
            shown = f"version {watched.resource_version}" if watched is not None else "unknown"
            expected = f"version {pod.resource_version}" if pod is not None else "gone"
            drift = Drift(DriftKind.MISSED_BY_WATCH, about.key, shown, expected, uid)
            self._count(drift.kind)
            self._controller.observe(Changed(pod) if pod is not None else Deleted(about))
            log.error(
                "the watch has missed a pod; taken in",
                object=about.key,
                uid=uid,
                found=shown,
                expected=expected,
            )
            yield drift


def _differences(look: OwnPods, versions: Mapping[str, str]) -> dict[str, Pod | None]:
    """Return how a list differs from the ``versions`` that the watch showed: pods by uid, None for one that is gone."""
    differences: dict[str, Pod | None] = {pod.uid: pod for pod in look.changed}
    differences.update((uid, None) for uid in versions if uid not in look.uids)
    return differences


def _count_pod_again(controller: Controller, uid: str) -> None:
    """Have the ledger count what a pod uses if it has its node; otherwise take its place back."""
    ledger, pod = controller.ledger, controller.pods.get(uid)
    gang, member = controller.member(uid) or (None, None)
    runs = pod is not None and bool(pod.node) and not pod.finished
    ledger.drop_foreign(uid)
    ledger.release(uid)
    if gang is None or member is None:
        if pod is not None and runs:
            ledger.put_foreign(pod)
        return
    controller.registry.dirty.add(gang.key)
    if runs:
        gang.bind(uid, ledger.adopt(member.pod, gang.key, Firmness.BOUND))
    elif not member.bound:
        gang.unplace(uid)
    else:
        gang.change(uid, assignment=None)


def _count_node_again(controller: Controller, name: str) -> None:
    """Have the ledger count a node and its pods again."""
    controller.ledger.drop_node(name)
    node = controller.eligibility.nodes.get(name)
    if node is not None:
        controller.ledger.put_node(node)
    controller.ledger.recount(name)
