"""The levels above the physical nodes: the root, zones, racks, and the order in which walks pass through them.

A child is known by a reference: a row of the table (0 and up), or a level (``-1 - number``). Invariant: a level's
``children`` are in edge order, and ``siblings``, where the policy needs it, holds the same references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fluence_extender.matcher.counted.borrowing import Borrower
from fluence_extender.matcher.counted.document import Vertex
from fluence_extender.matcher.counted.siblings import Siblings


class Level(Borrower):
    """One vertex above the nodes. ``parent`` is -1 for the root."""

    __slots__ = (
        "alive",
        "children",
        "free",
        "jobs",
        "node_children",
        "number",
        "owner",
        "parent",
        "sibling_ids",
        "siblings",
        "turn",
        "up",
        "vertex",
    )
    WRITTEN = ("children", "sibling_ids")
    KEPT = ("alive", "free", "jobs", "node_children", "number", "parent", "turn", "up", "vertex")

    def __init__(self, number: int, parent: int, vertex: Vertex, up: bool, turn: int, owner: object) -> None:
        super().__init__()
        self.owner = owner
        """Who may write to it."""
        self.number = number
        self.parent = parent
        self.vertex = vertex
        self.up = up
        self.turn = turn
        self.alive = True
        self.children: dict[int, None] = {}
        self.sibling_ids: set[int] = set()
        self.siblings: Siblings | None = None
        self.node_children = 0
        """How many children of type ``node`` it has, virtual ones included."""
        self.free = 0
        """What is free below it of the type that weighs the edge to it."""
        self.jobs = 0
        """How many jobs are below it."""

    @property
    def reference(self) -> int:
        """How its parent knows it."""
        return -1 - self.number

    def fork_for(self, owner: object) -> Level:
        """An independent copy."""
        copy = self.fork()
        copy.owner = owner
        copy.siblings = None if self.siblings is None else self.siblings.fork()
        return copy


class Tree(Borrower):
    """All levels; number 0 is the root."""

    WRITTEN = ("levels", "by_path")
    KEPT = ("_loaded", "_weighed", "types")

    def __init__(self, *, weighed: bool) -> None:
        super().__init__()
        self._token = object()
        self.types: frozenset[str] = frozenset()
        """The types of all levels that there ever were."""
        self.levels: list[Level] = []
        self.by_path: dict[str, int] = {}
        self._weighed = weighed
        self._loaded = False

    def loaded(self, uniq_ids: Callable[[int], int]) -> None:
        """Order all children for visiting, where the policy visits; ``uniq_ids`` knows the rows' ids."""
        self._loaded = self._weighed
        for level in self.levels if self._weighed else ():
            level.siblings = Siblings(
                [(reference, self._uniq_id(reference, uniq_ids)) for reference in level.children]
            )

    def _uniq_id(self, reference: int, uniq_ids: Callable[[int], int]) -> int:
        return uniq_ids(reference) if reference >= 0 else self.levels[-1 - reference].vertex.uniq_id

    @property
    def root(self) -> Level:
        """The root."""
        return self.levels[0]

    def add(self, parent: int, vertex: Vertex, up: bool, turn: int) -> Level:
        """Add a level below ``parent`` (-1: as the root)."""
        self.own_all()
        level = Level(len(self.levels), parent, vertex, up, turn, self._token)
        self.levels.append(level)
        self.types |= {vertex.type}
        self.by_path[vertex.path] = level.number
        if self._loaded:
            level.siblings = Siblings()
        if parent >= 0:
            self.attach(parent, level.reference, vertex.uniq_id)
        return level

    def write(self, number: int) -> Level:
        """The level, to be written to."""
        level = self.levels[number]
        if level.owner is not self._token:
            self.own("levels")
            level = self.levels[number] = level.fork_for(self._token)
        return level

    def attach(self, number: int, reference: int, uniq: int) -> None:
        """Add a child's edge to a level."""
        level = self.write(number)
        level.own_all()
        level.children[reference] = None
        level.sibling_ids.add(uniq)
        if level.siblings is not None:
            level.siblings.add(reference, uniq)

    def detach(self, number: int, reference: int, uniq: int) -> None:
        """Remove a child's edge."""
        level = self.write(number)
        level.own_all()
        del level.children[reference]
        level.sibling_ids.discard(uniq)
        if level.siblings is not None:
            level.siblings.remove(reference)

    def remove(self, level: Level) -> None:
        """Remove a level below which nothing is left."""
        self.detach(level.parent, level.reference, level.vertex.uniq_id)
        self.write(level.number).alive = False
        self.own("by_path")
        del self.by_path[level.vertex.path]

    def downs(self, number: int) -> int:
        """How many of the level and those above it are marked down."""
        return sum(not level.up for level in self.above(number))

    def reachable(self, number: int) -> bool:
        """Whether the level and all above it are up."""
        while number >= 0:
            level = self.levels[number]
            if not level.up:
                return False
            number = level.parent
        return True

    def above(self, number: int) -> Iterator[Level]:
        """The level and those above it, up to the root."""
        while number >= 0:
            level = self.levels[number]
            yield level
            number = level.parent

    def rows(self, level: Level) -> Iterator[int]:
        """The rows below ``level``, depth first in edge order."""
        stack = [iter(level.children)]
        while stack:
            for reference in stack[-1]:
                if reference >= 0:
                    yield reference
                else:
                    stack.append(iter(self.levels[-1 - reference].children))
                    break
            else:
                stack.pop()

    def below(self, level: Level) -> Iterator[Level]:
        """``level`` and the levels below it."""
        yield level
        for reference in level.children:
            if reference < 0:
                yield from self.below(self.levels[-1 - reference])

    def takes_whole_nodes(self) -> list[bool]:
        """For each level, whether a slot of whole nodes resolves there.

        It does at the topmost vertex of each branch that has a child of type ``node`` (fluxion reference 4.3).
        """
        takes = [False] * len(self.levels)
        stack = [self.root]
        while stack:
            level = stack.pop()
            if level.node_children:
                takes[level.number] = True
            else:
                stack.extend(self.levels[-1 - reference] for reference in level.children if reference < 0)
        return takes

    def fork(self) -> Tree:
        """An independent copy."""
        copy = super().fork()
        self._token, copy._token = object(), object()
        return copy
