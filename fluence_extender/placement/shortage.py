"""The largest part of a gang that fits, and what the next member is short of.

A shortage is given by its Kubernetes name: ``cpu``, ``memory``, ``pods`` (a node's pod slots), an extended resource, or
a host port. Claimed devices are given by the text of their claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources
from fluence_extender.placement.search import Counts, Shape, affordable, fill, place, weights, work
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.holdings import PortIndex

MOST_TRIED = 32
"""The most searches for a larger selection of unequal members after one has been found."""

TRIED_WORK = 2_000_000
"""The most `work` of all these searches together. With many kinds of members fewer selections are tried."""

MOST_LACKING = 64
"""The most kinds of members without a place whose shortage is determined; the lightest come first."""

MOST_NAMED = 63
"""The most resources of a member that can be named as short."""

PORT_WORK = 50_000
"""The most host ports that are looked at for one shortage.

Counted are those in use on each node, and those that each kind of member wants there. Beyond this, nodes with host
ports in use are passed over, and what the other nodes lack is named.
"""

EACH_BUDGET = 200
"""The most ways to fill a node that each of these searches tries."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a gang that fits: how many members of each shape, and what the next member is short of.

    ``cut_short``: the search ended early, so a larger part may exist.
    """

    counts: tuple[int, ...]
    short_of: tuple[str, ...]
    cut_short: bool = False

    @property
    def members(self) -> int:
        """The number of all members that fit."""
        return sum(self.counts)


def part_that_fits(shapes: Sequence[Shape], table: CapacityTable) -> Part:
    """Return how many members fit when shapes are placed the lightest first, or in the given order."""
    given = list(range(len(shapes)))
    lightest = _lightest_first(shapes, table)
    orders = [lightest] if given == lightest else [lightest, given]
    return _part(shapes, _filled(shapes, table, orders), table, lightest)


def largest_part(shapes: Sequence[Shape], table: CapacityTable) -> Part:
    """Return the largest part that is found to fit.

    For unequal members, several orders of shapes are tried, and then larger selections are searched for. So for a small
    gang no selection with one more member fits. For a gang with very many kinds of members the result is cut short.
    """
    if len(shapes) == 1:
        return part_that_fits(shapes, table)
    given = list(range(len(shapes)))
    lightest = _lightest_first(shapes, table)
    hardest = sorted(lightest, key=lambda i: len(shapes[i].nodes))
    counts, cut_short = _grown(shapes, table, _filled(shapes, table, [lightest, given, hardest]))
    return replace(_part(shapes, counts, table, lightest), cut_short=cut_short)


def _lightest_first(shapes: Sequence[Shape], table: CapacityTable) -> list[int]:
    given = range(len(shapes))
    if len(given) == 1:
        return [0]
    heavy = weights([shape.requests for shape in shapes], table)
    return sorted(given, key=lambda i: heavy[i])


def _filled(shapes: Sequence[Shape], table: CapacityTable, orders: Sequence[Sequence[int]]) -> Counts:
    """Place the shapes in one order after the other within the budget. Return the first of the largest results."""
    found = []
    for order in affordable(orders, shapes):
        placed: Counts = [{} for _ in shapes]
        for index, counts in zip(order, fill([shapes[i] for i in order], table), strict=True):
            placed[index] = counts
        found.append(placed)
    return max(found, key=_members)


def _grown(shapes: Sequence[Shape], table: CapacityTable, counts: Counts) -> tuple[Counts, bool]:
    """Return the selection ``counts``, enlarged member by member as long as one more can be placed with the others.

    Also return whether that was cut short.
    """
    have = [sum(placed.values()) for placed in counts]
    left = min(MOST_TRIED, TRIED_WORK // work(shapes))
    grown = True
    while grown:
        grown = False
        for index, shape in enumerate(shapes):
            if have[index] >= shape.count:
                continue
            if not left:
                return counts, True
            left -= 1
            wanted = [number + (at == index) for at, number in enumerate(have)]
            found = _placed(shapes, wanted, table)
            if found is not None:
                counts, have, grown = found, wanted, True
    return counts, False


def _placed(shapes: Sequence[Shape], wanted: Sequence[int], table: CapacityTable) -> Counts | None:
    """Place ``wanted[i]`` members of each shape i, or return None."""
    some = [
        (at, replace(shape, count=wanted[at]))
        for at, shape in enumerate(shapes)
        if wanted[at] and shape.nodes
    ]
    found = place([shape for _, shape in some], table, EACH_BUDGET)
    if found is None:
        return None
    counts: Counts = [{} for _ in shapes]
    for (at, _), placed in zip(some, found, strict=True):
        counts[at] = placed
    return counts


def _left(shapes: Sequence[Shape], counts: Counts, table: CapacityTable) -> CapacityTable:
    """Return the rest of ``table`` after members are placed as in ``counts``."""
    left = table.free.copy()
    ports = dict(table.ports)
    for shape, placed in zip(shapes, counts, strict=True):
        size = table.use_of(shape.requests)
        for name, count in placed.items():
            row = table.rows[name]
            left[row] -= count * size
            if shape.ports:
                ports[row] = ports.get(row, ()) + shape.ports
    return table.having(left, ports)


def _members(counts: Counts) -> int:
    return sum(sum(placed.values()) for placed in counts)


def _part(
    shapes: Sequence[Shape], counts: Counts, table: CapacityTable, lightest_first: Sequence[int]
) -> Part:
    have = tuple(sum(placed.values()) for placed in counts)
    lacking = [shapes[i] for i in lightest_first if have[i] < shapes[i].count]
    return Part(have, _short_of(lacking or shapes, _left(shapes, counts, table)))


def _short_of(shapes: Sequence[Shape], left: CapacityTable) -> tuple[str, ...]:
    """Return what the next member is short of, on the node that lacks the fewest resources."""
    best: tuple[str, ...] | None = None
    kinds = {(one.requests, id(one.nodes), one.ports): one for one in shapes}
    ports = _TakenPorts(left)
    for shape in islice(kinds.values(), MOST_LACKING):
        for short in _shortages(shape, left, ports):
            if short and (best is None or (len(short), short) < (len(best), best)):
                best = short
    return best or ()


def short_names(requests: Resources, table: CapacityTable) -> tuple[list[str], list[int]]:
    """Return the resources of a request that may be named as short, and their columns."""
    names = sorted(name for name in requests if requests[name] > 0)[:MOST_NAMED]
    return names, [table.column(name) for name in names]


class _TakenPorts:
    """The host ports in use on each row. They are indexed once for all kinds of members, within `PORT_WORK`."""

    def __init__(self, left: CapacityTable) -> None:
        self._ports = left.ports
        self._indexes: dict[int, PortIndex] = {}
        self._work = PORT_WORK

    def clashing(self, wanted: Sequence[HostPort], rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the host ports among ``wanted`` that are taken on each of ``rows``, as far as the work allows."""
        found = {}
        for row in rows:
            index = self._indexes.get(row)
            self._work -= len(wanted) + (len(self._ports[row]) if index is None else 0)
            if self._work < 0:
                break
            if index is None:
                index = self._indexes[row] = PortIndex([(row, self._ports[row])])
            found[row] = tuple(one.text for one in wanted if index.clashing((one,)))
        return found


def _shortages(shape: Shape, left: CapacityTable, ports: _TakenPorts) -> Iterator[tuple[str, ...]]:
    """Yield what each kind of node lacks for one more member."""
    names, columns = short_names(shape.requests, left)
    size = left.row_of(shape.requests)
    rows = left.at(shape.nodes)
    # The resources that a node lacks are the bits of a number, because a comparison of rows is far slower.
    codes = np.zeros(len(rows), dtype=np.int64)
    for bit, column in enumerate(columns):
        codes[left.free[rows, column] < size[column]] |= 1 << bit
    with_ports = list(left.ports) if shape.ports else []
    apart = np.isin(rows, with_ports) if with_ports else np.zeros(len(rows), dtype=bool)
    taken = ports.clashing(shape.ports, rows[apart].tolist())

    def lacks(code: int) -> tuple[str, ...]:
        short = tuple(name for bit, name in enumerate(names) if code >> bit & 1)
        return short if short or shape.claim_room is None else (shape.claim_room.text,)

    yield from map(lacks, np.unique(codes[~apart]).tolist())
    for row, code in zip(rows[apart].tolist(), codes[apart].tolist(), strict=True):
        if row in taken:
            yield lacks(code) + taken[row]
