"""One review after another: what a pod needs is settled, its patch made, the answer written.

Invariants: the answer to a review that can be read allows the pod, also where making the patch fails, then without
one and with a warning; a pod is judged by one context from beginning to end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from fluence_extender.webhook.before import Accounts, Claims, LimitRanges, settle
from fluence_extender.webhook.contract import Context, Json, Outcome, Request
from fluence_extender.webhook.metrics import Answered
from fluence_extender.webhook.mutate import concerns, look, mutate
from fluence_extender.webhook.review import Review, answer, read_review
from fluence_extender.webhook.subject import Subject, Unfit

log = structlog.get_logger(__name__)


class Admission:
    """Answers with ``handlers`` by the newest ``context``."""

    def __init__(
        self,
        handlers: Sequence[str],
        context: Callable[[], Context],
        accounts: Accounts,
        claims: Claims,
        limits: LimitRanges,
    ) -> None:
        self._handlers = tuple(handlers)
        self._context = context
        self._accounts = accounts
        self._claims = claims
        self._limits = limits

    async def decide(self, body: bytes) -> tuple[bytes, Answered, int]:
        """The answer to a review, how it ended, and how many warnings it has. Raises `review.BadReview`."""
        review = read_review(body)
        try:
            ended, outcome = await self._outcome(review)
            return answer(review.request.uid, outcome), ended, len(outcome.warnings)
        except Exception as error:
            request = review.request
            log.exception("a pod is admitted as it is", namespace=request.namespace, name=request.name)
            told = f"fluence: admitted as it is, after an internal error ({type(error).__name__})"
            return answer(request.uid, Outcome(warnings=(told,))), Answered.FAILED, 1

    async def _outcome(self, review: Review) -> tuple[Answered, Outcome]:
        if review.pod is None:
            return Answered.UNREADABLE, Outcome(warnings=(f"fluence: {review.unreadable}",))
        pod, request, context = review.pod, review.request, self._context()
        said = _said(pod, request)
        request, context = await settle(
            pod, request, self._handlers, context, self._accounts, self._claims, self._limits, said
        )
        outcome = mutate(pod, request, self._handlers, context, said)
        return Answered.PATCHED if outcome.patch else Answered.UNCHANGED, outcome


def _said(pod: Json, request: Request) -> Subject | None:
    """What the pod says, found out once for all; None where it doesn't matter or can't be made out."""
    try:
        return look(pod) if concerns(pod, request) else None
    except Unfit:
        return None
