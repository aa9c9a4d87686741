"""Names for the vertices of a resources file.

A resource without a name is named after its type with an index, counted over the whole file. A type with children and a
count makes copies named name0, name1, ...

Invariant: nothing else in the file has the name of a backend (a top-level vertex), and siblings have different names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fluence_extender.graph.document import Item
from fluence_extender.graph.naming_rules import name_rule
from fluence_extender.graph.virtual import VirtualResource

Note = Callable[[Item, str, str], None]


class NameGiver:
    """Gives names in file order; ``note`` receives the problems of declared names."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._declared: set[str] = set()
        self._next: dict[str, int] = {}

    def reserve(self, item: Item) -> None:
        """Reserve every declared name below ``item``, so that no nameless resource gets it."""
        for one in item.items:
            name = one.entries.get("name")
            if name is not None and name.kind == "text":
                self._declared.add(name.text)
            parts = one.entries.get("with")
            if parts is not None:
                self.reserve(parts)

    def give(self, item: Item, kind: str, vertices: int) -> tuple[str, ...]:
        """Return a name for each of the ``vertices`` that the resource at ``item`` makes."""
        declared = item.entries.get("name")
        if declared is None or declared.kind != "text" or not declared.text:
            return tuple(self._automatic(kind) for _ in range(vertices))
        rule = name_rule(declared.text)
        if rule is not None:
            self._note(declared, *rule)
        if vertices == 1:
            return (declared.text,)
        return tuple(f"{declared.text}{index}" for index in range(vertices))

    def check_siblings(self, siblings: Iterable[VirtualResource]) -> None:
        """Note every name that two of ``siblings`` have."""
        seen: dict[str, VirtualResource] = {}
        for one in siblings:
            for name in one.names:
                if name in seen:
                    self._duplicate(one, name, seen[name])
                    break
                seen[name] = one

    def check_top(self, resources: tuple[VirtualResource, ...]) -> None:
        """Note every backend name that isn't unique in the file."""
        self.check_siblings(resources)
        backends = {name: one for one in reversed(resources) for name in one.names}
        for top in resources:
            for one in top.walk():
                clash = next((name for name in one.names if name in backends), None)
                if one is not top and clash is not None:
                    self._duplicate(one, clash, backends[clash])

    def _duplicate(self, one: VirtualResource, name: str, first: VirtualResource) -> None:
        self._note(
            Item("map", one.path, one.line),
            f"makes a second resource of the name {name!r}, after {first.path} on line {first.line}",
            "give each its own name",
        )

    def _automatic(self, kind: str) -> str:
        while True:
            index = self._next.get(kind, 0)
            self._next[kind] = index + 1
            name = f"{kind}{index}"
            if name not in self._declared:
                return name
