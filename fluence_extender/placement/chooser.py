"""Choosing the nodes of equal members: the port of every engine, and first fit, which needs no library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fluence_extender.model.resources import CPU, MEMORY, Resources
from fluence_extender.placement.search import Shape, place
from fluence_extender.queueing.timeline import slots_by_row
from fluence_extender.room.capacity import Amounts, CapacityTable

MOST_SLOTS = 2**31
"""The most members of a node that are counted."""


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
    """Fills the nodes in the order of the policy."""

    def choose(
        self, requests: Resources, count: int, nodes: Sequence[str], table: CapacityTable
    ) -> dict[str, int] | None:
        """Return the members by node, None if the nodes lack room."""
        counts = place([Shape(requests, count, tuple(nodes))], table)
        return None if counts is None else counts[0]


def spread_out(
    requests: Resources, count: int, nodes: Sequence[str], table: CapacityTable
) -> dict[str, int] | None:
    """Return the members by node if each takes the node with the most room, None if the nodes lack room."""
    rows = table.at(nodes)
    slots = np.minimum(slots_by_row(table.row_of(requests), table.free[rows]), MOST_SLOTS)
    given = levelled(slots, count)
    if given is None:
        return None
    return {table.names[rows[at]]: int(given[at]) for at in np.flatnonzero(given).tolist()}


def levelled(slots: Amounts, count: int) -> Amounts | None:
    """Return how many of ``count`` members each row gets if each member takes the row with the most slots left.

    ``slots`` is how many members each row takes. Of rows with as many slots left, the one with the fewest members is
    taken, then the first. Return None if the slots don't suffice.
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
    if rest:
        equal = np.flatnonzero(slots >= low)
        given[equal[np.argsort(given[equal], kind="stable")[:rest]]] += 1
    return given


def most_room_first(nodes: Sequence[str], table: CapacityTable) -> tuple[str, ...]:
    """Return the nodes by their free CPU and memory together, each as a part of what the freest node has."""
    rows = table.at(nodes)
    columns = [table.columns[name] for name in (CPU, MEMORY) if name in table.columns]
    free = table.free[rows][:, columns].clip(min=0).astype(np.float64)
    room = (free / np.maximum(free.max(axis=0, initial=0), 1)).sum(axis=1)
    return tuple(nodes[at] for at in np.argsort(-room, kind="stable").tolist())
