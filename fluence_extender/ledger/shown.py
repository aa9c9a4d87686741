"""The graph as the cluster has it now, for those who look while the matcher's lags behind it.

Invariant: whenever the matcher's graph lacks a change, one of its own is kept that has it.
"""

from __future__ import annotations

from collections.abc import Callable

from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.graph import ClusterGraph
from fluence_extender.model.node import Node


class ShownGraph:
    """See the module docstring. ``sketch`` makes such a graph of the nodes and resources as they are."""

    def __init__(self, sketch: Callable[[], ClusterGraph]) -> None:
        self._sketch = sketch
        self._graph: ClusterGraph | None = None

    def over(self, matched: ClusterGraph) -> ClusterGraph:
        """What is to be shown: the graph that is kept, or the matcher's."""
        return matched if self._graph is None else self._graph

    def keep(self) -> None:
        """Keep a graph from now on."""
        if self._graph is None:
            self._graph = self._sketch()

    def forget(self) -> None:
        """Keep none: the matcher's has caught up, and follows each change in place."""
        self._graph = None

    def follow(
        self, leaving: str | None, joining: Node | None, declared: VirtualResources | None = None
    ) -> None:
        """Make a change, in place where that can be done; nothing happens where no graph is kept."""
        if self._graph is None:
            return
        edit = self._graph.plan(leaving, joining, declared)
        if edit is None:
            self._graph = self._sketch()
        else:
            self._graph.carry_out(edit, lambda _: None)
