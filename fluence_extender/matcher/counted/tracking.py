"""Which counted type weighs the edge to a vertex under the ``first`` policies.

It is the last of the types that the prune filters track there: those named for the vertex's own type, then those named
for all, each in the order in which the types were first noted (fluxion reference 4.1, 4.7).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from fluence_extender.matcher.embedded.graph import Graph
from fluence_extender.matcher.embedded.pruning import PruningFilters

_ALL = "ALL"


class Tracking:
    """The filter specification, and the types the graph has named so far."""

    def __init__(self, specification: str, types: Iterable[str]) -> None:
        """Raises `InvalidOptions` for a specification that can't be read."""
        self.specification = specification
        PruningFilters(specification)
        self._known = Graph()
        self._anchors: dict[str, set[str]] = {}
        for name in types:
            self.note(name)
        for part in specification.split(",") if specification else ():
            anchor, _, counted = ("".join(text.split()) for text in part.partition(":"))
            self._name(anchor, counted)
        self.named = {counted for counts in self._anchors.values() for counted in counts}

    def _name(self, anchor: str, counted: str) -> None:
        self.note(anchor if anchor != _ALL else counted)
        self.note(counted)
        if anchor == _ALL:
            for counts in self._anchors.values():
                counts.discard(counted)
        elif counted in self._anchors.get(_ALL, ()):
            return
        self._anchors.setdefault(anchor, set()).add(counted)

    def noting(self, names: Iterable[str]) -> Tracking:
        """This, where it knows all of the types, else a copy that does."""
        new = [name for name in names if not self.knows_type(name)]
        if not new:
            return self
        copy = deepcopy(self)
        for name in new:
            copy.note(name)
        return copy

    def note(self, name: str) -> None:
        """Take note of a resource type."""
        self._known.intern(name)

    def knows_type(self, name: str) -> bool:
        """Whether the type was ever named by the graph or its options."""
        return self._known.knows_type(name)

    @property
    def types(self) -> list[str]:
        """All noted types, in the order of their noting."""
        return self._known.types()

    def weighs(self, kind: str) -> str | None:
        """The type whose free count weighs the edge to a vertex of type ``kind``; None where edges never change."""
        listed = self.counted_at(kind)
        return listed[-1] if listed else None

    def counted_at(self, kind: str) -> list[str]:
        """The types that are counted below a vertex of type ``kind``, leaf types that no filter names left out."""
        own = sorted(self._anchors.get(kind, ()), key=self._known.type_order)
        everywhere = sorted(self._anchors.get(_ALL, ()), key=self._known.type_order)
        return own + [name for name in everywhere if name != kind]
