"""A compact graph: the counted state, the skeleton, and the changes that concern both.

Invariant: every level is in both halves. Every other vertex is in one of them, except for physical nodes with virtual
vertices below them, which are in the skeleton too, without their leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.counted.document import NODE, CompactEntry, Uncountable, read_tree
from fluence_extender.matcher.counted.policy import policy_named
from fluence_extender.matcher.counted.pruning import TrackedTypes
from fluence_extender.matcher.counted.skeleton import Halves, node_of, skeleton_document, split
from fluence_extender.matcher.counted.state import CountedState
from fluence_extender.matcher.counted.tree import TreeLevel
from fluence_extender.matcher.errors import InvalidGraph, MatcherError
from fluence_extender.matcher.port import MatcherOptions
from fluence_extender.matcher.walker import Walker
from fluence_extender.matcher.walker.graph import UP, GraphVertex, subtree


class CompactGraph:
    """Both halves of a graph."""

    def __init__(self, document: Any, options: MatcherOptions) -> None:
        """Load parsed JSON. Raises `Uncountable`, `InvalidGraph`, `InvalidOptions`."""
        policy = policy_named(options.policy)
        root, types = read_tree(document)
        self.state = CountedState(policy, TrackedTypes(options.prune_filters, types))
        self.leaf_types: set[str] = set()
        """The leaf types of physical nodes."""
        self.virtual_types: set[str] = set()
        """The types of virtual vertices, nodes excepted."""
        self.tops: dict[str, int] = {}
        """The paths of the topmost virtual vertices, with their turns among their siblings."""
        self._turns = 0
        halves = split(root)
        self._check(halves, loading=True)
        self.skeleton = Walker(skeleton_document(halves.skeleton), options)
        self._attach(halves, halves.skeleton)
        self.skeleton.recount_nodes()
        table = self.state.table
        self.state.tree.order_children(lambda row: table.node(row).uniq_id)

    # --- growth --------------------------------------------------------------------------------------------------

    def add(self, document: Any) -> None:
        """Add the new vertices of a document with their paths from the root. Raises `InvalidGraph`, `Uncountable`."""
        root, types = read_tree(document)
        if root.path != self.state.tree.root.entry.path:
            raise InvalidGraph(f"{root.path} isn't the root {self.state.tree.root.entry.path}")
        halves = split(root)
        self._check(halves, loading=False)
        joining = [entry for entry in halves.skeleton if not self.skeleton.has(entry.path)]
        if joining:
            self.skeleton.add_subgraph(skeleton_document(halves.skeleton))
        self.state.tracked.note(types)
        self._attach(halves, joining)
        if joining:
            self.skeleton.recount_nodes()

    def _is_new(self, entry: CompactEntry) -> bool:
        return entry.path not in self.state.by_path and entry.path not in self.state.tree.by_path

    def _check(self, halves: Halves, *, loading: bool) -> None:
        """Raise `InvalidGraph` or `Uncountable` for what can't be attached.

        While a graph is loading, attaching may raise it as well.
        """
        new = [entry for entry in halves.counted if self._is_new(entry)]
        leaves = {leaf.type for entry in new if entry.is_physical for leaf in entry.children if leaf.is_leaf}
        both = (self.leaf_types | leaves) & (self.virtual_types | halves.virtual_types)
        if both:
            raise Uncountable(
                f"{min(both)!r} is a leaf type of physical nodes and of virtual vertices as well"
            )
        known = self.state.index.by_rank
        ranks: set[int] = set()
        for entry in halves.counted:
            self._check_children(entry)
            if not entry.is_physical:
                continue
            if not self._is_new(entry):
                if any(child.is_leaf for child in entry.children):
                    raise Uncountable(f"{entry.path} is there already, and its leaves can't change")
                continue
            if not loading:
                node_of(entry, 0, self.state.policy, 0)
            rank = entry.metadata.rank
            if rank in known or rank in ranks:
                raise Uncountable(f"{entry.path}: another node has the rank {rank}")
            if rank >= 0:
                ranks.add(rank)

    def _check_children(self, entry: CompactEntry) -> None:
        """Raise `InvalidGraph` if two children of a parent have the same uniq_id."""
        level = self.state.tree.at(entry.path)
        joining = entry.children
        taken: set[int] = set()
        if level is not None:
            joining = [child for child in joining if self._is_new(child) and child.path not in self.tops]
            taken = level.child_ids
        ids = {child.uniq_id for child in joining}
        if len(ids) < len(joining) or not taken.isdisjoint(ids):
            raise InvalidGraph(f"two children of {entry.path} have the same uniq_id")

    def _attach(self, halves: Halves, joining: list[CompactEntry]) -> None:
        """Add a document that has passed `_check`; ``joining`` are the entries that are new to the skeleton."""
        state = self.state
        for entry in halves.counted:
            if not self._is_new(entry):
                continue
            parent = -1 if entry.parent is None else state.tree.by_path[entry.parent.path]
            up = entry.metadata.status == UP
            if entry.is_physical:
                node = node_of(entry, parent, state.policy, self._turns)
                state.add_node(node, up)
                self.leaf_types.update(pool.type for pool in node.pools)
            else:
                state.tree.add(parent, entry, up, self._turns + entry.turn)
        self.virtual_types |= halves.virtual_types
        for top in halves.tops:
            if top.path not in self.tops and top.parent is not None:
                self.tops[top.path] = self._turns + top.turn
                level = state.tree.at(top.parent.path)
                if level is not None:
                    level.child_ids.add(top.uniq_id)
        self._turns += 1 + max((entry.turn for entry in (*halves.counted, *halves.tops)), default=0)
        for entry in joining:
            if entry.type == NODE and entry.path not in state.by_path:
                state.count_virtual_nodes(self._level_of(entry.path), 1)

    # --- status and removal --------------------------------------------------------------------------------------

    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError` for an unknown path, `Uncountable` for a counted leaf."""
        row, level = self._find(path)
        if row is not None:
            self.state.set_node_status(row, up)
        elif level is not None:
            self.state.set_level_status(level, up)
        if self.skeleton.has(path):
            self.skeleton.set_status(path, up)

    def remove(self, path: str) -> None:
        """Remove a vertex and all below it. Raises `MatcherError`: unknown path, root."""
        row, level = self._find(path)
        if level is self.state.tree.root:
            raise MatcherError("the root can't be removed", EINVAL)
        if self.skeleton.has(path):
            self._remove_from_skeleton(path)
            self.skeleton.recount_nodes()
        if row is not None:
            self.state.remove_node(row)
        elif level is not None:
            for below in reversed(list(self.state.tree.below(level))):
                for reference in [reference for reference in below.children if reference >= 0]:
                    self.state.remove_node(reference)
                self.state.tree.remove(below)

    def _remove_from_skeleton(self, path: str) -> None:
        vertex = self.skeleton.vertex(path)
        level = self._level_of(path)
        self.state.count_virtual_nodes(level, -len(self._virtual_nodes(vertex)))
        if path in self.tops and path.rpartition("/")[0] == level.entry.path:
            level.child_ids.discard(vertex.uniq_id)
        below = path + "/"
        self.tops = {top: turn for top, turn in self.tops.items() if not f"{top}/".startswith(below)}
        self.skeleton.remove_subgraph(path)

    # --- queries -------------------------------------------------------------------------------------------------

    def has_virtual_node(self, serves: Callable[[GraphVertex], bool] | None) -> bool:
        """Whether there is a virtual node, one that ``serves`` if given."""
        by_path = self.state.by_path
        return any(
            node.path not in by_path and (serves is None or serves(node)) for node in self.skeleton.nodes()
        )

    def _virtual_nodes(self, vertex: GraphVertex) -> list[GraphVertex]:
        """Return the virtual nodes at and below a vertex of the skeleton."""
        by_path = self.state.by_path
        return [below for below in subtree(vertex) if below.type == NODE and below.path not in by_path]

    def _level_of(self, path: str) -> TreeLevel:
        """Return the innermost level at or above ``path``."""
        while path not in self.state.tree.by_path:
            path = path.rpartition("/")[0]
        return self.state.tree.levels[self.state.tree.by_path[path]]

    def _find(self, path: str) -> tuple[int | None, TreeLevel | None]:
        """Return the row or the level at ``path``, neither for a virtual vertex.

        Raises `MatcherError` for an unknown path and `Uncountable` for a counted leaf.
        """
        state = self.state
        row, level = state.by_path.get(path), state.tree.at(path)
        if row is None and level is None and not self.skeleton.has(path):
            holder, _, name = path.rpartition("/")
            above = state.by_path.get(holder)
            if above is not None and state.table.node(above).has_unit(name):
                raise Uncountable(f"{path!r} is one of several leaves that are counted together")
            raise MatcherError(f"no vertex is at {path[:80]!r}", EINVAL)
        return row, level
