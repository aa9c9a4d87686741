"""Nodes that are kept for a gang for which others make way.

Room that is freed for a gang mustn't be taken by somebody else before all of it is free. Till then its nodes are closed
to every gang that it doesn't let pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager


class Keeps:
    """Nodes by the gang that they are kept for."""

    def __init__(self) -> None:
        self._nodes: dict[object, frozenset[str]] = {}
        self._passed: frozenset[object] = frozenset()

    def copy(self) -> Keeps:
        """The same, apart from these from now on."""
        found = Keeps()
        found._nodes = dict(self._nodes)
        return found

    @contextmanager
    def passing(self, gangs: frozenset[object]) -> Iterator[None]:
        """Within it, nodes that are kept for ``gangs`` are open."""
        before, self._passed = self._passed, gangs
        try:
            yield
        finally:
            self._passed = before

    def keep(self, gang: object, nodes: Collection[str]) -> None:
        """Keep these nodes for ``gang`` and no others; none ends it."""
        if nodes:
            self._nodes[gang] = frozenset(nodes)
        else:
            self._nodes.pop(gang, None)

    def of(self, gang: object) -> frozenset[str]:
        """The nodes kept for ``gang``."""
        return self._nodes.get(gang, frozenset())

    def against(self, gang: object) -> set[str]:
        """The nodes that ``gang`` may not use now."""
        shut: set[str] = set()
        for holder, nodes in self._nodes.items():
            if holder != gang and holder not in self._passed:
                shut |= nodes
        return shut
