"""Past use, in which older use counts less.

Past use decays by half in each half-life. As long as the held amounts don't change, a formula gives the sum. So the
result is exact, and doesn't depend on how often it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

LN2 = math.log(2.0)


def later(
    before: Mapping[str, float], held: Mapping[str, int], seconds: float, half_life: float
) -> dict[str, float]:
    """Return the past use, in amounts times seconds, after ``held`` has been held for some more ``seconds``."""
    left = 2.0 ** (-max(seconds, 0.0) / half_life)
    gained = half_life / LN2 * (1.0 - left)
    found = {kind: used * left for kind, used in before.items()}
    for kind, amount in held.items():
        found[kind] = found.get(kind, 0.0) + amount * gained
    return found


def average(used: Mapping[str, float], half_life: float) -> dict[str, float]:
    """Return the amounts that would give the same past use if they had always been held."""
    return {kind: amount * LN2 / half_life for kind, amount in used.items()}
