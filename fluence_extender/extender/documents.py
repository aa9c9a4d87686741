"""JSON documents of any size, encoded in pieces.

A graph of a large cluster is tens of megabytes; encoding it in one go would keep every look-up waiting.
Invariant: the pieces joined are the document's JSON, and no piece takes more than a few milliseconds to make.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

# Items a piece; a vertex of the graph takes about a microsecond.
PIECE = 1000

# Bytes.
CHUNK = 64 * 1024


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encoded(document: Any) -> bytes:
    """The JSON of ``document`` (dicts, lists, dataclasses, mappings) in one piece."""
    return _ENCODER.encode(document)


def pieces(document: Any, size: int = PIECE) -> Iterator[bytes]:
    """The JSON of ``document`` in pieces of at most ``size`` items of the lists that its objects hold."""
    match document:
        case dict() if document:
            opening = b"{"
            for name, value in document.items():
                yield opening + _ENCODER.encode(str(name)) + b":"
                yield from pieces(value, size)
                opening = b","
            yield b"}"
        case list() | tuple() if len(document) > size:
            opening = b"["
            for start in range(0, len(document), size):
                yield opening + _ENCODER.encode(document[start : start + size])[1:-1]
                opening = b","
            yield b"]"
        case _:
            yield _ENCODER.encode(document)


async def streamed(document: Any) -> AsyncIterator[bytes]:
    """`pieces` in chunks worth sending; others run in between, and ``document`` must not change meanwhile."""
    chunk = bytearray()
    for piece in pieces(document):
        chunk += piece
        if len(chunk) >= CHUNK:
            yield bytes(chunk)
            chunk.clear()
            await asyncio.sleep(0)
    yield bytes(chunk)
