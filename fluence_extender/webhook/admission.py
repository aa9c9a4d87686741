"""Decide one review: look up what the object needs, make its patch, write the answer.

Invariants: the answer to a readable review allows the object. If the patch can't be made, the object is allowed without
a patch and with a warning. A pod is judged by one context from beginning to end. A review may come from any client, so
it creates nothing in a user's namespace: objects that a pod needs are created once the pod exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from fluence_extender.webhook.contract import (
    AdmissionRequest,
    Context,
    Json,
    Outcome,
    OwnedPods,
    ProducerUnknown,
)
from fluence_extender.webhook.declaration import NUMBERED, UNDECIDED, PodDeclaration, Unfit, read_declaration
from fluence_extender.webhook.limit_ranges import Bounds
from fluence_extender.webhook.metrics import ReviewResult
from fluence_extender.webhook.mutate import concerns, is_shared_by_its_job, mutate, settle_role
from fluence_extender.webhook.notes import with_note
from fluence_extender.webhook.review import Review, encode_answer, read_review

log = structlog.get_logger(__name__)


class Lookups(Protocol):
    """Queries to the API server before a pod is patched; see `lookups.ApiLookups`."""

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        """Return whether the request ``uid`` is to create the producer of ``group``. Raises `ProducerUnknown`."""
        ...

    async def bounds(self, namespace: str) -> Bounds:
        """Return the bounds that the LimitRanges of ``namespace`` set for containers. Doesn't raise."""
        ...

    async def owned(self, namespace: str, kind: str, name: str) -> OwnedPods | None:
        """Return which pods a Job or StatefulSet wants, None if unknown. Doesn't raise."""
        ...


class Admission:
    """Answers reviews with ``handlers``, each by the context that ``context`` returns at that time."""

    def __init__(self, handlers: Sequence[str], context: Callable[[], Context], lookups: Lookups) -> None:
        self._handlers = tuple(handlers)
        self._context = context
        self._lookups = lookups

    async def decide(self, body: bytes) -> tuple[bytes, ReviewResult, int]:
        """Return the answer to a review, its result, and how many warnings it has. Raises `review.BadReview`."""
        review = read_review(body)
        try:
            result, outcome = await self._outcome(review)
            return encode_answer(review.request.uid, outcome), result, len(outcome.warnings)
        except Exception as error:
            request = review.request
            log.exception("a pod is admitted as it is", namespace=request.namespace, name=request.name)
            warning = (
                f"fluence admitted the pod as it is, because of an internal error ({type(error).__name__}): "
                "see the webhook's log"
            )
            outcome = Outcome(warnings=(warning,))
            # The same error may come again, and without its note the pod must still be admitted.
            with suppress(Exception):
                if review.pod is not None and concerns(review.pod, request):
                    outcome = with_note(review.pod, outcome)
            return encode_answer(request.uid, outcome), ReviewResult.FAILED, 1

    async def _outcome(self, review: Review) -> tuple[ReviewResult, Outcome]:
        if review.pod is None:
            warning = f"fluence admitted the object as it is: {review.unreadable}"
            return ReviewResult.UNREADABLE, Outcome(warnings=(warning,))
        pod, request, context = review.pod, review.request, self._context()
        declared = _declared(pod, request)
        if declared is not None:
            request = await look_up(declared, request, self._handlers, self._lookups)
        outcome = mutate(pod, request, self._handlers, context, declared)
        result = ReviewResult.PATCHED if outcome.patch else ReviewResult.UNCHANGED
        return result, with_note(pod, outcome)


def _declared(pod: Json, request: AdmissionRequest) -> PodDeclaration | None:
    """Return the pod's declaration, None if it doesn't matter or if the pod is unfit, which `mutate` reports."""
    try:
        return read_declaration(pod) if concerns(pod, request) else None
    except Unfit:
        return None


async def look_up(
    declared: PodDeclaration,
    request: AdmissionRequest,
    handlers: Sequence[str],
    lookups: Lookups,
) -> AdmissionRequest:
    """Return the request with the answers to the queries for this pod; most pods need none.

    The owner comes first and the producer second, because each answer decides what else the pod needs.
    """
    settled = settle_role(declared, request, handlers)
    if _needs_owner(declared, settled):
        request = replace(request, owned=await lookups.owned(request.namespace, *settled.owner))
        settled = settle_role(declared, request, handlers)
    if declared.role == UNDECIDED and settled.role and not request.dry_run:
        try:
            produces = await lookups.is_producer(request.namespace, settled.group, request.uid)
            request = replace(request, produces=produces)
        except ProducerUnknown as error:
            request = replace(request, producer_unknown=str(error))
        settled = settle_role(declared, request, handlers)
    if not settled.quantum or "quantum" not in handlers:
        return request
    if request.bounds is None:
        request = replace(request, bounds=await lookups.bounds(request.namespace))
    return request


def _needs_owner(declared: PodDeclaration, settled: PodDeclaration) -> bool:
    """Return whether the pod's owner decides its role."""
    return bool(settled.role) and (declared.role == NUMBERED or is_shared_by_its_job(settled))
