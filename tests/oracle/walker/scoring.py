"""What a walk has found below a vertex: groups of edges with scores, by the type they lead to.

A group is what is chosen at once: one child, or all members of one slot. `Scores` collects the groups below one vertex
and carries what a child reports to its parent. Slots take their members whole and in
sorted order, each into one slot only; what a slot gets above its count isn't handed on (4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.oracle.walker.graph import Edge
from tests.oracle.walker.jobspec import SLOT
from tests.oracle.walker.request import RequestLevel
from tests.oracle.walker.std_sort import std_sorted

UNMET = 0
"""The score of a vertex below which a request isn't met; a group with a higher score is qualified."""

Member = tuple[Edge, int, bool]
"""An edge of a group, the units behind it, and whether they are wanted exclusively."""


class Group:
    """Edges that are chosen together; ``count`` is what the group counts for. The root's group has no edge."""

    __slots__ = ("count", "members", "score")

    def __init__(self, score: int, count: int, members: Sequence[Member]) -> None:
        self.score = score
        self.count = count
        self.members = members


Keys = Callable[[Sequence[Group]], list[int]]
"""The sort keys of some groups: the best group has the least key."""


class Candidates:
    """The groups of one type. After `choose` the first ``chosen`` of them are the best."""

    __slots__ = ("best", "chosen", "groups", "qualified", "total")

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.qualified = 0
        self.total = 0
        self.best = 0
        self.chosen = 0

    def add(self, group: Group) -> None:
        """Append a group."""
        self.groups.append(group)
        self.total += group.count
        if group.score > UNMET:
            self.qualified += group.count

    def sort(self, keys: Keys) -> None:
        """Put the best groups first."""
        if len(self.groups) > 1:
            self.groups = std_sorted(keys(self.groups), self.groups)

    def choose(self, count: int, keys: Keys) -> None:
        """Choose the best groups until they count for ``count``, which is at most what is qualified."""
        self.sort(keys)
        missing = count
        chosen = 0
        for group in self.groups:
            if missing <= 0:
                break
            missing -= group.count
            chosen += 1
        self.best = count
        self.chosen = chosen


class Scores:
    """The candidates below a vertex by type; ``score`` and ``avail`` are the last visited child's."""

    __slots__ = ("avail", "by_type", "constrained", "score")

    def __init__(self) -> None:
        self.by_type: dict[str, Candidates] = {}
        self.constrained = False
        self.score = -1
        self.avail = 0

    def of(self, name: str) -> Candidates:
        """Return the candidates of a type, none at first."""
        found = self.by_type.get(name)
        if found is None:
            found = self.by_type[name] = Candidates()
        return found

    def qualified(self, name: str) -> int:
        """Return how much of a type the qualified groups have."""
        found = self.by_type.get(name)
        return 0 if found is None else found.qualified

    def choose(self, name: str, count: int, keys: Keys) -> None:
        """Choose the best of a type; what isn't chosen here is no candidate above from now on."""
        self.of(name).choose(count, keys)
        self.constrained = True

    def merge(self, other: Scores) -> None:
        """Add the groups of another."""
        for name, found in other.by_type.items():
            own = self.of(name)
            own.groups.extend(found.groups)
            own.qualified += found.qualified
            own.total += found.total


_MET = 1


def pack_slots(shape: RequestLevel, members: Scores, scores: Scores) -> None:
    """Add a group to ``scores`` for every slot of that shape that the sorted ``members`` make."""
    per_slot = [
        (iter(members.of(wanted.type).groups), wanted.count.within(members.qualified(wanted.type)))
        for wanted in shape.resources
    ]
    slots = min(
        (
            _count(members.of(wanted.type).groups, count)
            for wanted, (_, count) in zip(shape.resources, per_slot, strict=True)
        ),
        default=0,
    )
    found = scores.of(SLOT) if slots else None
    for _ in range(slots):
        score = _MET
        taken: list[Member] = []
        for groups, count in per_slot:
            score += _fill(groups, count, taken)
        if found is not None:
            found.add(Group(score, 1, taken))


def _count(groups: list[Group], per_slot: int) -> int:
    """Return how many slots of ``per_slot`` units the groups fill."""
    if per_slot == 0:
        return 0
    slots = units = 0
    for group in groups:
        units += group.members[0][1]
        if units >= per_slot:
            slots += 1
            units = 0
    return slots


def _fill(groups: Iterator[Group], per_slot: int, taken: list[Member]) -> int:
    """Take groups until they hold ``per_slot`` units; return the sum of their scores."""
    score = units = 0
    while units < per_slot:
        group = next(groups)
        edge, count, _ = group.members[0]
        taken.append((edge, count, True))
        score += group.score
        units += count
    return score
