"""The nodes that autoscalers may not remove, because something is planned, reserved or awaited there.

An autoscaler doesn't see plans; to it, a node without running pods is empty. So a node that is held for a while gets
the annotations that autoscalers respect, and loses them once nothing has held it for a while. A plan that lasts only a
moment isn't worth a write.

Invariant: the service changes no annotation that it hasn't set. The node itself records which ones it has set, so each
leader knows them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender.gangs.execution.actions import KeepNode
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.model.names import KEEPING
from fluence_extender.model.node import Node
from fluence_extender.room.holdings import Strength
from fluence_extender.room.ledger import Ledger

LOOK_EVERY = 5.0
"""Seconds between two looks; a node is annotated if two looks in a row find it held."""

FREE_FOR = 60.0
"""Seconds after which a node that nothing holds loses its annotations; a new leader has made its plans by then."""

AGAIN = 30.0
"""Seconds after which a write that has shown no effect is made again."""


class NodeHolds:
    """Decides which nodes are kept from being removed; without ``growing`` none is."""

    def __init__(self, ledger: Ledger, queue: QueueBook, growing: bool) -> None:
        self._ledger = ledger
        self._queue = queue
        self._growing = growing
        self._nodes: dict[str, Node] = {}
        self._kept: set[str] = set()
        self._held_since: dict[str, float] = {}
        self._free_since: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._look_at = 0.0

    def put(self, node: Node) -> None:
        """Take in a node that is new or has changed."""
        self._nodes[node.name] = node
        (self._kept.add if node.kept else self._kept.discard)(node.name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)
        self._kept.discard(name)

    def forget(self) -> None:
        """Begin anew, because another replica leads."""
        self._held_since.clear()
        self._free_since.clear()
        self._written.clear()

    def due(self, now: float) -> list[KeepNode]:
        """Return the writes to nodes that are due."""
        if now < self._look_at or not (self._growing or self._kept):
            return []
        self._look_at = now + LOOK_EVERY
        held = self._held() if self._growing else set()
        before, self._held_since = self._held_since, {}
        for name in sorted(held & self._nodes.keys()):
            self._held_since[name] = before.get(name, now)
        free, self._free_since = self._free_since, {}
        for name in sorted(self._kept - held):
            self._free_since[name] = free.get(name, now)
        self._written = {name: when for name, when in self._written.items() if now < when + AGAIN}
        actions = [*self._to_keep(now), *self._to_release(now)]
        self._written |= dict.fromkeys((action.node.name for action in actions), now)
        return actions

    def _to_keep(self, now: float) -> Iterator[KeepNode]:
        for name, since in self._held_since.items():
            node = self._nodes[name]
            keys = [key for key in KEEPING if key not in node.guards]
            if since < now and keys and not node.kept and name not in self._written:
                yield KeepNode(node, tuple(keys))

    def _to_release(self, now: float) -> Iterator[KeepNode]:
        for name, since in self._free_since.items():
            if now >= since + FREE_FOR and name not in self._written:
                yield KeepNode(self._nodes[name], ())

    def _held(self) -> set[str]:
        """Return the nodes of plans that aren't bound, of reservations, of preemptors and of gangs that ask."""
        planned = {
            one.assignment.node
            for one in self._ledger.holdings.values()
            if one.strength is not Strength.BOUND
        }
        return planned | self._ledger.held_nodes.all_nodes() | self._queue.reserved_nodes()
