"""Waiting for something to come true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def poll(done: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Whether ``done()`` became true within ``timeout`` seconds.

    It is asked at least once, then every ``interval`` seconds, or as long as the last answer took.
    """
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        if done():
            return True
        answered = time.monotonic()
        if answered >= deadline:
            return False
        time.sleep(max(interval, answered - asked))
