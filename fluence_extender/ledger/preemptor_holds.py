"""The nodes that are held for preemptors, so that no other gang takes what their victims free.

A preemptor needs the capacity of all its victims. Until the last victim is gone, its nodes are closed to every other
gang, except while those in `PreemptorHolds.ignoring` let one pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager


class PreemptorHolds:
    """The held nodes of each preemptor."""

    def __init__(self) -> None:
        self._nodes: dict[object, frozenset[str]] = {}
        self._ignored: frozenset[object] = frozenset()

    def copy(self) -> PreemptorHolds:
        """Return an independent copy."""
        found = PreemptorHolds()
        found._nodes = dict(self._nodes)
        return found

    @contextmanager
    def ignoring(self, gangs: frozenset[object]) -> Iterator[None]:
        """Open the nodes that are held for ``gangs`` within this context."""
        before, self._ignored = self._ignored, gangs
        try:
            yield
        finally:
            self._ignored = before

    def hold(self, gang: object, nodes: Collection[str]) -> None:
        """Hold exactly these nodes for ``gang``; no nodes end the hold."""
        if nodes:
            self._nodes[gang] = frozenset(nodes)
        else:
            self._nodes.pop(gang, None)

    def nodes_for(self, gang: object) -> frozenset[str]:
        """Return the nodes that are held for ``gang``."""
        return self._nodes.get(gang, frozenset())

    def closed_to(self, gang: object) -> set[str]:
        """Return the nodes that ``gang`` may not use now."""
        closed: set[str] = set()
        for preemptor, nodes in self._nodes.items():
            if preemptor != gang and preemptor not in self._ignored:
                closed |= nodes
        return closed
