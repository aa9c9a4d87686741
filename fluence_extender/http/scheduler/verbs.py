"""The four verbs: bytes of a request in, bytes of an answer out.

Each verb decodes, looks the placement up, lets `decisions` decide, and encodes. Filter, prioritize and preempt are
look-ups that change nothing; only bind waits. Invariant: a request is either refused with `BadRequest` or gets an
answer that kube-scheduler understands, also when something behind the verb fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.http.readiness import not_ready
from fluence_extender.http.scheduler.decisions import (
    AllPass,
    NonePasses,
    OnePasses,
    Verdict,
    filter_offer,
    is_ours,
    location_of,
    preemptable,
    scores,
)
from fluence_extender.http.scheduler.offer import NO_NAMES, Offer, offered
from fluence_extender.http.scheduler.pending import PendingBinds
from fluence_extender.http.scheduler.port import (
    Anywhere,
    BindRefused,
    Location,
    Nowhere,
    On,
    Placements,
    Undecided,
)
from fluence_extender.http.scheduler.wire import (
    binding_args,
    binding_result,
    extender_args,
    filter_result,
    host_priorities,
    preemption_args,
    preemption_result,
)


class VerbOutcome(StrEnum):
    """How a call ended, for the metrics."""

    FOREIGN = "foreign"
    PLACED = "placed"
    NOT_OFFERED = "not-offered"
    NO_PLACE = "no-place"
    NOT_READY = "not-ready"
    SCORED = "scored"
    BOUND = "bound"
    REFUSED = "refused"
    VETOED = "vetoed"
    ALLOWED = "allowed"
    BAD_REQUEST = "bad-request"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class VerbAnswer:
    """The body of a 200 answer and how the call ended."""

    outcome: VerbOutcome
    body: bytes


class Verbs:
    """The verbs over one service."""

    def __init__(self, placements: Placements, pending: PendingBinds) -> None:
        self._placements = placements
        self._pending = pending

    async def filter(self, body: bytes, self_binding: bool = False) -> VerbAnswer:
        """Answer which of the offered nodes the pod may have. Raises `BadRequest`.

        ``self_binding`` means that the caller itself binds the pods for which it doesn't call bind.
        """
        args = extender_args(body)
        offer = offered(args)
        pod = args.pod.requested()
        if is_ours(pod) and (missing := self._placements.not_ready_reason):
            return VerbAnswer(VerbOutcome.NOT_READY, filter_result(offer.nothing(), error=not_ready(missing)))
        if is_ours(pod) and not self._placements.leading:
            await self._placements.wait_for_lead()
        location = location_of(pod, self._placements)
        verdict = filter_offer(location, offer)
        if self_binding and isinstance(verdict, OnePasses):
            location = self._placements.hand_over(pod, verdict.node)
            verdict = filter_offer(location, offer)
        if isinstance(location, Undecided):
            # kube-scheduler retries after an error; after a refusal it would wait for an event in the cluster.
            return VerbAnswer(VerbOutcome.NOT_READY, filter_result(offer.nothing(), error=location.reason))
        # A single name teaches nothing: it may be a nominated node, or a hint that kube-scheduler tries first.
        several = len(offer.names) > 1 or (isinstance(location, On) and location.confined)
        if isinstance(verdict, NonePasses) and verdict.missed and several:
            self._placements.refused(pod, verdict.missed)
        return _filter_answer(verdict, offer)

    async def prioritize(self, body: bytes) -> VerbAnswer:
        """Score the offered nodes, 0 to 10. Raises `BadRequest`."""
        args = extender_args(body)
        offer = offered(args)
        pod = args.pod.requested()
        if is_ours(pod) and self._placements.not_ready_reason:
            return VerbAnswer(VerbOutcome.NOT_READY, host_priorities(scores(Anywhere(), offer.names)))
        location = location_of(pod, self._placements)
        return VerbAnswer(_prioritized(location), host_priorities(scores(location, offer.names)))

    async def bind(self, body: bytes) -> VerbAnswer:
        """Bind the pod, waiting for its gang if necessary. Raises `BadRequest`."""
        args = binding_args(body)
        if missing := self._placements.not_ready_reason:
            return VerbAnswer(VerbOutcome.NOT_READY, binding_result(not_ready(missing)))
        try:
            await self._pending.run(self._placements.bind(args.requested(), args.node))
        except (BindRefused, ClusterError) as error:
            return VerbAnswer(VerbOutcome.REFUSED, binding_result(str(error) or type(error).__name__))
        return VerbAnswer(VerbOutcome.BOUND, binding_result(""))

    async def preempt(self, body: bytes) -> VerbAnswer:
        """Drop the nodes whose victims belong to a gang that would break. Raises `BadRequest`.

        The veto covers every preemptor's victims. Before we are ready no gang is known, so no node is left.
        """
        victims = preemption_args(body).victims()
        if self._placements.not_ready_reason:
            return VerbAnswer(VerbOutcome.NOT_READY, preemption_result({}))
        kept = preemptable(victims, self._placements.may_evict)
        outcome = VerbOutcome.ALLOWED if len(kept) == len(victims) else VerbOutcome.VETOED
        return VerbAnswer(outcome, preemption_result(kept))


def failed_filter(error: str) -> bytes:
    """Return the answer of a filter call that failed."""
    return filter_result(NO_NAMES, error=error)


def failed_prioritize(error: str) -> bytes:
    """Return the answer of a prioritize call that failed: no opinion."""
    return host_priorities(())


def failed_preempt(error: str) -> bytes:
    """Return the answer of a preempt call that failed: no node, because any might break a gang."""
    return preemption_result({})


def _filter_answer(verdict: Verdict, offer: Offer) -> VerbAnswer:
    match verdict:
        case AllPass():
            return VerbAnswer(VerbOutcome.FOREIGN, filter_result(offer.everything()))
        case OnePasses(node):
            return VerbAnswer(VerbOutcome.PLACED, filter_result(offer.only(node)))
        case NonePasses(reason, missed):
            outcome = VerbOutcome.NOT_OFFERED if missed else VerbOutcome.NO_PLACE
            return VerbAnswer(outcome, filter_result(offer.nothing(), dict.fromkeys(offer.names, reason)))


def _prioritized(location: Location) -> VerbOutcome:
    match location:
        case Anywhere():
            return VerbOutcome.FOREIGN
        case On():
            return VerbOutcome.SCORED
        case Nowhere() | Undecided():
            return VerbOutcome.NO_PLACE
