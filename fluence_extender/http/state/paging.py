"""Long lists in pages, as Kubernetes has them: ``limit`` and ``continue``.

A token names the last key that was given, so that it never expires and pages meet everything that is there all the
while exactly once, whatever comes and goes in between (unlike Kubernetes', whose pages are of one moment).
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Sequence

from fluence_extender.http.state.state import Key


class BadToken(ValueError):
    """A ``continue`` that no list of this kind has given."""

    def __init__(self) -> None:
        super().__init__("continue: not a token of this list; leave it out to begin anew")


def token_after(kind: str, key: Key) -> str:
    """The token with which the list ``kind`` goes on after ``key``."""
    text = json.dumps([kind, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def start_of(kind: str, token: str, keys: Sequence[Key]) -> int:
    """Where in ``keys`` the page of ``token`` begins; "" is the first page. Raises `BadToken`."""
    if not token:
        return 0
    try:
        padded = token + "=" * (-len(token) % 4)
        named = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise BadToken from None
    if not isinstance(named, list) or not named or named[0] != kind:
        raise BadToken
    key = tuple(named[1:])
    if not all(isinstance(part, str) for part in key) or (keys and len(key) != len(keys[0])):
        raise BadToken
    return bisect_right(keys, key)
