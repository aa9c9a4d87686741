"""The entries of the queue, and the places that they take.

Arrays have a row for each node and for each pool of devices that belongs to no node, and a column for each resource. A
slot that asks for devices of a pool fits on no other row, because no other row has that resource.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]
"""An array of rows by resources, or one amount for each row."""

Rows = NDArray[np.intp]
Times = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""One boolean for each row."""

Entitlement = tuple[int, tuple[float, ...]]
"""How far the entry takes its queue beyond its guarantee, and the shares from the root of the tree to the user."""

EQUAL: Entitlement = (0, ())
"""The entitlement of all entries where no queue has a guarantee or a weight."""

NEVER = math.inf
"""A time that never comes, and the duration of work without a declared end."""

Age = tuple[float, int]
"""The time of submission in seconds since the epoch, and a number that orders submissions of the same second."""


@dataclass(frozen=True, slots=True)
class Slots:
    """``count`` equal slots, each on one row; ``size`` is the amount of each resource that one takes."""

    count: int
    size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A gang or a suspended workload that waits for its start.

    ``slots`` has one element for each different size. ``where`` is a key for everything else that restricts its places:
    of two entries with equal slots and an equal ``where`` either both fit or neither does. ``duration`` is the longest
    time that it runs, in seconds. ``queue`` is the name of its queue.
    """

    key: str
    slots: tuple[Slots, ...]
    created: Age
    duration: float = NEVER
    where: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Places, and the amounts taken there: ``amounts[i]`` on the row ``rows[i]``. No row occurs twice."""

    rows: Rows
    amounts: Amounts
