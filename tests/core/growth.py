"""How the time of some work grows with its input, measured so that neither a busy machine nor caches matter."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

RUNS = 3
LEAST = 0.002
"""Seconds that the smaller input has to take. Below them, fixed costs would hide how the time grows."""
LARGEST = 2**14
"""Work on an input of this size that takes less isn't looked at further."""
TIMES = 16
"""How much larger the larger input is. Linear work takes 16 times as long, and quadratic work 256 times."""
MOST = 64
ATTEMPTS = 4
"""Quadratic work fails each time; noise doesn't last."""


def cpu_seconds(work: Callable[[T], object], given: T) -> float:
    """Return the CPU seconds that ``work`` takes, the least of several runs."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(RUNS):
            began = time.thread_time()
            work(given)
            best = min(best, time.thread_time() - began)
    finally:
        gc.enable()
    return best


def assert_linear(work: Callable[[T], object], make: Callable[[int], T], size: int = 125) -> None:
    """Raise `AssertionError` if ``work`` takes over 64 times as long for an input of 16 times the size.

    ``make`` returns an input of a size, which ``work`` doesn't change. The sizes are chosen so that the smaller input
    takes long enough to be measured.
    """
    while cpu_seconds(work, make(size)) < LEAST:
        if size >= LARGEST:
            return
        size *= 2
    for _ in range(ATTEMPTS):
        small, large = cpu_seconds(work, make(size)), cpu_seconds(work, make(TIMES * size))
        if large < MOST * small:
            return
    raise AssertionError(f"{size} take {small:.4f} s, {TIMES * size} take {large:.4f} s")
