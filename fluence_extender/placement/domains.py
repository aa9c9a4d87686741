"""The sets of nodes that a topology constraint allows for its members, best first, and why none of them fits.

The choice is best-fit: of the domains that hold all members, the one with the least capacity is tried first, so that
large domains stay whole. When no single domain meets a preference, the level above is tried, and in it as few domains
as possible are used (Kueue, Topology Aware Scheduling).

Users decide how many kinds of members a gang has, and each kind is examined in each domain. So for a gang with very
many kinds fewer domains are examined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fluence_extender.model.notation import natural_order
from fluence_extender.model.reason import Reason, ReasonCode, short, unsatisfiable
from fluence_extender.model.resources import PODS
from fluence_extender.placement.reasons import requests_text
from fluence_extender.placement.search import DOMAINS_WORK, Shape, affordable, capacities, place
from fluence_extender.placement.shortage import Part, largest_part, part_that_fits
from fluence_extender.placement.topology import Domain, Level, Topology
from fluence_extender.room.capacity import Amounts, CapacityTable

MOST_FILLED = 64
"""The number of domains that are filled to find the one that takes the most of unequal members."""

FEWEST_WORK = 5_000_000
"""The most comparisons (domains times shapes) that are made to find the fewest domains that hold all members."""

EACH_BUDGET = 500
"""The most ways to fill a node that are tried for each domain, to see whether it could ever hold unequal members."""


UNLIMITED = 2**30
"""A number larger than the size of any gang."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """The levels of a topology constraint; at least one is given."""

    required: Level | None
    preferred: Level | None


def candidates(
    topology: Topology,
    near: Nearness,
    shapes: Sequence[Shape],
    table: CapacityTable,
    settled: Sequence[str],
) -> Iterator[Set[str] | None]:
    """Yield the sets of nodes to try in order, None for all nodes.

    ``settled`` are the nodes of members that have the same constraint and a place already; later members must join
    their domain.
    """
    search = _Candidates(topology, shapes, table)
    bound = search.settled(near.required, settled) if near.required is not None else None
    if near.preferred is None:
        assert near.required is not None
        yield from search.single(near.required, bound)
        return
    allowed = (
        topology.nodes(near.required, bound) if near.required is not None and bound is not None else None
    )
    for node_set in search.preferring(near, allowed, settled):
        if allowed is not None:
            yield allowed if node_set is None else node_set & allowed
        elif near.required is not None and node_set is not None:
            yield from _split_by_domain(topology, near.required, node_set)
        else:
            yield node_set


def _split_by_domain(topology: Topology, level: Level, nodes: Set[str]) -> Iterator[Set[str]]:
    """Yield ``nodes`` by their domain of ``level``, without nodes that are in no domain."""
    parts: dict[int, set[str]] = {}
    for node in nodes:
        parts.setdefault(topology.position(level, node), set()).add(node)
    parts.pop(-1, None)
    yield from (parts[position] for position in sorted(parts))


class _Candidates:
    """The numbers of members by shape that the domains of a topology take."""

    def __init__(self, topology: Topology, shapes: Sequence[Shape], table: CapacityTable) -> None:
        self.topology = topology
        self.shapes = shapes
        self.table = table
        # How many members of each shape each row takes, without a limit and up to the shape's count.
        counted = capacities([replace(shape, count=UNLIMITED) for shape in shapes], table)
        self.unlimited = list(zip((table.at(shape.nodes) for shape in shapes), counted, strict=True))
        self.slots = [
            (rows, np.minimum(counts, shape.count))
            for shape, (rows, counts) in zip(shapes, self.unlimited, strict=True)
        ]
        self._fitting: dict[Level, list[int]] = {}

    def settled(self, level: Level, nodes: Sequence[str]) -> int | None:
        """Return the domain where most of ``nodes`` are."""
        positions = [one for node in nodes if (one := self.topology.position(level, node)) >= 0]
        return max(sorted(set(positions)), key=positions.count) if positions else None

    def by_domain(self, level: Level, outer: Set[str] | None = None) -> NDArray[np.int64]:
        """Return by shape and domain how many members the domain takes of this shape alone.

        With ``outer`` only its nodes count.
        """
        if outer is None:
            return self._summed(level, self.slots)
        allowed = np.zeros(len(self.table.names), dtype=bool)
        allowed[self.table.at([name for name in outer if name in self.table.rows])] = True
        return self._summed(
            level, [(rows[allowed[rows]], slots[allowed[rows]]) for rows, slots in self.slots]
        )

    def _summed(self, level: Level, slots: Sequence[tuple[NDArray[np.intp], Amounts]]) -> NDArray[np.int64]:
        """Return the sums by shape and domain of each shape's numbers of members by row."""
        domains = len(self.topology.domains(level))
        of = self.topology.by_row(level, self.table)
        sums = np.zeros((len(slots), domains), dtype=np.int64)
        for index, (rows, counts) in enumerate(slots):
            positions = of[rows]
            inside = positions >= 0
            sums[index] = np.bincount(positions[inside], weights=counts[inside], minlength=domains)
        return sums

    def fitting(self, level: Level) -> list[int]:
        """Return the domains that may hold all members, those with the least capacity first."""
        if level not in self._fitting:
            self._fitting[level] = self._find_fitting(level)
        return self._fitting[level]

    def _find_fitting(self, level: Level) -> list[int]:
        sums = self.by_domain(level)
        wanted = np.array([shape.count for shape in self.shapes])
        free = self._summed(level, self.unlimited).sum(axis=0)
        fits = np.flatnonzero((sums >= wanted[:, None]).all(axis=0)).tolist()
        names = self.topology.domains(level)
        return sorted(fits, key=lambda one: (free[one], _natural(names[one])))

    def single(self, level: Level, only: int | None = None) -> Iterator[Set[str]]:
        """Yield the nodes of each domain that may hold all members."""
        places = self.fitting(level)
        for position in places if only is None else [one for one in places if one == only]:
            yield self.topology.nodes(level, position)

    def preferring(
        self, near: Nearness, allowed: Set[str] | None, settled: Sequence[str]
    ) -> Iterator[Set[str] | None]:
        """Yield one domain of the preferred level, then as few as possible below the next level, and so on upwards."""
        preferred = near.preferred
        assert preferred is not None
        joined = self.settled(preferred, settled)
        if joined is not None:
            yield from self.single(preferred, joined)
        yield from self.single(preferred)
        for level in self.topology.above(preferred):
            for outer in self.single(level):
                yield from self.fewest(preferred, outer)
                yield outer
            if level == near.required:
                return
        if near.required is not None:
            for outer in self.single(near.required):
                yield from self.fewest(preferred, outer)
                yield outer
            return
        yield from self.fewest(preferred, allowed)
        yield allowed

    def fewest(self, level: Level, outer: Set[str] | None) -> Iterator[Set[str]]:
        """Yield the fewest domains that may hold all members: the largest ones, and the smallest that fits the rest."""
        sums = self.by_domain(level)
        wanted = np.array([shape.count for shape in self.shapes], dtype=np.int64)
        places = [
            one
            for one in np.flatnonzero(sums.any(axis=0)).tolist()
            if outer is None or not outer.isdisjoint(self.topology.nodes(level, one))
        ]
        if outer is not None:
            sums = self.by_domain(level, outer)
        names = self.topology.domains(level)
        places.sort(key=lambda one: (-int(sums[:, one].sum()), _natural(names[one])))
        chosen: list[int] = []
        left = wanted.copy()
        budget = FEWEST_WORK
        while (left > 0).any() and places and budget > 0:
            needed = left > 0
            ordered = np.array(places)
            budget -= int(needed.sum()) * len(places)
            enough = np.flatnonzero((sums[np.ix_(needed, ordered)] >= left[needed, None]).all(axis=0))
            best = places.pop(int(enough[-1]) if len(enough) else 0)
            chosen.append(best)
            left = left - sums[:, best]
        if (left > 0).any():
            return
        union: set[str] = set().union(*(self.topology.nodes(level, one) for one in chosen))
        yield union if outer is None else union & outer

    @property
    def most_filled(self) -> int:
        """The number of domains that are filled with all members to see how many each takes."""
        return len(affordable(range(MOST_FILLED), self.shapes, DOMAINS_WORK))

    def inside(self, level: Level, position: int) -> list[Shape]:
        """Return the shapes on the nodes of one domain."""
        nodes = self.topology.nodes(level, position)
        known: dict[int, tuple[str, ...]] = {}
        for shape in self.shapes:
            if id(shape.nodes) not in known:
                known[id(shape.nodes)] = tuple(name for name in shape.nodes if name in nodes)
        return [replace(shape, nodes=known[id(shape.nodes)]) for shape in self.shapes]


def _natural(domain: Domain) -> list[object]:
    return [natural_order(value) for value in domain]


def why_not(
    topology: Topology,
    level: Level,
    free: Sequence[Shape],
    possible: Sequence[Shape],
    tables: tuple[CapacityTable, CapacityTable],
    settled: Sequence[str],
) -> Reason:
    """Return why no domain of the required ``level`` fits.

    ``free`` are the shapes on the nodes that they may use now, ``possible`` the shapes on the nodes that they could
    ever use. ``tables`` are what the nodes have left and what they have when nothing runs.
    """
    wanted = _members_text(free)
    present = _Candidates(topology, free, tables[0])
    bound = present.settled(level, settled)
    if bound is not None:
        name = "/".join(value for value in topology.domains(level)[bound] if value)
        most, lacking = _most(present, level, sum(shape.count for shape in free), only=bound)
        return Reason(
            ReasonCode.BUSY,
            f"busy: {level.name} {name}, where other members are, has room for {most} of {wanted}{lacking}",
        )
    ever = _Candidates(topology, possible, tables[1])
    if not ever.by_domain(level).any():
        return unsatisfiable(f"no node that the members may use has a {level.name} ({level.labels[-1]})")
    count = sum(shape.count for shape in free)
    largest, lacking = _most(ever, level, count, thorough=True)
    if largest < count and not _could_hold(ever, level):
        return unsatisfiable(f"no {level.name} holds {wanted} (the largest holds {largest}{lacking})")
    now, lacking = _most(present, level, count - 1)
    return Reason(
        ReasonCode.BUSY, f"busy: no {level.name} has room for {wanted} now (the most is {now}{lacking})"
    )


def _could_hold(candidates: _Candidates, level: Level) -> bool:
    """Return whether some domain may hold all members; True also when that isn't known."""
    places = candidates.fitting(level)
    if len(candidates.shapes) == 1 or len(places) > candidates.most_filled:
        return bool(places)
    table = candidates.table
    return any(place(candidates.inside(level, one), table, EACH_BUDGET) is not None for one in places)


def _most(
    candidates: _Candidates, level: Level, limit: int, only: int | None = None, thorough: bool = False
) -> tuple[int, str]:
    """Return the most members that one domain takes, and what the next member there is short of."""
    sums = candidates.by_domain(level)
    if not sums.size:
        return 0, ""
    places = np.argsort(-sums.sum(axis=0), kind="stable").tolist() if only is None else [only]
    best: tuple[Part, list[Shape]] | None = None
    for one in places[: 1 if len(candidates.shapes) == 1 else candidates.most_filled]:
        inside = candidates.inside(level, one)
        part = part_that_fits(inside, candidates.table)
        if best is None or part.members > best[0].members:
            best = part, inside
    if best is None:
        return 0, ""
    found = largest_part(best[1], candidates.table) if thorough else best[0]
    return min(found.members, limit), short(found.short_of)


def _members_text(shapes: Sequence[Shape]) -> str:
    """Return ``16 x 4 nvidia.com/gpu``, or ``all 16 members`` when the members differ."""
    count = sum(shape.count for shape in shapes)
    kinds = {shape.requests for shape in shapes}
    if len(kinds) > 1:
        return f"all {count} members"
    requests = next(iter(kinds))
    return f"{count} x {requests_text(requests)}" if set(requests) - {PODS} else f"{count} pods"
