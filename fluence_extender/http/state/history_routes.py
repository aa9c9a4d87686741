"""The routes below ``/v1`` that show past work: what was used, and each gang that ran.

Invariant: the event loop never waits for the database of past work. While it is away, these routes alone answer 503.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from fluence_extender.api.past import UsageRow, WorkRecord
from fluence_extender.api.values import ListMetadata, ListOf, Refusal, encode
from fluence_extender.http.listeners.gate import AccessGate
from fluence_extender.http.state.history import (
    SINCE_FORM,
    BadSince,
    reader_of,
    since_time,
    usage_rows,
)
from fluence_extender.http.state.openapi import Answers, answer
from fluence_extender.http.state.problems import JSON, BadQuery, only_known, refusal
from fluence_extender.http.state.responses import LEADING
from fluence_extender.http.state.service import AccountReader, ServiceState
from fluence_extender.model.access import ALL_PAST_WORK
from fluence_extender.model.accounting import (
    AccountUnavailable,
    Grouping,
    Reader,
    RunQuestion,
)

NOT_KEPT = (
    "no account of past work is kept here: an administrator starts the service with --history FILE, or with the URL of "
    "a database"
)

Namespace = Annotated[str, Query(description="Only of this namespace.", examples=["default"])]
Since = Annotated[str, Query(description=f"From when on: {SINCE_FORM}.", examples=["30d"])]

_ANSWERS: Answers = {
    400: answer(Refusal, "A parameter isn't known, or has no possible value."),
    401: answer(Refusal, "The caller isn't identified."),
    403: answer(Refusal, "The caller lacks the right that the text names."),
    422: answer(Refusal, "A parameter has no possible value."),
    501: answer(Refusal, "No account of past work is kept."),
    503: answer(Refusal, "The account can't be read now; the text says why."),
}


def history_routes(service: ServiceState, gate: AccessGate) -> APIRouter:
    """Return the routes over the account of ``service``; ``gate`` decides what of it each caller sees."""

    async def admitted(request: Request) -> None:
        await gate.admit(request.scope)

    checks = [Depends(admitted), Depends(only_known)]
    router = APIRouter(prefix="/v1", dependencies=checks, responses=_ANSWERS, tags=["history"])
    _usage_route(router, service, gate)
    _history_route(router, service, gate)
    return router


def _usage_route(router: APIRouter, service: ServiceState, gate: AccessGate) -> None:
    @router.get("/usage", responses={200: answer(ListOf[UsageRow])}, summary="Who used how much")
    async def usage(
        request: Request,
        by: Annotated[
            Grouping, Query(description="By what use is added up.", examples=["user"])
        ] = Grouping.QUEUE,
        since: Since = "",
        namespace: Namespace = "",
    ) -> Response:
        """What each queue, user, namespace or account has used since a day (UTC), or all on each day.

        The first day is the first of the month unless `since` names another.

        Work that runs is counted up to now.
        """
        account = service.account
        if account is None:
            return refusal(501, NOT_KEPT)
        begin = int(_since(since).timestamp())
        try:
            reader = await _reader(request, account, gate, namespace)
            found = await account.usage(by, begin, namespace, reader)
        except AccountUnavailable as error:
            return refusal(503, str(error))
        return _list(service, reader, usage_rows(found))


def _history_route(router: APIRouter, service: ServiceState, gate: AccessGate) -> None:
    @router.get("/history", responses={200: answer(ListOf[WorkRecord])}, summary="What ran")
    async def history(
        request: Request,
        namespace: Namespace = "",
        queue: Annotated[str, Query(description="Only of this queue.", examples=["physics"])] = "",
        user: Annotated[str, Query(description="Only of this user.", examples=["ada"])] = "",
        account: Annotated[str, Query(description="Only of this account.", examples=["grant-17"])] = "",
        name: Annotated[str, Query(description="Only gangs of this name.", examples=["train"])] = "",
        workload: Annotated[
            str, Query(description="Only gangs whose pods this object owns.", examples=["job/train"])
        ] = "",
        since: Since = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.", examples=[100])] = 100,
    ) -> Response:
        """Every gang that had a place, the newest start first; one that ran several times is there several times."""
        kept = service.account
        if kept is None:
            return refusal(501, NOT_KEPT)
        begin = int(_since(since).timestamp()) if since else 0
        question = RunQuestion(namespace, queue, user, account, name, workload, begin, limit)
        try:
            reader = await _reader(request, kept, gate, namespace)
            found = await kept.runs(question, reader)
        except AccountUnavailable as error:
            return refusal(503, str(error))
        return _list(service, reader, found)


def _since(text: str) -> datetime:
    try:
        return since_time(text, datetime.now(UTC))
    except BadSince as error:
        raise BadQuery(str(error)) from None


async def _reader(request: Request, account: AccountReader, gate: AccessGate, namespace: str) -> Reader:
    """Return the reader that the caller is. Raises `AccountUnavailable`."""
    caller = await gate.admit(request.scope)
    sight = await gate.sight(request.scope, tuple, whole=ALL_PAST_WORK)
    if not sight.everything:
        names = {namespace} if namespace else await account.namespaces()
        sight = await gate.sight(request.scope, lambda: names)
    return reader_of(caller, sight)


def _list(service: ServiceState, reader: Reader, items: Sequence[Any]) -> Response:
    leading = service.readiness.leading
    metadata = ListMetadata(leading=leading, restricted=None if reader.sight.everything else True)
    body = b'{"items":' + encode(items) + b',"metadata":' + encode(metadata) + b"}"
    headers = {"Cache-Control": "no-store", LEADING: str(leading).lower()}
    return Response(body, media_type=JSON, headers=headers)
