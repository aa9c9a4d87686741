"""The levels above the physical nodes (root, zones, racks), and the orders in which a walk meets the nodes.

A level refers to a child by a number: a row of the table (0 and up), or ``-1 - number`` for a level. Invariant: a
level's ``children`` are in edge order, and ``siblings``, where the policy needs it, holds the same references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fluence_extender.matcher.counted.document import CompactEntry
from fluence_extender.matcher.counted.siblings import Siblings
from fluence_extender.matcher.counted.table import Ints, NodeTable


class TreeLevel:
    """One vertex above the nodes. ``parent`` is -1 for the root."""

    __slots__ = (
        "alive",
        "child_ids",
        "children",
        "entry",
        "free",
        "jobs",
        "number",
        "parent",
        "siblings",
        "turn",
        "up",
    )

    def __init__(self, number: int, parent: int, entry: CompactEntry, up: bool, turn: int) -> None:
        self.number = number
        self.parent = parent
        self.entry = entry
        self.up = up
        self.turn = turn
        self.alive = True
        self.children: dict[int, None] = {}
        self.child_ids: set[int] = set()
        """The uniq_ids of all children, those in the skeleton included."""
        self.siblings: Siblings | None = None
        self.free = 0
        """What is free below the level of the type that weighs the edge to it."""
        self.jobs = 0
        """How many jobs hold leaves below the level."""

    @property
    def reference(self) -> int:
        """How the parent refers to this level."""
        return -1 - self.number


class Tree:
    """All levels; number 0 is the root."""

    def __init__(self, *, weighed: bool) -> None:
        """``weighed``: the policy visits children by the weights of their edges."""
        self.types: set[str] = set()
        """The types of all levels that there ever were."""
        self.levels: list[TreeLevel] = []
        self.by_path: dict[str, int] = {}
        self._weighed = weighed
        self._loaded = False

    def order_children(self, uniq_ids: Callable[[int], int]) -> None:
        """Put all children in visiting order, once everything is loaded; ``uniq_ids`` knows the ids of rows."""
        self._loaded = self._weighed
        for level in self.levels if self._weighed else ():
            level.siblings = Siblings(
                [
                    (child, uniq_ids(child) if child >= 0 else self.levels[-1 - child].entry.uniq_id)
                    for child in level.children
                ]
            )

    @property
    def root(self) -> TreeLevel:
        """The root."""
        return self.levels[0]

    def level(self, reference: int) -> TreeLevel:
        """Return the level that a negative reference means."""
        return self.levels[-1 - reference]

    def at(self, path: str) -> TreeLevel | None:
        """Return the level at ``path``, None if there is none."""
        number = self.by_path.get(path)
        return None if number is None else self.levels[number]

    def add(self, parent: int, entry: CompactEntry, up: bool, turn: int) -> None:
        """Add a level below ``parent`` (-1 to make it the root)."""
        level = TreeLevel(len(self.levels), parent, entry, up, turn)
        self.levels.append(level)
        self.types.add(entry.type)
        self.by_path[entry.path] = level.number
        if self._loaded:
            level.siblings = Siblings()
        if parent >= 0:
            self.attach(parent, level.reference, entry.uniq_id)

    def attach(self, number: int, reference: int, uniq_id: int) -> None:
        """Add a child's edge to a level."""
        level = self.levels[number]
        level.children[reference] = None
        level.child_ids.add(uniq_id)
        if level.siblings is not None:
            level.siblings.add(reference, uniq_id)

    def detach(self, number: int, reference: int, uniq_id: int) -> None:
        """Remove a child's edge."""
        level = self.levels[number]
        del level.children[reference]
        level.child_ids.discard(uniq_id)
        if level.siblings is not None:
            level.siblings.remove(reference)

    def remove(self, level: TreeLevel) -> None:
        """Remove a level that has no children left."""
        self.detach(level.parent, level.reference, level.entry.uniq_id)
        level.alive = False
        del self.by_path[level.entry.path]

    def reachable(self, number: int) -> bool:
        """Whether the level and all above it are up."""
        return all(level.up for level in self.above(number))

    def above(self, number: int) -> Iterator[TreeLevel]:
        """Yield the level and those above it, up to the root."""
        while number >= 0:
            level = self.levels[number]
            yield level
            number = level.parent

    def below(self, level: TreeLevel) -> Iterator[TreeLevel]:
        """Yield ``level`` and the levels below it, parents first."""
        yield level
        for reference in level.children:
            if reference < 0:
                yield from self.below(self.level(reference))

    def rows(self) -> Iterator[int]:
        """Yield all rows, depth first in edge order."""
        stack = [iter(self.root.children)]
        while stack:
            for reference in stack[-1]:
                if reference >= 0:
                    yield reference
                else:
                    stack.append(iter(self.level(reference).children))
                    break
            else:
                stack.pop()


class RowOrders:
    """All rows as a walk meets them, and all rows by node score, ties as a walk meets them.

    Both orders are made when they are first needed. On a flat tree a node that joins or leaves only patches them.
    """

    __slots__ = ("_ascending", "_by_score", "_visit")

    def __init__(self, *, ascending: bool) -> None:
        self._ascending = ascending
        self._visit: Ints | None = None
        self._by_score: Ints | None = None

    def visit(self, tree: Tree) -> Ints:
        """Return the rows depth first in edge order."""
        if self._visit is None:
            self._visit = np.fromiter(tree.rows(), np.int64)
        return self._visit

    def by_score(self, table: NodeTable, tree: Tree) -> Ints:
        """Return the rows by node score, best first."""
        if self._by_score is None:
            visit = self.visit(tree)
            self._by_score = visit[np.argsort(self._keys(table, visit), kind="stable")]
        return self._by_score

    def add(self, row: int, table: NodeTable, tree: Tree) -> None:
        """Take in a row that was appended as the last child of its level."""
        if len(tree.levels) > 1:
            self._visit = self._by_score = None
            return
        if self._visit is not None:
            self._visit = np.append(self._visit, row)
        if self._by_score is not None:
            key = self._keys(table, np.array([row]))[0]
            position = np.searchsorted(self._keys(table, self._by_score), key, side="right")
            self._by_score = np.insert(self._by_score, position, row)

    def remove(self, row: int) -> None:
        """Drop a row."""
        if self._visit is not None:
            self._visit = self._visit[self._visit != row]
        if self._by_score is not None:
            self._by_score = self._by_score[self._by_score != row]

    def _keys(self, table: NodeTable, rows: Ints) -> Ints:
        scores = table.node_score[rows]
        return scores if self._ascending else -scores
