"""Letting the event loop have its turn soon while a thread computes.

A thread that computes hands the interpreter over every 5 ms (CPython's switch interval). The loop asks for it anew
after each socket that it has read or written, so that an answer of a few calls would take tens of milliseconds. With
turns of half a millisecond it takes a fraction of that, and the computation as long as before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

TURN = 0.0005
"""Seconds after which a thread hands the interpreter over to one that waits for it."""

_under_way: list[float] = []
"""The interval that was there before, once for each of those who compute."""


@contextmanager
def short_turns() -> Iterator[None]:
    """Short turns for all threads in the block; entered and left by the event loop's thread alone."""
    _under_way.append(_under_way[0] if _under_way else sys.getswitchinterval())
    sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        before = _under_way.pop()
        if not _under_way:
            sys.setswitchinterval(before)
