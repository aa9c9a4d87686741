"""When a running pod is expected to end.

A pod is expected to end at its declared end. If it runs on, its expected end moves by a step, which doubles each time.
So during a long overrun the expected end moves only a logarithmic number of times, and it is never in the past. It
depends only on the declared end and the time.
"""

from __future__ import annotations

import math

from fluence_extender.queueing.entry import NEVER

FIRST_STEP = 60.0
"""Seconds within which most deleted pods end: twice their usual grace period."""


def expected_end(declared: float, now: float) -> float:
    """Return when a pod that still runs is expected to end: after ``now``, and not before its declared end."""
    if now < declared or declared == NEVER:
        return declared
    doublings = max(0, math.ceil(math.log2((now - declared) / FIRST_STEP))) if now > declared else 0
    end = declared + FIRST_STEP * 2.0**doublings
    return end if end > now else declared + FIRST_STEP * 2.0 ** (doublings + 1)
