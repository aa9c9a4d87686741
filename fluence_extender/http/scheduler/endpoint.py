"""One verb over HTTP: reads the body within limits, answers, counts.

Invariants: a request that can't be read or understood gets a 4xx, never a 5xx, with a text that names the problem. A
failure behind the verb is logged with its traceback and answered in the protocol's own terms. A request that is refused
or cut short leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import structlog
from starlette.types import Receive, Scope, Send

from fluence_extender.http.listeners.bodies import (
    BODY_TIMEOUT,
    JSON,
    MAX_BODY,
    Bodies,
    Disconnected,
    RequestRefused,
    refuse,
    respond,
)
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.verbs import VerbAnswer, VerbOutcome
from fluence_extender.http.scheduler.wire import NOT_CACHED, BadRequest

log = structlog.get_logger(__name__)


class VerbEndpoint:
    """The ASGI endpoint of one verb.

    ``answer`` is the verb; ``failed`` makes its answer for a failure from the error text. Bodies over ``max_body``
    bytes and bodies that don't arrive within ``body_timeout`` seconds are refused.
    """

    def __init__(
        self,
        verb: str,
        answer: Callable[[bytes], Awaitable[VerbAnswer]],
        failed: Callable[[str], bytes],
        metrics: Metrics,
        max_body: int = MAX_BODY,
        body_timeout: float = BODY_TIMEOUT,
    ) -> None:
        self._verb = verb
        self._answer = answer
        self._failed = failed
        self._metrics = metrics
        self._bodies = Bodies(max_body, limit=body_timeout, advice=NOT_CACHED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            body = await self._bodies.posted_json(scope, receive, self._verb)
            answer = await self._decide(body)
        except Disconnected:
            self._observe(VerbOutcome.BAD_REQUEST, began)
            return
        except (RequestRefused, BadRequest) as error:
            self._observe(VerbOutcome.BAD_REQUEST, began)
            status = error.status if isinstance(error, RequestRefused) else 400
            log.warning("a request was refused", verb=self._verb, status=status, problem=str(error))
            await refuse(send, status, str(error))
            return
        self._observe(answer.outcome, began)
        await respond(send, 200, JSON, answer.body)

    async def _decide(self, body: bytes) -> VerbAnswer:
        try:
            return await self._answer(body)
        except BadRequest:
            raise
        except Exception as error:
            log.exception("a verb failed", verb=self._verb)
            text = (
                f"internal error in {self._verb}: {type(error).__name__}; the extender's log has the details"
            )
            return VerbAnswer(VerbOutcome.FAILED, self._failed(text))

    def _observe(self, outcome: VerbOutcome, began: float) -> None:
        self._metrics.observe_verb(self._verb, outcome, time.perf_counter() - began)
