"""The physical half of a compact graph, and what jobs hold of it now.

Invariant: the table's columns, the levels' counters and the visiting orders agree with the set of live jobs; a change
is made in one call that can't fail half way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluence_extender.matcher.counted.borrowing import Borrower
from fluence_extender.matcher.counted.constraints import NodeIndex
from fluence_extender.matcher.counted.document import NODE
from fluence_extender.matcher.counted.jobs import Job, Share
from fluence_extender.matcher.counted.orders import RowOrders
from fluence_extender.matcher.counted.policy import Order, Policy
from fluence_extender.matcher.counted.ranges import difference, size, union
from fluence_extender.matcher.counted.request import GRAPH_END
from fluence_extender.matcher.counted.table import Node, NodeTable
from fluence_extender.matcher.counted.tracking import Tracking
from fluence_extender.matcher.counted.tree import Level, Tree


class State(Borrower):
    """Table, tree, index and orders under one policy."""

    __slots__ = (
        "__weakref__",
        "_highest_id",
        "_lowest_id",
        "by_path",
        "exact",
        "index",
        "nodes_counted",
        "orders",
        "policy",
        "table",
        "tracking",
        "tree",
    )

    WRITTEN = ("by_path",)
    KEPT = ("_highest_id", "_lowest_id", "exact", "index", "nodes_counted", "policy", "tracking")

    def __init__(self, policy: Policy, tracking: Tracking, *, exact: bool = False) -> None:
        """``exact``: every choice is libreapi_cli's, at whatever cost; else those among very many are its kind."""
        super().__init__()
        self.policy = policy
        self.exact = exact
        self.tracking = tracking
        self.table = NodeTable()
        self.tree = Tree(weighed=policy.order is Order.FIRST)
        self.index = NodeIndex()
        self.index.owners.add(self)
        self.orders = RowOrders(ascending=policy.ascending)
        self.by_path: dict[str, int] = {}
        self.nodes_counted = NODE in tracking.named
        """Whether nodes are among the counted types."""
        self._lowest_id = self._highest_id = 0

    @property
    def id_span(self) -> int:
        """By how much two leaf ids can differ."""
        return self._highest_id - self._lowest_id

    def fork(self) -> State:
        """An independent copy."""
        copy = super().fork()
        copy.table = self.table.fork()
        copy.tree = self.tree.fork()
        copy.orders = self.orders.fork()
        copy.index.owners.add(copy)
        return copy

    # --- the graph -----------------------------------------------------------------------------------------------

    def add_node(self, node: Node, up: bool) -> int:
        """Attach a physical node, all of it free; returns its row."""
        row = self.table.add(node, up, up and self.tree.reachable(node.level))
        self.tree.attach(node.level, row, node.uniq_id)
        self.tree.write(node.level).node_children += 1
        self.own("by_path")
        self.by_path[node.path] = row
        self.index = self.index.owned_by(self)
        self.index.add(row, node)
        self.orders.added(row, self.table, self.tree)
        for pool in node.pools:
            self._lowest_id = min(self._lowest_id, pool.id)
            self._highest_id = max(self._highest_id, pool.id + pool.count - 1)
        self._count_free(node, {pool.type: pool.count for pool in node.pools}, 1)
        return row

    def count_walked_nodes(self, number: int, change: int) -> None:
        """Note that ``node`` vertices that aren't in the table joined or left below the level ``number``."""
        for level in self.tree.above(number):
            if self.tracking.weighs(level.vertex.type) == NODE:
                self.tree.write(level.number).free += change

    def remove_node(self, row: int) -> None:
        """Detach a node; what jobs hold there is forgotten."""
        node = self.table.node(row)
        free = {pool.type: -int(self.table.columns[pool.type].free[row]) for pool in node.pools}
        self._count_free(node, free, 0 if self.table.held[row] else -1)
        self.tree.detach(node.level, row, node.uniq_id)
        self.tree.write(node.level).node_children -= 1
        self.table.remove(row)
        self.index = self.index.owned_by(self)
        self.index.remove(row, node)
        self.orders.removed(row)
        self.own("by_path")
        del self.by_path[node.path]

    def set_node_status(self, row: int, up: bool) -> bool:
        """Mark a node up or down; returns whether that is new."""
        changed = bool(self.table.up[row]) is not up
        self.table.own("up", "reachable")
        self.table.up[row] = up
        self.table.reachable[row] = up and self.tree.reachable(self.table.node(row).level)
        return changed

    def set_level_status(self, level: Level, up: bool) -> bool:
        """Mark a level up or down, and with it what can be reached below; returns whether that is new."""
        if level.up is up:
            return False
        self.tree.write(level.number).up = up
        self.table.own("reachable")
        for below in self.tree.below(self.tree.levels[level.number]):
            reachable = self.tree.reachable(below.number)
            for reference in below.children:
                if reference >= 0:
                    self.table.reachable[reference] = reachable and self.table.up[reference]
        return True

    # --- jobs ----------------------------------------------------------------------------------------------------

    def commit(self, job: Job) -> None:
        """Book a job. One that starts later takes nothing of what is free now."""
        now = job.start == 0
        self._own_books()
        for share in job.shares:
            self._book(share, now=now, forever=job.end >= GRAPH_END, sign=1)
        self._count_jobs(job.levels, 1)

    def release(self, job: Job) -> None:
        """Give a job's shares back, those of removed nodes excepted."""
        now = job.start == 0
        self._own_books()
        for share in job.shares:
            if self.table.serial[share.row] == share.serial:
                self._book(share, now=now, forever=job.end >= GRAPH_END, sign=-1)
        self._count_jobs(job.levels, -1)

    def counting_levels(self, shares: Iterable[Share]) -> frozenset[int]:
        """The levels right above shares that hold something of a counted type."""
        return frozenset(
            share.node.level for share in shares if share.taken or (share.whole and self.nodes_counted)
        )

    def _own_books(self) -> None:
        self.table.own("spans", "held_forever", "on_it", "held")

    def _book(self, share: Share, *, now: bool, forever: bool, sign: int) -> None:
        table, row = self.table, share.row
        if share.taken:
            table.spans[row] += sign
        if share.whole and forever:
            table.held_forever[row] = sign > 0
        if not now:
            return
        table.on_it[row] += sign
        if share.whole:
            table.held[row] = sign > 0
        for name, units in share.taken:
            column = table.columns[name]
            if column.borrowed:
                column.own("units", "free")
            free = column.free_units(row)
            column.units[row] = difference(free, units) if sign > 0 else union(free, units)
            column.free[row] -= sign * size(units)
        if len(self.tree.levels) > 1 and self.policy.order is Order.FIRST:
            counts = {name: -sign * size(units) for name, units in share.taken}
            self._count_free(share.node, counts, -sign if share.whole else 0)

    def _count_jobs(self, levels: Iterable[int], change: int) -> None:
        if len(self.tree.levels) == 1:
            return
        tree = self.tree
        for touched in {level.number for number in levels for level in tree.above(number)}:
            tree.write(touched).jobs += change

    def _count_free(self, node: Node, counts: dict[str, int], nodes: int) -> None:
        """Change what levels above ``node`` have free of the type that weighs the edge to them."""
        if self.policy.order is not Order.FIRST or node.level == 0:
            return
        for level in self.tree.above(node.level):
            name = self.tracking.weighs(level.vertex.type)
            if name is not None:
                self.tree.write(level.number).free += nodes if name == NODE else counts.get(name, 0)

    # --- weights -------------------------------------------------------------------------------------------------

    def is_shared(self, share: Share) -> bool:
        """Whether jobs hold leaves of the node now, beside those of the share."""
        return any(
            int(self.table.columns[pool.type].free[share.row]) < pool.count for pool in share.node.pools
        )

    def reweigh(self, shares: Sequence[Share], *, replayed: bool = False) -> bool:
        """Set the weights of the edges down to ``shares`` to what is free there now (fluxion reference 4.7).

        Under a replay, as in libreapi_cli, they are set to 0. Returns whether any could be set.
        """
        if self.policy.order is not Order.FIRST:
            return False
        by_level: dict[int, list[Share]] = {}
        for share in shares:
            by_level.setdefault(share.node.level, []).append(share)
        for number, group in by_level.items():
            self._reweigh_rows(number, group, replayed=replayed)
        if len(self.tree.levels) > 1:
            above = {level.number for number in by_level for level in self.tree.above(number)}
            for number in sorted(above - {0}):
                self._reweigh_level(self.tree.levels[number], replayed=replayed)
            kinds = {self.tree.levels[number].vertex.type for number in above - {0}} | {NODE}
            return any(self.tracking.weighs(kind) is not None for kind in kinds)
        return bool(shares) and self.tracking.weighs(NODE) is not None

    def _reweigh_rows(self, number: int, shares: list[Share], *, replayed: bool) -> None:
        table = self.table
        rows: list[int] = []
        weights: list[int] = []
        name = self.tracking.weighs(NODE)
        for share in shares:
            column = table.columns.get(name or "")
            weight = 0 if column is None or replayed else int(column.free[share.row])
            if (
                name is not None
                and share.node.has_children
                and (weight or replayed or table.spans[share.row])
            ):
                rows.append(share.row)
                weights.append(weight)
        siblings = self.tree.write(number).siblings
        if siblings is not None and rows:
            siblings.reweigh(rows, weights)

    def _reweigh_level(self, level: Level, *, replayed: bool) -> None:
        name = self.tracking.weighs(level.vertex.type)
        siblings = self.tree.write(level.parent).siblings
        if siblings is not None and name is not None and (level.free or level.jobs or replayed):
            siblings.reweigh([level.reference], [0 if replayed else level.free])
