"""When a running pod is expected to end.

It is expected at its declared end. A pod that runs on is expected a little later, then later by a step that doubles
each time. So over a long overrun the estimates move a logarithmic number of times, and they are never in the past. The
expected end depends on nothing but the declared end and the time.
"""

from __future__ import annotations

import math

from fluence_extender.queueing.entry import NEVER

FIRST_STEP = 60.0
"""Seconds after the declared end in which a pod that was told to end mostly does: twice its usual grace period."""


def expected_end(declared: float, now: float) -> float:
    """Return when a pod that still runs is expected to end: after ``now``, and not before its declared end."""
    if now < declared or declared == NEVER:
        return declared
    doublings = max(0, math.ceil(math.log2((now - declared) / FIRST_STEP))) if now > declared else 0
    end = declared + FIRST_STEP * 2.0**doublings
    return end if end > now else declared + FIRST_STEP * 2.0 ** (doublings + 1)
