"""One verb over HTTP: reads the body within limits, answers, counts.

Invariants: a request that can't be read or understood gets a 4xx with a text that names the problem, never a
5xx; whatever fails behind the verb is logged with its traceback and answered in the protocol's own terms; a
request that is refused or cut short leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog
from starlette.types import Receive, Scope, Send

from fluence_extender.extender.metrics import Metrics
from fluence_extender.extender.verbs import Answer, Outcome
from fluence_extender.extender.wire import BadRequest

MAX_BODY = 32 * 1024 * 1024
BODY_TIMEOUT = 10.0

_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"

log = structlog.get_logger(__name__)


class Refused(Exception):
    """The request is refused with this status; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Disconnected(Exception):
    """The client went away before its request was whole."""


class VerbEndpoint:
    """The ASGI endpoint of one verb.

    ``answer`` is the verb, ``failed`` its answer for a failure (given the error text). Bodies over
    ``max_body`` bytes and bodies that don't arrive within ``body_timeout`` seconds are refused.
    """

    def __init__(
        self,
        verb: str,
        answer: Callable[[bytes], Awaitable[Answer]],
        failed: Callable[[str], bytes],
        metrics: Metrics,
        max_body: int = MAX_BODY,
        body_timeout: float = BODY_TIMEOUT,
    ) -> None:
        self._verb = verb
        self._answer = answer
        self._failed = failed
        self._metrics = metrics
        self._max_body = max_body
        self._body_timeout = body_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            self._check_head(scope)
            async with asyncio.timeout(self._body_timeout):
                body = await _read(receive, self._max_body)
            answer = await self._decide(body)
        except Disconnected:
            self._observe(Outcome.BAD_REQUEST, began)
            return
        except (Refused, BadRequest, TimeoutError) as error:
            self._observe(Outcome.BAD_REQUEST, began)
            await self._refuse(send, error)
            return
        self._observe(answer.outcome, began)
        await _respond(send, 200, _JSON, answer.body)

    def _check_head(self, scope: Scope) -> None:
        if scope["method"] != "POST":
            raise Refused(405, f"{self._verb} is called with POST, not {scope['method']}")
        for name, value in scope["headers"]:
            if name == b"content-type" and value.partition(b";")[0].strip().lower() != _JSON:
                sent = value.decode("latin-1")
                raise Refused(415, f"the body of {self._verb} is application/json, not {sent}")
            if name == b"content-encoding" and value.lower() != b"identity":
                raise Refused(415, f"the body of {self._verb} isn't taken compressed")
            if name == b"content-length" and value.isdigit() and int(value) > self._max_body:
                raise _too_large(self._max_body)

    async def _decide(self, body: bytes) -> Answer:
        try:
            return await self._answer(body)
        except BadRequest:
            raise
        except Exception as error:
            log.exception("a verb failed", verb=self._verb)
            text = (
                f"internal error in {self._verb}: {type(error).__name__}; the extender's log has the details"
            )
            return Answer(Outcome.FAILED, self._failed(text))

    async def _refuse(self, send: Send, error: Exception) -> None:
        text, headers = str(error), []
        match error:
            case Refused():
                status = error.status
            case TimeoutError():
                status, text = 408, f"the body didn't arrive within {self._body_timeout:g} seconds"
            case _:
                status = 400
        if status == 405:
            headers = [(b"allow", b"POST")]
        if status == 408:
            headers = [(b"connection", b"close")]
        log.warning("a request was refused", verb=self._verb, status=status, problem=text)
        await _respond(send, status, _TEXT, text.encode(errors="replace"), headers)

    def _observe(self, outcome: Outcome, began: float) -> None:
        self._metrics.observe_verb(self._verb, outcome, time.perf_counter() - began)


async def _read(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        part: bytes = message.get("body", b"")
        parts.append(part)
        length += len(part)
        if length > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> Refused:
    return Refused(413, f"the body is over {limit} bytes; set nodeCacheCapable: true to send names only")


async def _respond(
    send: Send, status: int, kind: bytes, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    length = str(len(body)).encode()
    head = [(b"content-type", kind), (b"content-length", length), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
