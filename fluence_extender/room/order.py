"""The order in which a policy fills nodes: the natural order of their names, or the reverse of it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Set

from fluence_extender.model.notation import natural_order

FEW = 16
"""If at most one node in this many is asked for, a sort is faster than a filter of all nodes."""


class NodeOrder:
    """The names of all nodes in their natural order, or ``descending``.

    ``spreads`` says that the policy takes the nodes with the most room first, and in this order among equal ones.
    """

    def __init__(self, descending: bool, spreads: bool = False) -> None:
        self._descending = descending
        self.spreads = spreads
        self._names: list[str] = []
        self._ordered: tuple[str, ...] | None = ()
        self._positions: dict[str, int] = {}

    def replace(self, names: Iterable[str]) -> None:
        """Make these the nodes."""
        self._names = sorted(names, key=natural_order)
        self._ordered = None

    def copy(self) -> NodeOrder:
        """Return an independent copy."""
        self._put_in_order()
        copied = NodeOrder(self._descending, self.spreads)
        copied._names, copied._ordered, copied._positions = [*self._names], self._ordered, self._positions
        return copied

    def add(self, name: str) -> None:
        """Add a node."""
        insort(self._names, name, key=natural_order)
        self._ordered = None

    def remove(self, name: str) -> None:
        """Remove a node."""
        del self._names[bisect_left(self._names, natural_order(name), key=natural_order)]
        self._ordered = None

    def sorted(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that are nodes, in order; the same tuple for all nodes until one comes or goes."""
        ordered, positions = self._put_in_order(), self._positions
        if len(names) == len(positions):
            return ordered
        if len(names) * FEW < len(positions):
            return tuple(sorted(filter(positions.__contains__, names), key=positions.__getitem__))
        wanted = names if isinstance(names, Set) else set(names)
        return tuple(filter(wanted.__contains__, ordered))

    def _put_in_order(self) -> tuple[str, ...]:
        """Return all nodes in order, found once for them and for all copies."""
        if self._ordered is None:
            self._ordered = tuple(reversed(self._names) if self._descending else self._names)
            self._positions = {name: position for position, name in enumerate(self._ordered)}
        return self._ordered
