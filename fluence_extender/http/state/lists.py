"""Lists of any length as JSON, made and sent in pieces.

Invariant: nobody else in the process waits longer for a list than one item takes to make, however long the list is.
Each item is true at the moment it is made; a list that takes several moments is true item by item.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from fluence_extender.http.state.documents import encoded
from fluence_extender.http.state.paging import start_of, token_after
from fluence_extender.http.state.state import Items, Pieces

V = TypeVar("V")

TURN = 0.002
"""Seconds of making before others get their turn."""

CHUNK = 32 * 1024
"""Bytes worth sending."""


class Page:
    """What of a list is wanted. ``limit`` 0 is no limit; ``token`` is where the last page ended."""

    def __init__(self, kind: str, limit: int, token: str) -> None:
        self.kind = kind
        self.limit = limit
        self.token = token

    def streamed(
        self, items: Items[V], keep: Callable[[V], bool] | None, leading: bool
    ) -> AsyncIterator[bytes]:
        """The page of those to ``keep`` (None: all), as a list document. Raises `BadToken` at once."""
        start = start_of(self.kind, self.token, items.keys)
        return self._pieces(items, start, keep, leading)

    async def _pieces(
        self, items: Items[V], start: int, keep: Callable[[V], bool] | None, leading: bool
    ) -> AsyncIterator[bytes]:
        chunk = bytearray(b'{"items":[')
        given = 0
        metadata: dict[str, object] = {"leading": leading, "continue": ""}
        last = None
        began = time.perf_counter()
        for position in range(start, len(items.keys)):
            key = items.keys[position]
            view = items.make(key)
            if view is None or (keep is not None and not keep(view)):
                continue
            if self.limit and given == self.limit:
                assert last is not None, "a page has at least one item"
                metadata["continue"] = token_after(self.kind, last)
                if keep is None:
                    metadata["remainingItemCount"] = len(items.keys) - position
                break
            if given:
                chunk += b","
            chunk += encoded(view)
            given += 1
            last = key
            if time.perf_counter() - began > TURN:
                if len(chunk) > CHUNK:
                    yield bytes(chunk)
                    chunk.clear()
                await asyncio.sleep(0)
                began = time.perf_counter()
        yield bytes(chunk + b'],"metadata":' + encoded(metadata) + b"}")


async def graph_document(pieces: Pieces) -> AsyncIterator[bytes]:
    """A graph as one JSON document."""
    yield b'{"graph":{"nodes":['
    async for piece in _joined(pieces.vertices()):
        yield piece
    yield b'],"edges":['
    async for piece in _joined(pieces.edges()):
        yield piece
    yield b"]}}"


async def _joined(pieces: AsyncIterator[list[dict[str, object]]]) -> AsyncIterator[bytes]:
    """The items of all pieces, with commas between them; others get their turn after each piece."""
    separator = b""
    async for piece in pieces:
        if piece:
            yield separator + encoded(piece)[1:-1]
            separator = b","
            await asyncio.sleep(0)
