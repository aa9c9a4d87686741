"""The counted half of a compact graph, and the jobs' shares of it.

Invariant: the table's columns, the levels' counters and the visiting orders agree with the set of live jobs. Every
change is one call, which can't fail halfway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fluence_extender.matcher.counted.constraints import NodeIndex
from fluence_extender.matcher.counted.document import NODE
from fluence_extender.matcher.counted.policy import CountedPolicy, Order
from fluence_extender.matcher.counted.pruning import TrackedTypes
from fluence_extender.matcher.counted.ranges import size, take_highest, take_lowest
from fluence_extender.matcher.counted.table import NodeRow, NodeTable, Share
from fluence_extender.matcher.counted.tree import RowOrders, Tree, TreeLevel


class CountedState:
    """Table, tree, index and orders under one policy."""

    def __init__(self, policy: CountedPolicy, tracked: TrackedTypes) -> None:
        self.policy = policy
        self.tracked = tracked
        self.table = NodeTable()
        self.tree = Tree(weighed=policy.order is Order.FIRST)
        self.index = NodeIndex()
        self.orders = RowOrders(ascending=policy.ascending)
        self.by_path: dict[str, int] = {}
        """The rows of the nodes, by path."""
        self._lowest_id = self._highest_id = 0

    @property
    def id_span(self) -> int:
        """By how much two leaf ids can differ."""
        return self._highest_id - self._lowest_id

    # --- the graph -----------------------------------------------------------------------------------------------

    def add_node(self, node: NodeRow, up: bool) -> None:
        """Attach a physical node with all leaves free."""
        row = self.table.add(node, up, up and self.tree.reachable(node.level))
        self.tree.attach(node.level, row, node.uniq_id)
        self.by_path[node.path] = row
        self.index.add(row, node)
        self.orders.add(row, self.table, self.tree)
        for pool in node.pools:
            self._lowest_id = min(self._lowest_id, pool.id)
            self._highest_id = max(self._highest_id, pool.id + pool.count - 1)
        self._count_free(node, {pool.type: pool.count for pool in node.pools}, nodes=1)

    def remove_node(self, row: int) -> None:
        """Detach a node, and forget what jobs hold there."""
        node = self.table.node(row)
        free = {pool.type: -int(self.table.columns[pool.type].free[row]) for pool in node.pools}
        self._count_free(node, free, nodes=-1)
        self.tree.detach(node.level, row, node.uniq_id)
        self.table.remove(row)
        self.index.remove(row, node)
        self.orders.remove(row)
        del self.by_path[node.path]

    def count_virtual_nodes(self, level: TreeLevel, change: int) -> None:
        """Count ``node`` vertices of the skeleton that joined or left below ``level``."""
        for above in self.tree.above(level.number):
            if self.tracked.weighing(above.entry.type) == NODE:
                above.free += change

    def set_node_status(self, row: int, up: bool) -> None:
        """Mark a node up or down."""
        self.table.up[row] = up
        self.table.reachable[row] = up and self.tree.reachable(self.table.node(row).level)

    def set_level_status(self, level: TreeLevel, up: bool) -> None:
        """Mark a level up or down, which decides whether the vertices below it can be reached."""
        level.up = up
        for below in self.tree.below(level):
            reachable = self.tree.reachable(below.number)
            for reference in below.children:
                if reference >= 0:
                    self.table.reachable[reference] = reachable and self.table.up[reference]

    # --- jobs ----------------------------------------------------------------------------------------------------

    def share_of(self, row: int, counts: Mapping[str, int]) -> Share | None:
        """Return the units that the policy takes first on a node, None if it hasn't as many free."""
        if not counts or not self.table.reachable[row]:
            return None
        take = take_lowest if self.policy.ascending else take_highest
        taken = []
        for name, count in counts.items():
            column = self.table.columns.get(name)
            if column is None or not 0 < count <= column.free[row]:
                return None
            taken.append((name, take(column.free_units(row), count)[0]))
        return Share(row, int(self.table.serial[row]), self.table.node(row), tuple(taken))

    def hold(self, shares: Sequence[Share]) -> None:
        """Take the shares of a new job, and weigh the edges that lead to them."""
        for share in shares:
            for name, units in share.taken:
                self.table.columns[name].take(share.row, units)
            self._count_job(share, 1)
        self._count_levels(shares, 1)
        self._reweigh(shares)

    def release(self, shares: Sequence[Share]) -> None:
        """Give a job's shares back, those of removed nodes excepted."""
        for share in shares:
            if self.table.has(share):
                for name, units in share.taken:
                    self.table.columns[name].give_back(share.row, units)
                self._count_job(share, -1)
        self._count_levels(shares, -1)

    def _count_job(self, share: Share, change: int) -> None:
        self.table.jobs[share.row] += change
        if len(self.tree.levels) > 1:
            self._count_free(
                share.node, {name: -change * size(units) for name, units in share.taken}, nodes=0
            )

    def _count_levels(self, shares: Iterable[Share], change: int) -> None:
        if len(self.tree.levels) > 1:
            for level in self._levels_above(shares):
                level.jobs += change

    def _levels_above(self, shares: Iterable[Share]) -> list[TreeLevel]:
        """Return the levels above the shares, each once, outer ones first."""
        numbers = {
            level.number
            for number in {share.node.level for share in shares}
            for level in self.tree.above(number)
        }
        return [self.tree.levels[number] for number in sorted(numbers)]

    def _count_free(self, node: NodeRow, counts: Mapping[str, int], *, nodes: int) -> None:
        """Change the free units of the levels above ``node``, of the type that weighs the edge to them."""
        if self.policy.order is not Order.FIRST or node.level == 0:
            return
        for level in self.tree.above(node.level):
            name = self.tracked.weighing(level.entry.type)
            if name is not None:
                level.free += nodes if name == NODE else counts.get(name, 0)

    # --- weights -------------------------------------------------------------------------------------------------

    def _reweigh(self, shares: Sequence[Share]) -> None:
        """Set the weights of the edges down to ``shares`` to the present free units."""
        if self.policy.order is not Order.FIRST:
            return
        by_level: dict[int, list[Share]] = {}
        for share in shares:
            by_level.setdefault(share.node.level, []).append(share)
        for number, group in by_level.items():
            self._reweigh_rows(self.tree.levels[number], group)
        for level in self._levels_above(shares)[1:] if len(self.tree.levels) > 1 else ():
            siblings = self.tree.levels[level.parent].siblings
            weighed = self.tracked.weighing(level.entry.type) is not None
            if siblings is not None and weighed and (level.free or level.jobs):
                siblings.reweigh([level.reference], [level.free])

    def _reweigh_rows(self, level: TreeLevel, shares: list[Share]) -> None:
        name = self.tracked.weighing(NODE)
        if name is None or level.siblings is None:
            return
        column = self.table.columns.get(name)
        rows: list[int] = []
        weights: list[int] = []
        for share in shares:
            weight = 0 if column is None else int(column.free[share.row])
            if weight or self.table.jobs[share.row]:
                rows.append(share.row)
                weights.append(weight)
        if rows:
            level.siblings.reweigh(rows, weights)
