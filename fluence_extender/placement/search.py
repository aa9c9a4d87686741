"""Placing members of different shapes on the exact capacity of nodes.

If shapes were placed one after another, each greedily, no place might be left for the rest of a gang that would fit.
Here all shapes are placed together: by first-fit in several orders, then by the exact search of `packing`,
which has a budget. A result covers every member. Once the budget is spent, no result means "not found" and not
"impossible".

Users decide how many kinds of members a gang has. So all work beyond a single first-fit is limited. It is counted in
nodes times shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import gt
from typing import TypeVar

import numpy as np
import numpy.ma  # Or np.unique would load it in the middle of the first plan.
from numpy.typing import NDArray

from fluence_extender.model.claims import Claims
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources
from fluence_extender.placement.errors import SearchBudgetSpent
from fluence_extender.placement.packing import EXACT, Bins, pack
from fluence_extender.queueing.timeline import slots_by_row
from fluence_extender.room.capacity import LARGEST, Amounts, CapacityTable
from fluence_extender.room.claims import ClaimRoom
from fluence_extender.room.holdings import PortIndex

BUDGET = 5_000
"""The most ways to fill a node that the exact search looks at, in a fraction of a second; see `packing`."""

CELLS_PER_WAY, MOST_CELLS = 100, 500_000
"""The most `work` for which the exact search is tried: for each way of its budget, and in total.

Beyond that, making its tables would take longer than the search.
"""

FIRST_FIT_WORK = 2_500_000
"""The most work for several orders of shapes, in nodes times shapes. It takes a tenth of a second."""

DOMAINS_WORK = 5_000_000
"""The most work for several domains, most of which have only some of the nodes."""

SHAPE_WORK, FILL_WORK = 500, 2_500
"""The fixed work for a shape, in nodes: for a single member that only amounts limit, and for other shapes."""

SEARCHES_ALIKE = 4
"""For so many gangs it is cached whose host ports clash, because one attempt searches several times."""

PART = 1024
"""The number of nodes that are examined together."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape:
    """Equal members: ``count`` pods of ``requests``, each on one of ``nodes`` (in the policy's order).

    ``claim_room`` says how many of them nodes host with the devices that they claim, None if they claim none.
    """

    requests: Resources
    count: int
    nodes: tuple[str, ...]
    ports: tuple[HostPort, ...] = ()
    claim_room: ClaimRoom | None = None

    @property
    def exclusive(self) -> bool:
        """Whether two members can't share a node because they need the same host ports."""
        return bool(self.ports)

    @property
    def free(self) -> bool:
        """Whether only amounts limit how many members a node takes."""
        return not self.ports and self.claim_room is None

    @property
    def single(self) -> bool:
        """Whether this is one member, and only amounts limit where it goes."""
        return self.count == 1 and self.free


Counts = list[dict[str, int]]
"""For each shape: node -> members placed there."""


def work(shapes: Sequence[Shape]) -> int:
    """Return the work of placing the shapes once, in nodes times shapes."""
    return sum(len(shape.nodes) + (SHAPE_WORK if shape.single else FILL_WORK) for shape in shapes)


def affordable(ways: Sequence[T], shapes: Sequence[Shape], most: int = FIRST_FIT_WORK) -> Sequence[T]:
    """Return the first ``ways`` to place the shapes that take at most ``most`` work together, but at least one."""
    return ways[: max(most // max(work(shapes), 1), 1)]


@lru_cache(maxsize=SEARCHES_ALIKE)
def _clashes(ports: tuple[tuple[HostPort, ...], ...]) -> tuple[int, ...]:
    """Return for each of some sets of host ports the bits of those that clash with it."""
    some = [(at, wanted) for at, wanted in enumerate(ports) if wanted]
    index = PortIndex(some)
    found = [0] * len(ports)
    for at, wanted in some:
        for other in index.clashing(wanted):
            found[at] |= 1 << other
    return tuple(found)


class PlacementProblem:
    """Shapes and capacity as arrays: ``rows[i]`` are the rows of shape i's nodes, in order.

    ``closed[i]`` are the rows on which a host port of shape i is taken.
    """

    def __init__(self, shapes: Sequence[Shape], table: CapacityTable) -> None:
        self.shapes = shapes
        self.table = table
        self.sizes = [table.row_of(shape.requests) for shape in shapes]
        known: dict[int, NDArray[np.intp]] = {}
        for shape in shapes:
            if id(shape.nodes) not in known:
                known[id(shape.nodes)] = table.at(shape.nodes)
        self.rows = [known[id(shape.nodes)] for shape in shapes]
        self.closed = [table.clashing(shape.ports) if shape.exclusive else set() for shape in shapes]
        self.claim_rooms = [
            shape.claim_room.most(shape.nodes) if shape.claim_room is not None else None for shape in shapes
        ]

    @cached_property
    def clashes(self) -> tuple[int, ...]:
        """For each shape the bits of the shapes whose host ports clash with its own."""
        return _clashes(tuple(shape.ports for shape in self.shapes))

    def hosted(self, index: int, row: int, placed: Mapping[int, Mapping[int, int]]) -> int:
        """Return how many members of a shape with claims a row hosts beside those ``placed``, by row and shape."""
        room, others = self.shapes[index].claim_room, self.claiming(placed)
        if room is None or not others:
            return self.shapes[index].count
        return room.beside(self.table.names[row], others)

    def claiming(self, placed: Mapping[int, Mapping[int, int]]) -> dict[str, dict[Claims, int]]:
        """Return by node the claims of the members ``placed``, which are given by row and shape."""
        found: dict[str, dict[Claims, int]] = {}
        for row, counts in placed.items():
            claims: Counter[Claims] = Counter()
            for index, count in counts.items():
                room = self.shapes[index].claim_room
                if room is not None and count:
                    claims[room.claims] += count
            if claims:
                found[self.table.names[row]] = claims
        return found

    @staticmethod
    def takes(size: Amounts, rows: NDArray[np.intp], free: Amounts) -> NDArray[np.bool_]:
        """Return which of ``rows`` take one member of this size, apart from host ports."""
        enough = np.ones(len(rows), dtype=bool)
        for column in np.flatnonzero(size).tolist():
            enough &= free[rows, column] >= size[column]
        return enough

    def exceeds_all(self) -> bool:
        """Return whether all members together ask for more than all nodes have."""
        free = self.table.free.clip(min=0)
        if free.size and free.max() > EXACT:
            return False
        wanted = [0] * free.shape[1]
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            for column in np.flatnonzero(size).tolist():
                wanted[column] += shape.count * int(size[column])
        return any(map(gt, wanted, free.sum(axis=0).tolist()))

    def capacity(
        self, index: int, free: Amounts, taken: Mapping[int, int], part: slice = slice(None)
    ) -> Amounts:
        """Return how many members of a shape each of its rows takes, or each row of a ``part`` of the rows.

        ``taken`` has for each row the clashes of the shapes that were placed there.
        """
        shape, rows, room = self.shapes[index], self.rows[index][part], self.claim_rooms[index]
        most = 1 if shape.exclusive else min(shape.count, LARGEST)
        counts = np.minimum(slots_by_row(self.sizes[index], free[rows]), most)
        if room is not None:
            np.minimum(counts, room[part], out=counts)
        if shape.exclusive:
            closed = self.closed[index] | {row for row, mask in taken.items() if mask >> index & 1}
            if closed:
                counts[np.isin(rows, list(closed))] = 0
        return counts


class _Filling:
    """Greedy placement on one copy of the capacity."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.free = problem.table.free.copy()
        self.taken: dict[int, int] = {}
        self.claiming: dict[int, dict[int, int]] = {}

    def fill(self, index: int, tight: bool = False) -> dict[str, int]:
        """Place as many members of a shape as fit, in the order of its nodes or, if ``tight``, the fullest first."""
        problem, shape = self.problem, self.problem.shapes[index]
        if shape.single and not tight:
            return self._put_one(index)
        count = len(problem.rows[index])
        step = max(count, 1) if tight else PART
        placed: dict[str, int] = {}
        left = min(shape.count, LARGEST)
        for first in range(0, count, step):
            some = self._fill(index, slice(first, first + step), left, tight)
            placed |= some
            left -= sum(some.values())
            if not left:
                break
        return placed

    def _fill(self, index: int, part: slice, most: int, tight: bool) -> dict[str, int]:
        """Place up to ``most`` members of a shape on a ``part`` of its nodes."""
        problem = self.problem
        shape, rows, names = problem.shapes[index], problem.rows[index][part], problem.table.names
        counts = problem.capacity(index, self.free, self.taken, part)
        if shape.claim_room is not None and self.claiming:
            for at in np.flatnonzero(np.isin(rows, list(self.claiming)) & (counts > 0)).tolist():
                counts[at] = min(int(counts[at]), problem.hosted(index, int(rows[at]), self.claiming))
        usable = np.flatnonzero(counts)
        if tight:
            usable = usable[np.argsort(self._slack(index, rows[usable]), kind="stable")]
        before = np.cumsum(counts[usable]) - counts[usable]
        usable = usable[before < most]
        given = np.minimum(counts[usable], most - before[: len(usable)])
        chosen = rows[usable]
        self.free[chosen] -= given[:, None] * problem.sizes[index]
        if problem.clashes[index]:
            for row in chosen.tolist():
                self.taken[row] = self.taken.get(row, 0) | problem.clashes[index]
        if shape.claim_room is not None:
            for row, count in zip(chosen.tolist(), given.tolist(), strict=True):
                self.claiming.setdefault(row, {})[index] = count
        return {names[row]: count for row, count in zip(chosen.tolist(), given.tolist(), strict=True)}

    def _put_one(self, index: int) -> dict[str, int]:
        """Place the only member of a shape on the first of its nodes that takes it. This is a faster `fill`."""
        problem, size, rows = self.problem, self.problem.sizes[index], self.problem.rows[index]
        enough = problem.takes(size, rows, self.free)
        at = int(enough.argmax()) if len(rows) else 0
        if not len(rows) or not enough[at]:
            return {}
        row = int(rows[at])
        self.free[row] -= size
        return {problem.table.names[row]: 1}

    def _slack(self, index: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the part of its free amounts that each row would keep. It is small for a tight fit."""
        size = self.problem.sizes[index]
        columns = np.flatnonzero(size)
        have = self.free[np.ix_(rows, columns)]
        slack: NDArray[np.float64] = ((have - size[columns]) / np.maximum(have, 1)).sum(axis=1)
        return slack


def homeless(shapes: Sequence[Shape], table: CapacityTable) -> Iterator[int]:
    """Yield the shapes for which no node takes even one member."""
    problem = PlacementProblem(shapes, table)
    together: dict[int, list[int]] = {}
    for index, (shape, rows) in enumerate(zip(shapes, problem.rows, strict=True)):
        if shape.free:
            together.setdefault(id(rows), []).append(index)
    housed: set[int] = set()
    for some in together.values():
        most = np.array([problem.sizes[index] for index in some]).max(axis=0)
        if problem.takes(most, problem.rows[some[0]], table.free).any():
            housed.update(some)
    for index in range(len(shapes)):
        if index not in housed and not problem.capacity(index, table.free, {}).any():
            yield index


def capacity(shape: Shape, table: CapacityTable) -> Amounts:
    """Return how many members of a shape, at most ``count``, each of its nodes takes by itself."""
    return capacities((shape,), table)[0]


def capacities(shapes: Sequence[Shape], table: CapacityTable) -> list[Amounts]:
    """Return `capacity` for each of the shapes."""
    problem = PlacementProblem(shapes, table)
    return [problem.capacity(index, table.free, {}) for index in range(len(shapes))]


def lacks_room(shape: Shape, table: CapacityTable) -> bool:
    """Return whether the nodes of a shape can't take all of its members, even if these were the whole gang.

    The nodes are examined in parts, because in a cluster with room the first nodes take most gangs.
    """
    problem = PlacementProblem((shape,), table)
    size, rows, found = problem.sizes[0], problem.rows[0], 0
    for first in range(0, len(rows), PART):
        part = slice(first, first + PART)
        if shape.free:
            taking = rows[part][problem.takes(size, rows[part], table.free)]
            found += int(np.minimum(slots_by_row(size, table.free[taking]), min(shape.count, LARGEST)).sum())
        else:
            found += int(problem.capacity(0, table.free, {}, part).sum())
        if found >= shape.count:
            return False
    return True


def weights(some: Sequence[Resources], table: CapacityTable) -> list[float]:
    """Return the largest fraction of any resource's free capacity that each request takes."""
    if not some:
        return []
    total = np.maximum(table.free.clip(min=0).astype(np.float64).sum(axis=0), 1)
    heaviest: list[float] = (np.array([table.row_of(one) for one in some]) / total).max(axis=1).tolist()
    return heaviest


def fill(shapes: Sequence[Shape], table: CapacityTable) -> Counts:
    """Place as many members as fit, shape by shape and first-fit."""
    filling = _Filling(PlacementProblem(shapes, table))
    return [filling.fill(index) for index in range(len(shapes))]


def place(shapes: Sequence[Shape], table: CapacityTable, budget: int = BUDGET) -> Counts | None:
    """Place every member of every shape, or return None.

    ``table`` must have every node of every shape; it isn't changed.
    """
    try:
        return decide(shapes, table, budget)
    except SearchBudgetSpent:
        return None


def decide(shapes: Sequence[Shape], table: CapacityTable, budget: int = BUDGET) -> Counts | None:
    """Place as `place` does, but None means that it is impossible. Raises `SearchBudgetSpent` if that isn't known."""
    problem = PlacementProblem(shapes, table)
    if len(shapes) == 1:
        return _first_fit(problem, (0,), tight=False)
    if problem.exceeds_all():
        return None
    heavy = weights([shape.requests for shape in shapes], problem.table)
    by_weight = sorted(range(len(shapes)), key=lambda i: -heavy[i])
    by_choice = sorted(range(len(shapes)), key=lambda i: (len(shapes[i].nodes), -heavy[i]))
    ways = [(order, tight) for order in (by_choice, by_weight) for tight in (False, True)]
    for order, tight in affordable(ways, shapes):
        found = _first_fit(problem, order, tight)
        if found is not None:
            return found
    return _exactly(problem, budget)


def _first_fit(problem: PlacementProblem, order: Sequence[int], tight: bool) -> Counts | None:
    filling = _Filling(problem)
    counts: Counts = [{} for _ in problem.shapes]
    for index in order:
        counts[index] = filling.fill(index, tight)
        if sum(counts[index].values()) < problem.shapes[index].count:
            return None
    return counts


def _exactly(problem: PlacementProblem, budget: int) -> Counts | None:
    shapes = problem.shapes
    used = np.zeros(len(problem.table.free), dtype=bool)
    for rows in {id(rows): rows for rows in problem.rows}.values():
        used[rows] = True
    everywhere = np.flatnonzero(used)
    if (len(everywhere) + SHAPE_WORK) * len(shapes) > min(CELLS_PER_WAY * budget, MOST_CELLS):
        raise SearchBudgetSpent
    columns = np.flatnonzero(np.any(problem.sizes, axis=0))
    most = np.zeros((len(everywhere), len(shapes)), dtype=np.int64)
    for index, rows in enumerate(problem.rows):
        most[np.searchsorted(everywhere, rows), index] = problem.capacity(index, problem.table.free, {})
    bins = Bins(
        problem.table.free[np.ix_(everywhere, columns)],
        np.asarray(problem.sizes)[:, columns],
        most,
        problem.clashes,
        {index for index, shape in enumerate(shapes) if shape.claim_room is not None},
        lambda index, position, others: problem.hosted(
            index, int(everywhere[position]), {int(everywhere[position]): others}
        ),
    )
    packed = pack(bins, [shape.count for shape in shapes], budget)
    if packed is None:
        return None
    counts: Counts = [{} for _ in shapes]
    for position, pattern in packed:
        for index, count in pattern:
            counts[index][problem.table.names[everywhere[position]]] = count
    return counts
