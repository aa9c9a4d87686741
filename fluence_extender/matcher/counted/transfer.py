"""Between arithmetic and the walker over the whole graph: what is held, and what the edges weigh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fluence_extender.matcher.counted.booking import Books
from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.holding import Holding
from fluence_extender.matcher.counted.jobs import Job, Share
from fluence_extender.matcher.counted.ranges import Ranges
from fluence_extender.matcher.counted.uncountable import Uncountable


def adopt(graph: CompactGraph, books: Books, holding: Holding) -> None:
    """Book what the walker granted. Raises `Uncountable` for what counts can't express, and then changes nothing."""
    found = _Found(graph)
    for path in holding.paths:
        found.sort(path)
    shares, walked = found.shares(), found.rest()
    info = holding.info
    if shares:
        end = info.at + holding.duration
        levels = graph.state.counting_levels(shares)
        books.book(graph, Job(holding.jobid, info.at, end, info.reserved, shares, levels))
    if walked:
        graph.walked.hold(books.next_walked, info, holding.duration, walked, allocated=holding.allocated)
        books.book_walked(Holding(holding.jobid, info, holding.duration, tuple(walked), holding.allocated))


class _Found:
    """The paths of a grant, by what is there."""

    def __init__(self, graph: CompactGraph) -> None:
        self._graph = graph
        self._whole: dict[int, None] = {}
        self._units: dict[int, dict[str, list[int]]] = {}
        self._walked: dict[str, None] = {}

    def sort(self, path: str) -> None:
        """Raises `Uncountable`."""
        state = self._graph.state
        row = state.by_path.get(path)
        if row is not None:
            self._whole[row] = None
            return
        holder, _, name = path.rpartition("/")
        row = state.by_path.get(holder)
        unit = None if row is None else state.table.node(row).unit_named(name)
        if row is not None and unit is not None:
            self._units.setdefault(row, {}).setdefault(unit[0], []).append(unit[1])
        elif self._graph.walked.has(path) and path not in state.tree.by_path:
            self._walked[path] = None
        else:
            raise Uncountable(f"{path} can't be held by counts")

    def shares(self) -> tuple[Share, ...]:
        """What is held of physical nodes."""
        return tuple(self._share(row) for row in dict.fromkeys((*self._units, *self._whole)))

    def _share(self, row: int) -> Share:
        table = self._graph.state.table
        node = table.node(row)
        units = self._units.get(row, {})
        taken = tuple((pool.type, _ranges(units[pool.type])) for pool in node.pools if pool.type in units)
        whole = row in self._whole
        entire = whole and node.path in self._graph.nested and self._all_below(node.path)
        return Share(row, int(table.serial[row]), node, taken, whole, entire)

    def _all_below(self, path: str) -> bool:
        below = self._graph.walked.below(path)
        if not all(each in self._walked for each in below):
            return False
        for each in below:
            del self._walked[each]
        return True

    def rest(self) -> list[str]:
        """What is held of virtual vertices, beside those that `shares` account for."""
        return list(self._walked)


def _ranges(units: Iterable[int]) -> Ranges:
    found: list[tuple[int, int]] = []
    for unit in sorted(units):
        if found and found[-1][1] == unit:
            found[-1] = (found[-1][0], unit + 1)
        else:
            found.append((unit, unit + 1))
    return tuple(found)


def weights_of(graph: CompactGraph) -> dict[str, int | None]:
    """Path -> weight of the edge to it, None where no job came through; empty where the policy has no weights."""
    state = graph.state
    found: dict[str, int | None] = {}
    for level in state.tree.levels:
        if level.alive and level.siblings is not None:
            for reference in level.children:
                found[_path(graph, reference)] = level.siblings.weight(reference)
    if found:
        for top in graph.tops:
            found |= graph.walked.weights((top, *graph.walked.below(top)))
    return found


def weigh(graph: CompactGraph, weights: Mapping[str, int | None]) -> None:
    """Set the weights of edges that a grant of the walker passed; those to leaves have none."""
    state = graph.state
    by_level: dict[int, list[tuple[int, int]]] = {}
    for path, weight in weights.items():
        if weight is None:
            continue
        for number, reference in _references(graph, path):
            by_level.setdefault(number, []).append((reference, weight))
    for number, pairs in by_level.items():
        siblings = state.tree.write(number).siblings
        if siblings is not None:
            siblings.reweigh([reference for reference, _ in pairs], [weight for _, weight in pairs])
    walked = {
        path: weight
        for path, weight in weights.items()
        if weight is not None and graph.walked.has(path) and path not in state.tree.by_path
    }
    if walked:
        graph.walked.weigh(walked)


def _references(graph: CompactGraph, path: str) -> Iterator[tuple[int, int]]:
    """The level above a physical node or level, and how that level knows it."""
    state = graph.state
    row = state.by_path.get(path)
    number = state.tree.by_path.get(path)
    if row is not None:
        yield state.table.node(row).level, row
    elif number:
        level = state.tree.levels[number]
        yield level.parent, level.reference


def _path(graph: CompactGraph, reference: int) -> str:
    if reference >= 0:
        return graph.state.table.node(reference).path
    return graph.state.tree.levels[-1 - reference].vertex.path
