"""What waits in the queue, and what it takes once it has places.

Nodes are the rows of arrays, and so are pools of devices that belong to no node. Resources are the columns. A slot that
asks for devices of a pool fits on no other row, because no other row has that resource.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]
"""Rows x resources, or one amount for each row."""

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
"""Whether something is true of each row."""

Entitlement = tuple[int, tuple[float, ...]]
"""How far beyond its guarantee a queue is with the entry, and its share, from the root of the tree to the user."""

EQUAL: Entitlement = (0, ())

NEVER = math.inf
"""A time that doesn't come, and the duration of what has no declared end."""

Age = tuple[float, int]
"""The time of submission in seconds since the epoch, and a number that orders what was submitted at the same time."""


@dataclass(frozen=True, slots=True)
class Slots:
    """``count`` equal slots, each on one row; ``size`` is the amount of each resource that one takes."""

    count: int
    size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A gang or a suspended workload that waits for its start.

    ``slots`` has one element for each different size. ``where`` stands for everything else that restricts its places:
    two entries with equal slots and an equal ``where`` fit or don't fit alike. ``duration`` is how long it runs at
    most, in seconds. ``entitlement`` is that of its queue. ``begun`` says that a part of it has places already.
    ``queue`` is the name of its queue.
    """

    key: str
    slots: tuple[Slots, ...]
    created: Age
    duration: float = NEVER
    priority: int = 0
    begun: bool = False
    where: str = ""
    queue: str = ""
    entitlement: Entitlement = EQUAL


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What is taken where: ``amounts[i]`` on the row ``rows[i]``. No row occurs twice."""

    rows: Rows
    amounts: Amounts


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """What runs: its places, and when it declares to end.

    ``foreign`` says that another scheduler placed it. Where that declares no end, the queue doesn't expect the places
    back: they may be a daemon's on every node.
    """

    key: str
    places: Footprint
    end: float = NEVER
    foreign: bool = False
