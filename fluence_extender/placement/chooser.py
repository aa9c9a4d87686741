"""Choosing the nodes of equal members: the port of every engine, and first fit, which needs no library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fluence_extender.ledger.capacity import LARGEST, Amounts, CapacityTable
from fluence_extender.model.resources import Resources
from fluence_extender.placement.search import Shape, place
from fluence_extender.queueing.freed_slots import slots_by_row


class NodeChooser(Protocol):
    """What picks nodes for equal members that only amounts limit."""

    def choose(
        self, requests: Resources, count: int, nodes: Sequence[str], table: CapacityTable
    ) -> dict[str, int] | None:
        """Return how many of ``count`` members each of ``nodes`` gets, None if no choice can be made.

        ``nodes`` are in the order of the policy, and ``table`` is what they have left.
        """
        ...


class FirstFit:
    """Fills the nodes in the order of the policy, or takes the node with the most room each time if it ``spreads``."""

    def __init__(self, spreads: bool = False) -> None:
        self._spreads = spreads

    def choose(
        self, requests: Resources, count: int, nodes: Sequence[str], table: CapacityTable
    ) -> dict[str, int] | None:
        """Return the members by node, None if the nodes lack room."""
        if not self._spreads:
            counts = place([Shape(requests, count, tuple(nodes))], table)
            return None if counts is None else counts[0]
        rows = table.at(nodes)
        slots = np.minimum(slots_by_row(table.row_of(requests), table.free[rows]), min(count, LARGEST))
        given = levelled(slots, count)
        if given is None:
            return None
        return {table.names[rows[at]]: int(given[at]) for at in np.flatnonzero(given).tolist()}


def levelled(slots: Amounts, count: int) -> Amounts | None:
    """Return how many of ``count`` members each row gets if each member takes the row with the most slots left.

    ``slots`` is how many members each row takes. Of equal rows the first is taken. Return None if the slots don't
    suffice.
    """
    if int(slots.sum()) < count:
        return None
    low, high = 0, int(slots.max(initial=0))
    while low < high:
        level = (low + high) // 2
        if int((slots - level).clip(min=0).sum()) <= count:
            high = level
        else:
            low = level + 1
    given: Amounts = (slots - low).clip(min=0)
    rest = count - int(given.sum())
    given[np.flatnonzero(slots >= low)[:rest]] += 1 if low else 0
    return given
