"""Refusals and other errors, as answers of one shape.

The text is in ``detail`` and also in a Status of Kubernetes, because kubectl shows only the message of a Status if an
answer comes through the API server's proxy. A query parameter that a route doesn't know is refused, too: a misspelt
filter that is ignored would give the answer to a different question.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute

from fluence_extender.api.values import Refusal, encode
from fluence_extender.http.listeners.gate import AccessRefused

JSON = "application/json"

ALWAYS_ACCEPTED = frozenset({"timeout"})
"""The parameters that clients add to any request: client-go sends its timeout, which the proxy passes on."""


class BadQuery(Exception):
    """The request has no answer; the text says what to request instead."""


def refusal(status: int, text: str) -> Response:
    """Return the answer to a request that is refused with ``status``; ``text`` says why."""
    problem = Refusal(
        detail=text,
        api_version="v1",
        kind="Status",
        status="Failure",
        code=status,
        message=text,
        reason="Forbidden" if status == 403 else None,
    )
    return Response(encode(problem), status, media_type=JSON)


async def only_known(request: Request) -> None:
    """Refuse parameters that the route doesn't know: a dependency of routes. Raises `BadQuery`."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = [parameter.alias for parameter in route.dependant.query_params]
    unknown = sorted(request.query_params.keys() - ALWAYS_ACCEPTED - set(known))
    if unknown:
        noun = "parameter" if len(unknown) == 1 else "parameters"
        takes = f"takes {', '.join(known)}" if known else "takes none"
        raise BadQuery(f"unknown {noun} {', '.join(unknown)}; {request.url.path} {takes}")


def handle_problems(app: FastAPI) -> None:
    """Make ``app`` answer the exceptions of its routes."""
    app.add_exception_handler(BadQuery, _bad_query)
    app.add_exception_handler(AccessRefused, _no_access)
    app.add_exception_handler(RequestValidationError, _bad_value)


async def _bad_query(request: Request, error: Exception) -> Response:
    return refusal(400, str(error))


async def _no_access(request: Request, error: Exception) -> Response:
    assert isinstance(error, AccessRefused)
    answer = refusal(error.status, str(error))
    if error.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
        # The front proxy may have connected before its authority was known. Only a new connection asks for its
        # certificate, and a client that goes on asking would otherwise keep this one open.
        answer.headers["Connection"] = "close"
    return answer


async def _bad_value(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refusal(422, "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()))
