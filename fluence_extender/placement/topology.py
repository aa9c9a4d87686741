"""The domains of each topology level: which nodes share a rack, a zone, or anything else that a node label names.

Configured levels form a hierarchy, so a domain is the path of values down to its level: rack 1 of zone a isn't rack 1
of zone b. A label that isn't a configured level is a level by itself. A node without the label is in no domain of the
level. A node is read when it changes and not when a gang is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fluence_extender.model.names import HOSTNAME
from fluence_extender.model.node import Node
from fluence_extender.model.notation import natural_order
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused
from fluence_extender.room.capacity import CapacityTable

HOST = "host"
"""The level of single nodes, which exists without configuration."""

MOST_LEVELS = 32
"""The most levels that are cached; the least recently used one is dropped."""

Domain = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A level: its ``name`` for people, and the node labels that make up its domains, outermost first."""

    name: str
    labels: tuple[str, ...]

    def domain(self, node: Node) -> Domain | None:
        """Return the domain of a node, or None."""
        values = tuple(_value(node, label) for label in self.labels)
        return values if values[-1] else None


def _value(node: Node, label: str) -> str:
    return node.labels.get(label, "") or (node.name if label == HOSTNAME else "")


@dataclass(slots=True)
class _Members:
    """The domains of one level, as positions in ``domains``; the position of a node in no domain is -1."""

    level: Level
    positions: dict[Domain, int] = field(default_factory=dict)
    domains: list[Domain] = field(default_factory=list)
    nodes: list[set[str]] = field(default_factory=list)
    of: dict[str, int] = field(default_factory=dict)
    by_row: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    row_names: list[str] | None = None

    def put(self, name: str, node: Node | None) -> None:
        old = self.of.pop(name, -1)
        if old >= 0:
            self.nodes[old].discard(name)
        self.row_names = None
        domain = self.level.domain(node) if node is not None else None
        if domain is None:
            return
        position = self.positions.get(domain)
        if position is None:
            position = self.positions[domain] = len(self.domains)
            self.domains.append(domain)
            self.nodes.append(set())
        self.nodes[position].add(name)
        self.of[name] = position

    def rows(self, table: CapacityTable) -> NDArray[np.int64]:
        if self.row_names is not table.names or len(self.by_row) != len(table.names):
            self.by_row = np.array([self.of.get(name, -1) for name in table.names], dtype=np.int64)
            self.row_names = table.names
        return self.by_row


class Topology:
    """The domains of the nodes in ``index``; ``levels`` maps names to node labels, outermost first."""

    def __init__(self, index: EligibilityIndex, levels: Mapping[str, str]) -> None:
        self._index = index
        labels = tuple(levels.values())
        self._configured = [Level(name, labels[: place + 1]) for place, name in enumerate(levels)]
        self._known: dict[Level, _Members] = {}
        self._places: dict[str, tuple[object, ...]] = {}
        self._mark = 0

    # Levels.

    def level(self, written: str) -> Level:
        """Return the level with that name or node label. Raises `GangRefused` when there is none."""
        for one in self._configured:
            if written in (one.name, one.labels[-1]):
                return one
        if written in (HOST, HOSTNAME):
            return Level(HOST, (HOSTNAME,))
        level = Level(written, (written,))
        if "/" in written or any(written in node.labels for node in self._index.nodes.values()):
            return level
        known = ", ".join((*(one.name for one in self._configured), HOST))
        raise GangRefused(
            Reason(
                ReasonCode.INVALID_REQUEST,
                f"there is no topology level {written[:63]!r}: known are {known}, and node labels",
            )
        )

    def above(self, level: Level) -> list[Level]:
        """Return the levels above, from the nearest up, without the whole cluster."""
        if level.name == HOST and level not in self._configured:
            return self._configured[::-1]
        place = self._configured.index(level) if level in self._configured else 0
        return self._configured[:place][::-1]

    # Domains.

    def domains(self, level: Level) -> list[Domain]:
        """Return all domains of a level by position, including those without nodes."""
        return self._members(level).domains

    def nodes(self, level: Level, position: int) -> set[str]:
        """Return the nodes of a domain; treat the set as read-only."""
        return self._members(level).nodes[position]

    def position(self, level: Level, node: str) -> int:
        """Return the position of a node's domain, -1 for none."""
        return self._members(level).of.get(node, -1)

    def by_row(self, level: Level, table: CapacityTable) -> NDArray[np.int64]:
        """Return the position of the domain of each row of ``table``, -1 for none."""
        return self._members(level).rows(table)

    def place(self, node: str) -> tuple[object, ...]:
        """Return the key that sorts the nodes of a domain together: the node's domains, in natural order."""
        self._follow()
        place = self._places.get(node)
        if place is None:
            present = self._index.nodes.get(node)
            values = (
                [_value(present, one.labels[-1]) for one in self._configured] if present is not None else []
            )
            place = self._places[node] = tuple(natural_order(value) for value in values)
        return place

    def _members(self, level: Level) -> _Members:
        self._follow()
        members = self._known.pop(level, None)
        if members is None:
            members = _Members(level)
            for name, node in self._index.nodes.items():
                members.put(name, node)
            if len(self._known) >= MOST_LEVELS:
                del self._known[next(iter(self._known))]
        self._known[level] = members
        return members

    def _follow(self) -> None:
        """Read the nodes that have changed."""
        changed = self._index.journal.since(self._mark)
        self._mark = self._index.journal.now
        if changed is None:
            self._known.clear()
            self._places.clear()
            return
        for name in changed:
            self._places.pop(name, None)
            for members in self._known.values():
                members.put(name, self._index.nodes.get(name))
