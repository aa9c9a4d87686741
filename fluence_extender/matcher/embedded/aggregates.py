"""What is free below a vertex, by type, over time: the pruning filter's counters.

One `Planner` a tracked type, in the order of the types' interning. The walk asks them whether a subtree can hold a
request before it descends; the root's first one offers the start times of reservations (fluxion reference 4.1, 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluence_extender.matcher.embedded.planner import Planner

Counted = dict[str, tuple[Planner, int]]
"""What a job is counted with at a vertex: by type, the planner and the amount booked on it."""


class Aggregates:
    """The planners of a vertex's subtree, one for each tracked type."""

    __slots__ = ("live", "planners")

    def __init__(self, totals: Sequence[tuple[str, int]]) -> None:
        self.planners: dict[str, Planner] = {name: Planner(total) for name, total in totals}
        self.live = 0

    def retotal(self, totals: Sequence[tuple[str, int]]) -> None:
        """Track exactly the types of ``totals``, keeping the spans of those tracked before."""
        old = self.planners
        self.planners = {}
        for name, total in totals:
            planner = old.get(name)
            if planner is None:
                planner = Planner(total)
            elif planner.total != total:
                planner.resize(total)
            self.planners[name] = planner

    def fit(self, at: int, duration: int, counts: Mapping[str, int]) -> bool:
        """Whether every tracked type has its count free for all of [at, at + duration)."""
        return all(planner.fits(at, duration, counts.get(name, 0)) for name, planner in self.planners.items())

    def add(self, at: int, duration: int, counts: Mapping[str, int]) -> Counted | None:
        """Count a job in; returns what is to be given back, or None where a type can't hold its count.

        As in libreapi_cli, types before the one that fails keep their spans.
        """
        counted: Counted = {}
        for name, planner in self.planners.items():
            count = counts.get(name, 0)
            if not planner.add(at, duration, count):
                return None
            counted[name] = (planner, count)
        self.live += 1
        return counted

    def last(self) -> Planner:
        """The planner of the last tracked type, whose free count weighs the edge to this vertex."""
        return next(reversed(self.planners.values()))
