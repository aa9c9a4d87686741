"""Placing members of different shapes on exact node vectors.

A matcher answers one shape at a time, and greedy answers in a row can strand a gang that would fit. Here all shapes are
placed together: first-fit by several orders, then, when those fail, a depth-first search with a step budget. The result
covers every member or is None; None after the budget is spent means "not found", not "impossible".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fluence_extender.ledger.account import ports_clash
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources

BUDGET = 50_000
"""Steps of the depth-first search, one step a node looked at or filled: a fraction of a second."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Equal members: ``count`` pods of ``requests``, each on one of ``nodes`` (in the policy's order)."""

    requests: Resources
    count: int
    nodes: tuple[str, ...]
    ports: tuple[HostPort, ...] = ()

    @property
    def exclusive(self) -> bool:
        """Whether two members can't share a node because they claim the same host ports."""
        return bool(self.ports)


@dataclass(frozen=True, slots=True)
class Room:
    """What one node has left."""

    free: Resources
    ports: tuple[HostPort, ...] = ()


Counts = list[dict[str, int]]
"""For each shape: node -> members placed there."""


def _capacity(shape: Shape, room: Room) -> int:
    """How many members of ``shape`` fit one node, at most ``count``."""
    if shape.exclusive and ports_clash(shape.ports, room.ports):
        return 0
    times = shape.requests.times_in(room.free)
    most = shape.count if times is None else min(times, shape.count)
    return min(most, 1) if shape.exclusive else most


def _put(shape: Shape, room: Room, count: int) -> Room:
    ports = room.ports + shape.ports if shape.exclusive else room.ports
    return Room(room.free - shape.requests * count, ports)


def fill(shape: Shape, rooms: dict[str, Room], nodes: Sequence[str]) -> dict[str, int]:
    """Place as many members as fit, first-fit along ``nodes``; ``rooms`` is changed accordingly."""
    placed: dict[str, int] = {}
    left = shape.count
    for name in nodes:
        if not left:
            break
        count = min(_capacity(shape, rooms[name]), left)
        if count > 0:
            rooms[name] = _put(shape, rooms[name], count)
            placed[name] = count
            left -= count
    return placed


def _weight(shape: Shape, total: Resources) -> float:
    """The dominant share of one member in the whole cluster."""
    return max((amount / max(total[name], 1) for name, amount in shape.requests.items()), default=0.0)


def _slack(shape: Shape, room: Room) -> float:
    """What would stay free on a node, relative to what is there: small for a tight fit."""
    have = [(room.free[name] - amount) / max(room.free[name], 1) for name, amount in shape.requests.items()]
    return sum(have)


def _first_fit(
    shapes: Sequence[Shape], rooms: Mapping[str, Room], order: Sequence[int], tight: bool
) -> Counts | None:
    trial = dict(rooms)
    counts: Counts = [{} for _ in shapes]
    for index in order:
        shape = shapes[index]
        nodes: Sequence[str] = shape.nodes
        if tight:
            usable = [name for name in nodes if _capacity(shape, trial[name])]
            nodes = sorted(usable, key=lambda name: _slack(shape, trial[name]))
        counts[index] = fill(shape, trial, nodes)
        if sum(counts[index].values()) < shape.count:
            return None
    return counts


def place(shapes: Sequence[Shape], rooms: Mapping[str, Room], budget: int = BUDGET) -> Counts | None:
    """Place every member of every shape, or return None.

    ``rooms`` must have every node that a shape names; it isn't changed.
    """
    if len(shapes) == 1:
        return _first_fit(shapes, rooms, (0,), tight=False)
    total = Resources.total(room.free for room in rooms.values())
    by_weight = sorted(range(len(shapes)), key=lambda i: -_weight(shapes[i], total))
    by_choice = sorted(range(len(shapes)), key=lambda i: (len(shapes[i].nodes), -_weight(shapes[i], total)))
    for order in (by_choice, by_weight):
        for tight in (False, True):
            found = _first_fit(shapes, rooms, order, tight)
            if found is not None:
                return found
    return _Search(shapes, by_choice, rooms, budget).run()


_Likeness = tuple[Resources, tuple[HostPort, ...], tuple[bool, ...]]


@dataclass(slots=True)
class _Level:
    """One choice of the search: how many members of the shape at ``position`` go to one node, from index ``at`` on.

    ``left`` members of the shape are still to be placed. ``count`` is what the node at ``at`` has now, 0 before the
    first node is chosen; ``room`` is that node's room without them; ``tried`` are the likes of nodes tried in vain.
    """

    position: int
    at: int
    left: int
    count: int = 0
    room: Room | None = None
    tried: set[_Likeness] = field(default_factory=set)


class _Search:
    """Depth-first over members, hardest first; equal members only move forward, equal nodes are tried once.

    A stack of its own, because a gang may have more members than Python has frames.
    """

    def __init__(
        self, shapes: Sequence[Shape], order: Sequence[int], rooms: Mapping[str, Room], budget: int
    ) -> None:
        self.shapes = shapes
        self.order = order
        self.rooms = dict(rooms)
        self.budget = budget
        self.usable = [frozenset(shape.nodes) for shape in shapes]
        self.counts: Counts = [{} for _ in shapes]

    def run(self) -> Counts | None:
        stack = [self._first(0)]
        while stack and self.budget >= 0:
            level = stack[-1]
            if not self._choose(level):
                stack.pop()
                continue
            left = level.left - level.count
            if left:
                stack.append(_Level(level.position, level.at + 1, left))
            elif level.position + 1 < len(self.order):
                stack.append(self._first(level.position + 1))
            else:
                return self.counts
        return None

    def _first(self, position: int) -> _Level:
        return _Level(position, 0, self.shapes[self.order[position]].count)

    def _choose(self, level: _Level) -> bool:
        """Go to the next choice: one member fewer on the node, else the next node; False when there is none."""
        index = self.order[level.position]
        shape = self.shapes[index]
        if level.room is not None:
            count = level.count - 1
            self._empty(level, index, shape.nodes[level.at])
            if count:
                return self._fill(level, index, count)
            level.at += 1
        while level.at < len(shape.nodes):
            self.budget -= 1
            if self.budget < 0:
                return False
            name = shape.nodes[level.at]
            room = self.rooms[name]
            most = min(_capacity(shape, room), level.left)
            alike = (room.free, room.ports, self._wanted_by(name, level.position))
            if most and alike not in level.tried:
                level.tried.add(alike)
                return self._fill(level, index, most)
            level.at += 1
        return False

    def _fill(self, level: _Level, index: int, count: int) -> bool:
        self.budget -= 1
        shape = self.shapes[index]
        name = shape.nodes[level.at]
        level.room, level.count = self.rooms[name], count
        self.rooms[name] = _put(shape, level.room, count)
        self.counts[index][name] = count
        return True

    def _empty(self, level: _Level, index: int, name: str) -> None:
        assert level.room is not None
        self.rooms[name] = level.room
        del self.counts[index][name]
        level.room = None

    def _wanted_by(self, name: str, position: int) -> tuple[bool, ...]:
        """Which of the shapes still to come may use the node: nodes differ in that, too."""
        return tuple(name in self.usable[i] for i in self.order[position + 1 :])
