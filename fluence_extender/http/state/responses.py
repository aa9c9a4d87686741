"""How a value of the state API becomes a response: unchanged (304), whole, or in pieces.

An entity tag (RFC 9110, 8.8.3 and 13.1.2) is made of a revision that grows with each change and not of the content, so
it costs nothing. It is strong: equal tags of one process mean equal bytes. Tags of different processes are never equal.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from fluence_extender.http.readiness import Readiness
from fluence_extender.http.state import v1
from fluence_extender.http.state.listings import GraphExport, GraphTooLarge, Listing, Pieces, Single
from fluence_extender.http.state.paging import BadToken, Page
from fluence_extender.http.state.problems import JSON, BadQuery
from fluence_extender.http.state.sighted import Show
from fluence_extender.model.access import EVERYTHING, CallerSight

V = TypeVar("V")

LEADING = "Fluence-Leading"

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


class Responses:
    """Makes the responses of one process."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._process = secrets.token_hex(6)

    def page(
        self,
        request: Request,
        listing: Listing[V],
        page: Page,
        keep: Callable[[V], bool] | None,
        sight: CallerSight = EVERYTHING,
        show: Show[V] | None = None,
    ) -> Response:
        """Return a page of the items that ``keep`` accepts, in the form that ``show`` gives them for ``sight``.

        Raises `BadQuery`.
        """
        headers, unchanged = self._headers(request, listing.revision, sight)
        if unchanged is not None:
            return unchanged
        shown = None if show is None or sight.everything else partial(show, sight)
        try:
            pieces = page.streamed(listing.read(), keep, self._readiness.leading, shown)
        except BadToken as error:
            raise BadQuery(str(error)) from None
        return StreamingResponse(pieces, media_type=JSON, headers=headers)

    async def graph(self, request: Request, graph: GraphExport) -> Response:
        """Return the graph. Raises `BadQuery` if it is too large."""
        headers, unchanged = self._headers(request, graph.revision)
        if unchanged is not None:
            return unchanged
        try:
            pieces = await graph.read()
        except GraphTooLarge as error:
            raise BadQuery(f"{error}; ask without expand") from None
        return StreamingResponse(graph_document(pieces), media_type=JSON, headers=headers)

    def single(self, request: Request, found: Single[Any], sight: CallerSight = EVERYTHING) -> Response:
        """Return one item, which is already limited to ``sight``."""
        headers, unchanged = self._headers(request, found.revision, sight)
        return unchanged or Response(v1.encode(found.item), media_type=JSON, headers=headers)

    def _headers(
        self, request: Request, revision: str, sight: CallerSight = EVERYTHING
    ) -> tuple[dict[str, str], Response | None]:
        """Return the headers of a response, and the 304 to send instead if the client has the newest one."""
        leading = self._readiness.leading
        seen = f".{sight.tag}" if sight.tag else ""
        tag = f'"{self._process}.{revision}.{"leading" if leading else "standby"}{seen}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", LEADING: str(leading).lower()}
        if _matches(request.headers.get("if-none-match", ""), tag):
            return headers, Response(status_code=304, headers=headers)
        return headers, None


def _matches(condition: str, tag: str) -> bool:
    """Return whether the ``If-None-Match`` header ``condition`` names the tag."""
    return condition.strip() == "*" or tag in _TAG.findall(condition)


async def graph_document(pieces: Pieces) -> AsyncIterator[bytes]:
    """Yield a graph as one JSON document."""
    yield b'{"graph":{"nodes":['
    async for piece in _joined(pieces.vertices()):
        yield piece
    yield b'],"edges":['
    async for piece in _joined(pieces.edges()):
        yield piece
    yield b"]}}"


async def _joined(pieces: AsyncIterator[list[dict[str, object]]]) -> AsyncIterator[bytes]:
    """Yield the items of all pieces with commas between them; other tasks run after each piece."""
    separator = b""
    async for piece in pieces:
        if piece:
            yield separator + v1.encode(piece)[1:-1]
            separator = b","
            await asyncio.sleep(0)
