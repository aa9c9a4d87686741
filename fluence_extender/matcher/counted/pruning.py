"""Which tracked type weighs the edge to a vertex under the ``first`` policies.

It is the last of the types that the prune filters track there: those named for the vertex's own type, then those named
for all, each in the order in which the types were first noted.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.matcher.walker.graph import Graph
from fluence_extender.matcher.walker.pruning import PruningFilters


class TrackedTypes:
    """The filter specification, and the types that the graph and the filters have named so far."""

    def __init__(self, specification: str, types: Iterable[str]) -> None:
        """Raises `InvalidOptions` for a specification that can't be read."""
        self._filters = PruningFilters(specification)
        self._known = Graph()
        self.note(types)
        self._filters.note(self._known)

    def note(self, types: Iterable[str]) -> None:
        """Note resource types that the graph names."""
        for name in types:
            self._known.intern(name)

    def knows(self, name: str) -> bool:
        """Whether the graph or its options ever named the type."""
        return self._known.knows_type(name)

    @property
    def types(self) -> list[str]:
        """All noted types, the first noted first."""
        return self._known.types()

    def weighing(self, kind: str) -> str | None:
        """Return the type that weighs the edge to a vertex of type ``kind``; None if edges never change."""
        counted = self._filters.counted_at(self._known, kind)
        return counted[-1] if counted else None
