"""The four verbs: bytes of a request in, bytes of an answer out.

Each verb decodes, asks the placements, lets `decisions` decide and encodes. Filter, prioritize and preempt
are look-ups that change nothing; only bind waits. Invariant: a request either is refused with `BadRequest` or
gets an answer that kube-scheduler understands, also when something behind the verb fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.cluster.port import ClusterError
from fluence_extender.http.port import (
    Anywhere,
    BindRefused,
    Location,
    Nowhere,
    On,
    Scheduling,
    Unseen,
    not_ready,
)
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
from fluence_extender.http.scheduler.wire import (
    binding_args,
    binding_result,
    extender_args,
    filter_result,
    host_priorities,
    preemption_args,
    preemption_result,
)


class Outcome(StrEnum):
    """How a call ended, as the metrics count it."""

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
class Answer:
    """The body of a 200 answer and how the call ended."""

    outcome: Outcome
    body: bytes


class Verbs:
    """The verbs over one service."""

    def __init__(self, placements: Scheduling, pending: PendingBinds) -> None:
        self._placements = placements
        self._pending = pending

    async def filter(self, body: bytes, self_binding: bool = False) -> Answer:
        """Say which of the offered nodes the pod may have. Raises `BadRequest`.

        ``self_binding`` says that the caller binds the pods itself for which bind isn't called.
        """
        args = extender_args(body)
        offer = offered(args)
        pod = args.pod.asked()
        if is_ours(pod) and not self._placements.ready:
            error = not_ready(self._placements)
            return Answer(Outcome.NOT_READY, filter_result(offer.nothing(), error=error))
        if is_ours(pod) and not self._placements.leading:
            await self._placements.settled()
        location = location_of(pod, self._placements)
        verdict = filter_offer(location, offer)
        if self_binding and isinstance(verdict, OnePasses):
            location = self._placements.hand_over(pod, verdict.node)
            verdict = filter_offer(location, offer)
        if isinstance(location, Unseen):
            # An error is tried again by itself; a refusal would wait for something to happen in the cluster.
            return Answer(Outcome.NOT_READY, filter_result(offer.nothing(), error=location.reason))
        # Of one name alone nothing is learned: it may be a nominated node, or a hint that kube-scheduler tries first.
        several = len(offer.names) > 1 or (isinstance(location, On) and location.confined)
        if isinstance(verdict, NonePasses) and verdict.missed and several:
            self._placements.refused(pod, verdict.missed)
        return _filter_answer(verdict, offer)

    async def prioritize(self, body: bytes) -> Answer:
        """Score the offered nodes, 0 to 10. Raises `BadRequest`."""
        args = extender_args(body)
        offer = offered(args)
        pod = args.pod.asked()
        if is_ours(pod) and not self._placements.ready:
            return Answer(Outcome.NOT_READY, host_priorities(scores(Anywhere(), offer.names)))
        location = location_of(pod, self._placements)
        return Answer(_prioritized(location), host_priorities(scores(location, offer.names)))

    async def bind(self, body: bytes) -> Answer:
        """Bind the pod, waiting for its gang where need be. Raises `BadRequest`."""
        args = binding_args(body)
        if not self._placements.ready:
            return Answer(Outcome.NOT_READY, binding_result(not_ready(self._placements)))
        try:
            await self._pending.run(self._placements.bind(args.asked(), args.node))
        except (BindRefused, ClusterError) as error:
            return Answer(Outcome.REFUSED, binding_result(str(error) or type(error).__name__))
        return Answer(Outcome.BOUND, binding_result(""))

    async def preempt(self, body: bytes) -> Answer:
        """Drop the nodes whose victims are of a gang that would break. Raises `BadRequest`.

        The veto covers every preemptor's victims. Before we are ready no gang is known and so no node is left.
        """
        victims = preemption_args(body).victims()
        if not self._placements.ready:
            return Answer(Outcome.NOT_READY, preemption_result({}))
        kept = preemptable(victims, self._placements.may_evict)
        outcome = Outcome.ALLOWED if len(kept) == len(victims) else Outcome.VETOED
        return Answer(outcome, preemption_result(kept))


def failed_filter(error: str) -> bytes:
    """What filter answers when it couldn't be worked out."""
    return filter_result(NO_NAMES, error=error)


def failed_prioritize(error: str) -> bytes:
    """What prioritize answers when it couldn't be worked out: no opinion."""
    return host_priorities(())


def failed_preempt(error: str) -> bytes:
    """What preempt answers when it couldn't be worked out: no node, because any might break a gang."""
    return preemption_result({})


def _filter_answer(verdict: Verdict, offer: Offer) -> Answer:
    match verdict:
        case AllPass():
            return Answer(Outcome.FOREIGN, filter_result(offer.everything()))
        case OnePasses(node):
            return Answer(Outcome.PLACED, filter_result(offer.only(node)))
        case NonePasses(reason, missed):
            outcome = Outcome.NOT_OFFERED if missed else Outcome.NO_PLACE
            return Answer(outcome, filter_result(offer.nothing(), dict.fromkeys(offer.names, reason)))


def _prioritized(location: Location) -> Outcome:
    match location:
        case Anywhere():
            return Outcome.FOREIGN
        case On():
            return Outcome.SCORED
        case Nowhere() | Unseen():
            return Outcome.NO_PLACE
