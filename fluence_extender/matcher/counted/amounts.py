"""How many slots fit on rows, and how many units each takes: the counting rules over arrays.

(fluxion reference 3.2, 4.3, 4.4)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.request import Request, Shape
from fluence_extender.matcher.counted.view import View
from fluence_extender.matcher.embedded.count import Count

Ints = NDArray[np.int64]

_UNBOUNDED = 2**53


def is_fixed(count: Count) -> bool:
    """Whether it is a plain number."""
    return count.minimum == count.maximum


def most(count: Count) -> int:
    """The most that a count ever asks for."""
    return count.minimum if is_fixed(count) else count.most


def within(count: Count, available: Ints) -> Ints:
    """`Count.within` for each of ``available``."""
    if is_fixed(count):
        return np.where(available >= count.minimum, count.minimum, 0)
    limit = np.minimum(available, count.maximum)
    if count.operator == "+":
        allowed = limit - (limit - count.minimum) % count.operand
        return np.where(limit >= count.minimum, allowed, 0)
    values, places = np.unique(limit, return_inverse=True)
    return np.array([count.within(value) for value in values.tolist()], np.int64)[places]


def demand(request: Request, view: View, rows: Ints, *, early_stop: bool) -> tuple[Ints, list[Ints | int]]:
    """For each row the slots that fit, and for each leaf type the units that one slot takes there.

    All rows must have the minimum of each type free. With ``early_stop`` (the ``first`` policies) a walk collects no
    more units of a type than all slots can take.
    """
    slots: Ints | None = None
    units: list[Ints | int] = []
    for name, count in request.leaves:
        column = view.free.get(name)
        available = np.zeros(len(rows), np.int64) if column is None else column[rows]
        if early_stop:
            multiplier = 1 if request.shape is Shape.WHOLE else most(request.slots)
            available = np.minimum(available, min(multiplier * most(count), _UNBOUNDED))
        each: Ints | int = count.minimum if is_fixed(count) else within(count, available)
        fit = available // each
        units.append(each)
        slots = fit if slots is None else np.minimum(slots, fit)
    if request.shape is Shape.WHOLE or slots is None:
        slots = np.ones(len(rows), np.int64)
    return slots, units
