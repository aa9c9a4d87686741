"""What other schedulers' pods use, in the matcher: on each node one job stands for all of them.

What a node has left for us is its allocatable less the exact sum of others' requests, rounded once. What can't be
booked because its leaves are taken is the node's deficit, and is booked as soon as it can be.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluence_extender.graph.units import leaf_counts
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.resources import Resources


class OthersUse:
    """The jobs by node. Leaves that the graph has and the node hasn't any more count as used by others."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._booked: dict[str, tuple[int, dict[str, int]]] = {}
        self._deficits: dict[str, dict[str, int]] = {}

    @property
    def deficits(self) -> Mapping[str, Mapping[str, int]]:
        """Node -> leaves that others use and that couldn't be booked."""
        return self._deficits

    def book(self, node: str, allocatable: Resources, use: Resources) -> None:
        """Let one job stand for what others use of ``node``, as far as its leaves are free."""
        self.book_all({node: (allocatable, use)})

    def book_all(self, uses: Mapping[str, tuple[Resources, Resources]]) -> None:
        """`book` many nodes, each with its allocatable and what others use of it."""
        wanted: dict[str, dict[str, int]] = {}
        for node, (allocatable, use) in uses.items():
            taken = self._taken(node, allocatable, use)
            held = self._booked.get(node, (0, {}))
            if held[1] == taken and node not in self._deficits:
                continue
            self.forget(node)
            if taken:
                wanted[node] = taken
        for (node, counts), job in zip(wanted.items(), self._mirror.take_all(wanted.items()), strict=True):
            if isinstance(job, MatcherError):
                self._book_in_part(node, counts)
            else:
                self._booked[node] = (job, counts)

    def _book_in_part(self, node: str, counts: Mapping[str, int]) -> None:
        """Book as much of ``counts`` as is free, and note the rest."""
        missing: dict[str, int] = {}
        booked = dict(counts)
        while booked:
            booked, short = self._shrunk(node, booked)
            for leaf, count in short.items():
                missing[leaf] = missing.get(leaf, 0) + count
            if not booked:
                break
            try:
                self._booked[node] = (self._mirror.take(node, booked), booked)
            except MatcherError:
                continue
            break
        if missing:
            self._deficits[node] = missing

    def forget(self, node: str) -> None:
        """Free what stands for others' pods on ``node``."""
        job, counts = self._booked.pop(node, (0, {}))
        if counts:
            self._mirror.cancel((job,))
        self._deficits.pop(node, None)

    def job(self, node: str) -> int | None:
        """The job that stands for others' pods on a node, None where there is none."""
        job, counts = self._booked.get(node, (0, {}))
        return job if counts else None

    def jobs(self) -> list[int]:
        """All the jobs."""
        return [job for job, counts in self._booked.values() if counts]

    def differs(self, node: str, allocatable: Resources, use: Resources) -> bool:
        """Whether what is booked for others on ``node``, and what couldn't be, isn't what they use."""
        job, booked = self._booked.get(node, (0, {}))
        short = self._deficits.get(node, {})
        both = {leaf: booked.get(leaf, 0) + short.get(leaf, 0) for leaf in (*booked, *short)}
        if both != self._taken(node, allocatable, use):
            return True
        return bool(booked) and not self._mirror.holds(job, node, booked)

    def _taken(self, node: str, allocatable: Resources, use: Resources) -> dict[str, int]:
        if not use and allocatable is self._mirror.graph.made_of[node]:
            return {}
        left = {name: max(amount - use[name], 0) for name, amount in allocatable.items()}
        free = leaf_counts(Resources(left), self._mirror.units)
        taken = {leaf: count - free.get(leaf, 0) for leaf, count in self._mirror.graph.leaves[node].items()}
        return {leaf: count for leaf, count in taken.items() if count > 0}

    def _shrunk(self, node: str, counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """What of ``counts`` is free on the node, leaf type by leaf type, and what isn't."""
        fitting: dict[str, int] = {}
        for leaf, count in counts.items():
            low, high = 0, count
            while low < high:
                middle = (low + high + 1) // 2
                try:
                    job = self._mirror.take(node, {leaf: middle})
                except MatcherError:
                    high = middle - 1
                else:
                    self._mirror.cancel((job,))
                    low = middle
            if low:
                fitting[leaf] = low
        missing = {leaf: count - fitting.get(leaf, 0) for leaf, count in counts.items()}
        return fitting, {leaf: count for leaf, count in missing.items() if count}
