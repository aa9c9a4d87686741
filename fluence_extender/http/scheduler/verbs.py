"""The four verbs: bytes of a request in, bytes of an answer out.

Each verb decodes, looks the placement up, and encodes. Filter, prioritize and preempt are look-ups that change nothing;
only bind waits. Invariant: a request is either refused with `BadRequest` or gets an answer that kube-scheduler
understands, also when something behind the verb fails.

Rules of the protocol (kube-scheduler's extender.go): a node that is refused as unresolvable is no preemption candidate,
which is right for a pod whose place is planned elsewhere. The texts become part of the pod's condition, and
kube-scheduler wakes the pod when they change. So they change only when the plan does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.http.readiness import not_ready
from fluence_extender.http.scheduler.offer import NO_NAMES, Offer, offered
from fluence_extender.http.scheduler.pending import PendingBinds
from fluence_extender.http.scheduler.port import (
    Anywhere,
    BindRefused,
    Location,
    Nowhere,
    On,
    Placements,
    RequestedPod,
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
from fluence_extender.model.names import SCHEDULER_NAME

# kube-scheduler's MaxExtenderPriority.
TOP_SCORE = 10


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

    async def filter(self, body: bytes) -> VerbAnswer:
        """Answer which of the offered nodes the pod may have. Raises `BadRequest`."""
        args = extender_args(body)
        offer = offered(args)
        pod = args.pod.requested()
        if _is_ours(pod):
            if missing := self._placements.not_ready_reason:
                return _retried(not_ready(missing))
            if not self._placements.leading:
                await self._placements.wait_for_lead()
            await self._placements.wait_for_pod(pod)
        location = self._location_of(pod)
        match location:
            case Anywhere():
                return VerbAnswer(VerbOutcome.FOREIGN, filter_result(offer.everything()))
            case On(node) if offer.holds(node):
                return VerbAnswer(VerbOutcome.PLACED, filter_result(offer.only(node)))
            case On(node):
                # A single name is no evidence: it may be a nominated node, or a hint that kube-scheduler tries first.
                if len(offer.names) > 1:
                    self._placements.refused(pod, node)
                reason = f"planned on node {node}, which isn't among the nodes offered"
                return _none_passes(VerbOutcome.NOT_OFFERED, offer, reason)
            case Nowhere(reason):
                return _none_passes(VerbOutcome.NO_PLACE, offer, reason)
            case Undecided(reason):
                return _retried(reason)

    async def prioritize(self, body: bytes) -> VerbAnswer:
        """Score the offered nodes, 0 to 10. Raises `BadRequest`."""
        args = extender_args(body)
        offer = offered(args)
        pod = args.pod.requested()
        if _is_ours(pod) and self._placements.not_ready_reason:
            return VerbAnswer(VerbOutcome.NOT_READY, host_priorities(_scores(Anywhere(), offer.names)))
        location = self._location_of(pod)
        return VerbAnswer(_prioritized(location), host_priorities(_scores(location, offer.names)))

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
        may_evict = self._placements.may_evict
        kept = {node: found for node, found in victims.items() if not found.pods or may_evict(found.uids())}
        outcome = VerbOutcome.ALLOWED if len(kept) == len(victims) else VerbOutcome.VETOED
        return VerbAnswer(outcome, preemption_result(kept))

    def _location_of(self, pod: RequestedPod) -> Location:
        """Return where the pod is to run. A foreign pod may run anywhere, even before we are ready."""
        return self._placements.locate(pod) if _is_ours(pod) else Anywhere()


def failed_filter(error: str) -> bytes:
    """Return the answer of a filter call that failed."""
    return filter_result(NO_NAMES, error=error)


def failed_prioritize(error: str) -> bytes:
    """Return the answer of a prioritize call that failed: no opinion."""
    return host_priorities(())


def failed_preempt(error: str) -> bytes:
    """Return the answer of a preempt call that failed: no node, because any might break a gang."""
    return preemption_result({})


def _is_ours(pod: RequestedPod) -> bool:
    """Return whether we are the pod's scheduler; a foreign pod never waits for us."""
    return pod.scheduler == SCHEDULER_NAME


def _none_passes(outcome: VerbOutcome, offer: Offer, reason: str) -> VerbAnswer:
    return VerbAnswer(outcome, filter_result(NO_NAMES, dict.fromkeys(offer.names, reason)))


def _retried(error: str) -> VerbAnswer:
    """Return an error, after which kube-scheduler retries; after a refusal it would wait for an event."""
    return VerbAnswer(VerbOutcome.NOT_READY, filter_result(NO_NAMES, error=error))


def _scores(location: Location, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield a score for each name: the planned node gets the highest, all others get 0."""
    planned = location.node if isinstance(location, On) else None
    return ((name, TOP_SCORE if name == planned else 0) for name in names)


def _prioritized(location: Location) -> VerbOutcome:
    match location:
        case Anywhere():
            return VerbOutcome.FOREIGN
        case On():
            return VerbOutcome.SCORED
        case Nowhere() | Undecided():
            return VerbOutcome.NO_PLACE
