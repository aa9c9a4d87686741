"""A compact graph as a whole: the counted state, the walked rest, and the changes that concern both.

Invariant: every level is in both halves; every other vertex is in one, but for physical nodes with virtual vertices
below them, which stand in the skeleton without their leaves. ``nodes_up`` counts the nodes, virtual ones included,
and follows status, growth and shrinkage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.counted.borrowing import Borrower
from fluence_extender.matcher.counted.document import NODE, Vertex, read_tree
from fluence_extender.matcher.counted.jobs import Share
from fluence_extender.matcher.counted.loading import Halves, is_leaf, is_physical, node_of, skeleton, split
from fluence_extender.matcher.counted.policy import policy_named
from fluence_extender.matcher.counted.state import State
from fluence_extender.matcher.counted.table import Node
from fluence_extender.matcher.counted.tracking import Tracking
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.counted.walked import Walked, is_up
from fluence_extender.matcher.embedded import graph as walked_graph
from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.errors import InvalidGraph, MatcherError
from fluence_extender.matcher.port import Jgf, MatcherOptions


class CompactGraph(Borrower):
    """Both halves of a graph."""

    __slots__ = (
        "_plain",
        "leaf_types",
        "nested",
        "nodes_up",
        "state",
        "tops",
        "turns",
        "walked",
        "walked_types",
    )

    WRITTEN = ("leaf_types", "nested", "tops", "walked_types")
    KEPT = ("_plain", "nodes_up", "turns")

    def __init__(self, document: Any, options: MatcherOptions, *, plain: bool) -> None:
        """Load parsed JSON. Raises `Uncountable`, `InvalidGraph`, `InvalidOptions`.

        ``plain``: it came as a plain document, and is to answer like libreapi_cli, whose count of nodes that are up
        doesn't follow growth and shrinkage; else it does.
        """
        super().__init__()
        policy = policy_named(options.policy)
        if plain and policy.by_class:
            raise Uncountable("units of one class tie, and how ties among them fall is the walker's to tell")
        root, types = read_tree(document)
        tracking = Tracking(options.prune_filters, types)
        self._plain = plain
        self.state = State(policy, tracking, exact=plain)
        self.leaf_types: set[str] = set()
        self.walked_types: set[str] = set()
        self.nested: dict[str, int] = {}
        """The rows of physical nodes that have virtual vertices below them, by path."""
        self.tops: dict[str, int] = {}
        """The paths of the subtrees that are walked, with their turns among their siblings."""
        self.turns = 0
        self.nodes_up = 0
        halves = split(root)
        self._check(halves, loading=True)
        self.walked = Walked(skeleton(halves.rest), options)
        self._attach(halves, halves.rest)

        table = self.state.table
        self.state.tree.loaded(lambda row: table.node(row).uniq_id)

    def fork(self) -> CompactGraph:
        """An independent copy."""
        copy = super().fork()
        copy.state = self.state.fork()
        copy.walked = self.walked.fork()
        return copy

    # --- growth --------------------------------------------------------------------------------------------------

    def add(self, document: Any) -> None:
        """Add what is new in a document that leads from the root down to it. Raises `InvalidGraph`."""
        root, types = read_tree(document)
        if root.path != self.state.tree.root.vertex.path:
            raise InvalidGraph(f"{root.path} isn't the root {self.state.tree.root.vertex.path}")
        halves = split(root)
        if self._plain:
            self._check_joining(halves, types)
        self._check(halves, loading=False)
        joining = [vertex for vertex in halves.rest if not self.walked.has(vertex.path)]
        if joining:
            self.walked.add_subgraph(skeleton(halves.rest))
        self.state.tracking = self.state.tracking.noting(types)
        nodes_up = self.nodes_up
        self._attach(halves, joining)
        if self._plain:
            self.nodes_up = nodes_up

    def _is_new(self, vertex: Vertex) -> bool:
        state = self.state
        return vertex.path not in state.by_path and vertex.path not in state.tree.by_path

    def _check(self, halves: Halves, *, loading: bool) -> None:
        """Raises `InvalidGraph` for what couldn't be attached; while loading, attaching may raise it as well."""
        new = [vertex for vertex in halves.counted if self._is_new(vertex)]
        leaves = {
            leaf.type for vertex in new if is_physical(vertex) for leaf in vertex.children if is_leaf(leaf)
        }
        walked = {vertex.type for top in halves.walked for vertex in top.walk()} - {NODE}
        both = (self.leaf_types | leaves) & (self.walked_types | walked)
        if both:
            raise Uncountable(
                f"{min(both)!r} is a leaf type of physical nodes and of virtual vertices as well"
            )
        ranks = self.state.index.by_rank
        seen: set[int] = set()
        for vertex in halves.counted:
            known = not self._is_new(vertex)
            if known and is_physical(vertex) and any(is_leaf(child) for child in vertex.children):
                raise Uncountable(
                    f"{vertex.path} is there already; a node's leaves can't change: remove it first"
                )
            if known or not is_physical(vertex):
                continue
            rank = vertex.metadata.rank
            if rank in ranks or rank in seen:
                raise Uncountable(f"{vertex.path}: another node has the rank {rank}")
            if rank >= 0:
                seen.add(rank)
            if not loading:
                node_of(vertex, 0, self.state.policy)
        for vertex in halves.counted:
            self._check_children(vertex)
        if self.state.policy.whole_nodes and any(
            top.parent is not None and is_physical(top.parent) for top in halves.walked
        ):
            raise Uncountable("a *nodex policy can't take a node whole that has virtual vertices below it")

    def _check_joining(self, halves: Halves, types: list[str]) -> None:
        """Raises `Uncountable` for an addition to a plain graph that brings what wasn't there of its kind."""
        if any(not self.state.tracking.knows_type(name) for name in types):
            raise Uncountable("a type is new to the graph")
        for vertex in halves.counted:
            number = self.state.tree.by_path.get(vertex.path)
            if number is not None:
                known = self.state.tree.levels[number].vertex
                if known.metadata.rank != vertex.metadata.rank:
                    raise Uncountable(f"{vertex.path} has another rank")

    def _check_children(self, vertex: Vertex) -> None:
        """A parent's children differ in their uniq_id."""
        number = self.state.tree.by_path.get(vertex.path)
        joining = vertex.children
        taken: set[int] = set()
        if number is not None:
            joining = [child for child in joining if self._is_new(child) and child.path not in self.tops]
            taken = self.state.tree.levels[number].sibling_ids
        ids = {child.uniq_id for child in joining}
        if len(ids) < len(joining) or not taken.isdisjoint(ids):
            raise InvalidGraph(f"two children of {vertex.path} have the same uniq_id")

    def _attach(self, halves: Halves, joining: list[Vertex]) -> None:
        """Add what `_check` has passed; ``joining`` are the vertices that are new to the skeleton."""
        state = self.state
        for vertex in halves.counted:
            if not self._is_new(vertex):
                continue
            parent = -1 if vertex.parent is None else state.tree.by_path[vertex.parent.path]
            up = vertex.metadata.status == 0
            if is_physical(vertex):
                node = node_of(vertex, parent, state.policy, self.turns)
                state.add_node(node, up)
                self.own("leaf_types")
                self.leaf_types.update(pool.type for pool in node.pools)
                self.state.nodes_counted |= not node.has_children
                self.nodes_up += up - state.tree.downs(parent)
            else:
                state.tree.add(parent, vertex, up, self.turns + vertex.turn)
        for top in halves.walked:
            self._attach_top(top)
        self.turns += 1 + max((vertex.turn for vertex in (*halves.counted, *halves.walked)), default=0)
        for vertex in joining:
            if vertex.type == NODE and not self._is_counted(vertex.path):
                state.count_walked_nodes(self._level_of(vertex.path), 1)
                self.state.nodes_counted |= not vertex.children
                self.nodes_up += 1 - self.walked.downs(vertex.path)

    def _attach_top(self, top: Vertex) -> None:
        self.own("walked_types")
        self.walked_types.update({vertex.type for vertex in top.walk()} - {NODE})
        if top.path in self.tops or top.parent is None:
            return
        self.own("tops")
        self.tops[top.path] = self.turns + top.turn
        row = self.state.by_path.get(top.parent.path)
        if row is not None:
            self.own("nested")
            self.nested[top.parent.path] = row
            return
        level = self.state.tree.write(self.state.tree.by_path[top.parent.path])
        level.own_all()
        level.sibling_ids.add(top.uniq_id)
        level.node_children += top.type == NODE

    def _is_counted(self, path: str) -> bool:
        return path in self.state.by_path

    # --- status and shrinkage ------------------------------------------------------------------------------------

    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError` for a path that isn't there."""
        state = self.state
        row, number = state.by_path.get(path), state.tree.by_path.get(path)
        nodes = self._nodes_at(path)
        if row is not None:
            changed = state.set_node_status(row, up)
        elif number is not None:
            changed = state.set_level_status(state.tree.levels[number], up)
        elif self.walked.has(path):
            changed = is_up(self.walked.vertex(path)) is not up
        else:
            raise self._unknown(path)
        if self.walked.has(path):
            self.walked.set_status(path, up)
        if changed:
            self.nodes_up += nodes if up else -nodes

    def remove(self, path: str) -> None:
        """Remove a vertex and all below it. Raises `MatcherError`: unknown path, root."""
        state = self.state
        row, number = state.by_path.get(path), state.tree.by_path.get(path)
        if number == 0:
            raise MatcherError("the root can't be removed", EINVAL)
        if row is None and number is None and not self.walked.has(path):
            raise self._unknown(path)
        nodes_up = self.nodes_up
        self._remove_walked(path)
        if row is not None:
            self._remove_row(row)
        elif number is not None:
            for level in reversed(list(state.tree.below(state.tree.levels[number]))):
                for reference in [reference for reference in level.children if reference >= 0]:
                    self._remove_row(reference)
                state.tree.remove(level)
        if self._plain:
            self.nodes_up = nodes_up

    def _remove_row(self, row: int) -> None:
        state = self.state
        node = state.table.node(row)
        self.nodes_up -= int(state.table.up[row]) - state.tree.downs(node.level)
        self.own("nested")
        self.nested.pop(node.path, None)
        state.remove_node(row)

    def _remove_walked(self, path: str) -> None:
        if not self.walked.has(path):
            return
        gone = self._walked_nodes(path)
        vertex = self.walked.vertex(path)
        self.nodes_up -= sum(1 - self.walked.downs(vertex.path) for vertex in gone)
        number = self._level_of(path)
        self.state.count_walked_nodes(number, -len(gone))
        if path in self.tops and path.rpartition("/")[0] in self.state.tree.by_path:
            level = self.state.tree.write(number)
            level.own_all()
            level.sibling_ids.discard(vertex.uniq_id)
            level.node_children -= vertex.type == NODE
        below = path + "/"
        self.borrowed.discard("tops")
        self.tops = {
            top: turn for top, turn in self.tops.items() if top != path and not top.startswith(below)
        }
        self.walked.remove_subgraph(path)

    def is_up(self, path: str) -> bool:
        """Whether the vertex at ``path`` is itself marked up. Raises `MatcherError`; `Uncountable`: a counted leaf."""
        row, number = self.state.by_path.get(path), self.state.tree.by_path.get(path)
        if row is not None:
            return bool(self.state.table.up[row])
        if number is not None:
            return self.state.tree.levels[number].up
        if self.walked.has(path):
            return is_up(self.walked.vertex(path))
        raise self._unknown(path)

    def node_of_rank(self, rank: int) -> str:
        """The path of the node of a rank. Raises `Uncountable` unless that alone, but for its leaves, has the rank."""
        row = self.state.index.by_rank.get(rank)
        levels = self.state.tree.levels
        if row is None or any(level.alive and level.vertex.metadata.rank == rank for level in levels):
            raise Uncountable(f"rank {shown(rank)} isn't that of one physical node")
        path = self.state.table.node(row).path
        if path in self.nested:
            raise Uncountable(f"{path} has other nodes below it")
        return path

    # --- questions -----------------------------------------------------------------------------------------------

    def count_walked(self, serves: Callable[[walked_graph.Vertex], bool]) -> int:
        """How many ``node`` vertices outside the table serve."""
        return sum(
            1 for vertex in self.walked.nodes() if vertex.path not in self.state.by_path and serves(vertex)
        )

    def claimed(self, node: Node, at: int, duration: int) -> bool:
        """Whether a job is on virtual vertices below a physical node during [at, at + duration)."""
        return node.path in self.nested and self.walked.vertex(node.path).claimed_during(at, duration)

    def listed_below(self, shares: Sequence[Share]) -> Jgf:
        """An R of what is held below the nodes of shares that hold all of it: the virtual vertices."""
        nodes: list[Jgf] = []
        edges: list[Jgf] = []
        for share in shares:
            if share.entire and share.node.path in self.nested:
                for path in self.walked.below(share.node.path):
                    entry = self.walked.entry(path, exclusive=True)
                    uniq_id = str(entry["metadata"].pop("uniq_id"))
                    above = self.walked.vertex(path.rpartition("/")[0])
                    nodes.append({**entry, "id": uniq_id})
                    edges.append({"source": str(above.uniq_id), "target": uniq_id})
        return {"graph": {"nodes": nodes, "edges": edges}}

    def _walked_nodes(self, path: str) -> list[walked_graph.Vertex]:
        """The ``node`` vertices outside the table at and below ``path``."""
        if not self.walked.has(path):
            return []
        below = walked_graph.subtree(self.walked.vertex(path))
        return [vertex for vertex in below if vertex.type == NODE and vertex.path not in self.state.by_path]

    def _nodes_at(self, path: str) -> int:
        state = self.state
        number = state.tree.by_path.get(path)
        rows = 0 if number is None else sum(1 for _ in state.tree.rows(state.tree.levels[number]))
        return rows + (path in state.by_path) + len(self._walked_nodes(path))

    def _level_of(self, path: str) -> int:
        """The number of the innermost level at or above ``path``."""
        while path not in self.state.tree.by_path:
            path = path.rpartition("/")[0]
        return self.state.tree.by_path[path]

    def _unknown(self, path: str) -> MatcherError:
        holder, _, name = path.rpartition("/")
        row = self.state.by_path.get(holder)
        if row is not None and self.state.table.node(row).unit_named(name) is not None:
            return Uncountable(f"{path!r} is one of several leaves that are counted together")
        return MatcherError(f"no vertex is at {path!r}", EINVAL)
