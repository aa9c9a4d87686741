"""Lists of any length as JSON: in pages as in Kubernetes, each of which is made and sent in pieces.

A ``continue`` token names the last key that was sent, so it never expires. The pages together have each item that
exists during the whole time exactly once, even if other items come and go. (The pages of Kubernetes show one moment
instead.)

Invariant: other work in the process waits for a list at most as long as one item takes, even if the list is long. Each
item is true at the moment at which it is made.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fluence_extender.http.state import v1
from fluence_extender.http.state.listings import Items, Key

V = TypeVar("V")

TURN = 0.002
"""Seconds of work after which other tasks run."""

CHUNK = 32 * 1024
"""The fewest bytes of a piece."""


class BadToken(ValueError):
    """A ``continue`` that no list of this kind has issued."""

    def __init__(self) -> None:
        super().__init__("continue: not a token of this list; leave it out to start from the beginning")


def token_after(kind: str, key: Key) -> str:
    """Return the token with which the list ``kind`` continues after ``key``."""
    text = json.dumps([kind, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def key_of(kind: str, token: str) -> Key:
    """Return the key that a ``token`` of the list ``kind`` names. Raises `BadToken`."""
    try:
        padded = token + "=" * (-len(token) % 4)
        named = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise BadToken from None
    if not isinstance(named, list) or not named or named[0] != kind:
        raise BadToken
    key = tuple(named[1:])
    if not all(isinstance(part, str) for part in key):
        raise BadToken
    return key


def start_of(kind: str, token: str, keys: Sequence[Key]) -> int:
    """Return where in ``keys`` the page of ``token`` begins; "" is the first page. Raises `BadToken`."""
    if not token:
        return 0
    key = key_of(kind, token)
    if keys and len(key) != len(keys[0]):
        raise BadToken
    return bisect_right(keys, key)


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list: at most ``limit`` items (0: no limit), from where the page of ``token`` begins."""

    kind: str
    limit: int
    token: str

    def streamed(
        self,
        items: Items[V],
        keep: Callable[[V], bool] | None,
        leading: bool,
        show: Callable[[V], V | None] | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield the page of those items that ``keep`` accepts (None: all), as a list document.

        ``show`` returns the part of an item that the caller may see, or None. Items for which it returns None are only
        counted. Raises `BadToken` before the first piece.
        """
        start = start_of(self.kind, self.token, items.keys)
        return self._pieces(items, start, keep, leading, show)

    async def _pieces(
        self,
        items: Items[V],
        start: int,
        keep: Callable[[V], bool] | None,
        leading: bool,
        show: Callable[[V], V | None] | None,
    ) -> AsyncIterator[bytes]:
        chunk = bytearray(b'{"items":[')
        # Hidden items after the last one that is sent belong to the next page, which starts there.
        sent = hidden = passed = 0
        token, remaining = "", None
        last = None
        began = time.perf_counter()
        for position in range(start, len(items.keys)):
            key = items.keys[position]
            item = items.make(key)
            if item is None or (keep is not None and not keep(item)):
                continue
            if show is not None and (item := show(item)) is None:
                passed += 1
                continue
            if self.limit and sent == self.limit:
                assert last is not None, "a page has at least one item"
                token = token_after(self.kind, last)
                remaining = len(items.keys) - position if keep is None and show is None else None
                passed = 0
                break
            if sent:
                chunk += b","
            chunk += v1.encode(item)
            sent += 1
            hidden, passed = hidden + passed, 0
            last = key
            if time.perf_counter() - began > TURN:
                if len(chunk) > CHUNK:
                    yield bytes(chunk)
                    chunk.clear()
                await asyncio.sleep(0)
                began = time.perf_counter()
        out_of_sight = None if show is None else hidden + passed
        metadata = v1.ListMetadata(leading=leading, next_page=token, remaining=remaining, hidden=out_of_sight)
        yield bytes(chunk + b'],"metadata":' + metadata.to_json() + b"}")
