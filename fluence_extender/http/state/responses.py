"""How a value of the state API becomes a response: unchanged (304), whole, or in pieces.

An entity tag (RFC 9110, 8.8.3 and 13.1.2) is made of a revision that grows with each change and not of the content, so
it costs nothing. It is strong: equal tags of one process mean equal bytes. Tags of different processes are never equal.

Invariant: other work in the process waits for a list at most as long as one item takes, even if the list is long. Each
item is true at the moment at which it is made.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from fluence_extender.api.values import ListMetadata, encode
from fluence_extender.http.readiness import Readiness
from fluence_extender.http.state.listings import (
    GraphExport,
    Items,
    Listing,
    Pieces,
    Single,
)
from fluence_extender.http.state.problems import JSON
from fluence_extender.http.state.sighted import Show
from fluence_extender.model.access import EVERYTHING, CallerSight

V = TypeVar("V")

LEADING = "Fluence-Leading"

TURN = 0.002
"""Seconds of work after which other tasks run."""

CHUNK = 32 * 1024
"""The fewest bytes of a piece."""

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


class Responses:
    """Makes the responses of one process."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._process = secrets.token_hex(6)

    def list(
        self,
        request: Request,
        listing: Listing[V],
        keep: Callable[[V], bool] | None,
        sight: CallerSight = EVERYTHING,
        show: Show[V] | None = None,
    ) -> Response:
        """Return the items that ``keep`` accepts (None: all), in the form that ``show`` gives them for ``sight``."""
        headers, unchanged = self._headers(request, listing.revision, sight)
        if unchanged is not None:
            return unchanged
        shown = None if show is None or sight.everything else partial(show, sight)
        pieces = list_document(listing.read(), keep, self._readiness.leading, shown)
        return StreamingResponse(pieces, media_type=JSON, headers=headers)

    async def graph(self, request: Request, graph: GraphExport) -> Response:
        """Return the graph."""
        headers, unchanged = self._headers(request, graph.revision)
        if unchanged is not None:
            return unchanged
        return StreamingResponse(graph_document(await graph.read()), media_type=JSON, headers=headers)

    def single(self, request: Request, found: Single[Any], sight: CallerSight = EVERYTHING) -> Response:
        """Return one item, which is already limited to ``sight``."""
        headers, unchanged = self._headers(request, found.revision, sight)
        return unchanged or Response(encode(found.item), media_type=JSON, headers=headers)

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


async def list_document(
    items: Items[V],
    keep: Callable[[V], bool] | None,
    leading: bool,
    show: Callable[[V], V | None] | None = None,
) -> AsyncIterator[bytes]:
    """Yield those items that ``keep`` accepts (None: all) as one JSON document.

    ``show`` returns the part of an item that the caller may see, or None. Items for which it returns None are only
    counted.
    """
    chunk = bytearray(b'{"items":[')
    separator = b""
    hidden = 0
    began = time.perf_counter()
    for key in items.keys:
        item = items.make(key)
        if item is None or (keep is not None and not keep(item)):
            continue
        if show is not None and (item := show(item)) is None:
            hidden += 1
            continue
        chunk += separator + encode(item)
        separator = b","
        if time.perf_counter() - began > TURN:
            if len(chunk) > CHUNK:
                yield bytes(chunk)
                chunk.clear()
            await asyncio.sleep(0)
            began = time.perf_counter()
    metadata = ListMetadata(leading=leading, hidden=None if show is None else hidden)
    yield bytes(chunk + b'],"metadata":' + encode(metadata) + b"}")


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
            yield separator + encode(piece)[1:-1]
            separator = b","
            await asyncio.sleep(0)
