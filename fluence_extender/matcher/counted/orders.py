"""The orders in which all rows are considered: as a walk meets them, and by node score.

Both are permutations of the live rows, kept until a node joins or leaves; on a flat tree a change patches them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.table import NodeTable
from fluence_extender.matcher.counted.tree import Tree

Ints = NDArray[np.int64]


class RowOrders:
    """The two permutations; None until they are asked for."""

    __slots__ = ("_ascending", "_by_score", "_visit")

    def __init__(self, *, ascending: bool) -> None:
        self._ascending = ascending
        self._visit: Ints | None = None
        self._by_score: Ints | None = None

    def visit(self, table: NodeTable, tree: Tree) -> Ints:
        """Rows depth first in edge order."""
        if self._visit is None:
            self._visit = np.fromiter(tree.rows(tree.root), np.int64)
        return self._visit

    def by_score(self, table: NodeTable, tree: Tree) -> Ints:
        """Rows by node score in the policy's direction, ties as a walk meets them."""
        if self._by_score is None:
            visit = self.visit(table, tree)
            self._by_score = visit[np.argsort(self._keys(table, visit), kind="stable")]
        return self._by_score

    def added(self, row: int, table: NodeTable, tree: Tree) -> None:
        """A row was appended as the last child of its level."""
        if len(tree.levels) > 1:
            self._visit = self._by_score = None
            return
        if self._visit is not None:
            self._visit = np.append(self._visit, row)
        if self._by_score is not None:
            key = self._keys(table, np.array([row]))[0]
            position = np.searchsorted(self._keys(table, self._by_score), key, side="right")
            self._by_score = np.insert(self._by_score, position, row)

    def removed(self, row: int) -> None:
        """A row is gone."""
        if self._visit is not None:
            self._visit = self._visit[self._visit != row]
        if self._by_score is not None:
            self._by_score = self._by_score[self._by_score != row]

    def _keys(self, table: NodeTable, rows: Ints) -> Ints:
        scores = table.node_score[rows]
        return scores if self._ascending else -scores

    def fork(self) -> RowOrders:
        """A copy; the arrays are replaced, never written to, so both may hold them."""
        copy = RowOrders(ascending=self._ascending)
        copy._visit = self._visit
        copy._by_score = self._by_score
        return copy
