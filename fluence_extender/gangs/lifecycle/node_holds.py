"""The nodes that autoscalers may not remove, because something is planned, reserved or awaited there.

An autoscaler doesn't see plans; to it, a node without running pods is empty. So a node that is held for a while gets
the annotations that autoscalers respect, and loses them once nothing has held it for a while. A plan that lasts only a
moment isn't worth a write.

Invariant: the service changes no annotation that it hasn't set. The node itself records which ones it has set, so each
leader knows them.
"""

from __future__ import annotations

from fluence_extender.gangs.execution.actions import KeepNode
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.model.names import KEEPING
from fluence_extender.model.node import Node
from fluence_extender.room.holdings import Firmness
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
        self._due: dict[tuple[str, tuple[str, ...]], float] = {}
        """When nodes are written whose annotations aren't as they should be, each with those that it gets."""
        self._look_at = 0.0

    def put(self, node: Node) -> None:
        """Take in a node that is new or has changed."""
        self._nodes[node.name] = node

    def drop(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)

    def forget(self) -> None:
        """Begin anew, because another replica leads."""
        self._due.clear()

    def due(self, now: float) -> list[KeepNode]:
        """Return the writes to nodes that are due."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY
        held = self._held() if self._growing else frozenset[str]()
        before, self._due = self._due, {}
        actions = []
        for name, node in self._nodes.items():
            keys = tuple(key for key in KEEPING if key not in node.guards) if name in held else ()
            if bool(node.kept) is (name in held) or not (keys or node.kept):
                continue
            wanted = name, keys
            self._due[wanted] = before.get(wanted, now + (LOOK_EVERY if keys else FREE_FOR))
            if now >= self._due[wanted]:
                self._due[wanted] = now + AGAIN
                actions.append(KeepNode(node, keys))
        return sorted(actions, key=lambda action: action.node.name)

    def _held(self) -> set[str]:
        """Return the nodes of plans that aren't bound, of reservations, of preemptors and of gangs that ask."""
        planned = {
            one.assignment.node
            for one in self._ledger.holdings.values()
            if one.firmness is not Firmness.BOUND
        }
        return planned | self._ledger.held_nodes.all_nodes() | self._queue.reserved_nodes()
