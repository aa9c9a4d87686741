"""Waiting for something to come true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def poll(done: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Whether ``done()`` became true within ``timeout`` seconds; asked at least once, every ``interval``
    seconds.
    """
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True
