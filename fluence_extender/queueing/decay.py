"""What was used over time, where older use counts less.

Use decays by half in each half-life. Between two changes of what is held the sum follows from a formula, so it is exact
however seldom it is computed, and computing it more often changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

LN2 = math.log(2.0)


def later(
    before: Mapping[str, float], held: Mapping[str, int], seconds: float, half_life: float
) -> dict[str, float]:
    """Return what was used, in amounts times seconds, after ``held`` has been held for some more seconds."""
    left = 2.0 ** (-max(seconds, 0.0) / half_life)
    gained = half_life / LN2 * (1.0 - left)
    found = {kind: used * left for kind, used in before.items()}
    for kind, amount in held.items():
        found[kind] = found.get(kind, 0.0) + amount * gained
    return found


def average(used: Mapping[str, float], half_life: float) -> dict[str, float]:
    """Return the amounts that, held all the time, would be the same use: a mean in which older use counts less."""
    return {kind: amount * LN2 / half_life for kind, amount in used.items()}
