"""What a job has booked, and where: the record that giving back, in whole or in part, works from.

A vertex a job is on is *tagged* with it; one the job has to itself is *held*, with its units; one that keeps totals of
what is below it has *counted* the job in. Invariant: the record says exactly what is booked on the time lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.matcher.embedded.aggregates import Aggregates, Counted
from fluence_extender.matcher.embedded.graph import SHARERS, Vertex
from fluence_extender.matcher.embedded.planner import Planner


@dataclass(slots=True)
class Booked:
    """What one job has on one vertex.

    ``units``: those it holds exclusively, None for none, ``allocated`` by a job rather than by a reservation.
    ``counted``: what is counted of it below the vertex, in ``totals``; None where the vertex counts nothing of it.
    """

    units: int | None = None
    allocated: bool = False
    tagged: bool = False
    claimed: bool = False
    counted: Counted | None = None
    totals: Aggregates | None = None


@dataclass(slots=True)
class Span:
    """The time a job has, and what is booked for that time on each vertex."""

    at: int
    duration: int
    booked: dict[Vertex, Booked] = field(default_factory=dict)

    def hold(self, vertex: Vertex, units: int, *, allocate: bool) -> bool:
        """Book units of a vertex; False where they aren't free."""
        if vertex.plans is None:
            vertex.plans = Planner(vertex.size)
        if not vertex.plans.add(self.at, self.duration, units):
            return False
        booked = self._on(vertex)
        booked.units = units
        booked.allocated = allocate
        vertex.allocations += allocate
        return True

    def claim(self, vertex: Vertex) -> None:
        """Tag the vertex, and count the job among those that share it."""
        if vertex.claims is None:
            vertex.claims = Planner(SHARERS)
        booked = self._on(vertex)
        booked.tagged = True
        booked.claimed = vertex.claims.add(self.at, self.duration, 1)

    def count(self, vertex: Vertex, totals: Aggregates, below: Mapping[str, int]) -> bool:
        """Count in what the job takes below the vertex; False where a total can't hold it."""
        counted = totals.add(self.at, self.duration, below)
        if counted is None:
            return False
        booked = self._on(vertex)
        booked.counted = counted
        booked.totals = totals
        return True

    def release(self) -> bool:
        """Give everything back; False where a planner now has more than its total."""
        sound = True
        for vertex in list(self.booked):
            sound &= self.free(vertex)
        return sound

    def free(self, vertex: Vertex) -> bool:
        """Give back what is booked on one vertex; False as in `release`."""
        booked = self.booked.pop(vertex)
        sound = True
        if booked.units is not None and vertex.plans is not None:
            sound &= vertex.plans.remove(self.at, self.duration, booked.units)
            vertex.allocations -= booked.allocated
        sound &= self._unclaim(vertex, booked)
        if booked.counted is not None and booked.totals is not None:
            for planner, amount in booked.counted.values():
                sound &= planner.remove(self.at, self.duration, amount)
            booked.totals.live -= 1
        return sound

    def reduce(self, vertex: Vertex, freed: Mapping[str, int]) -> None:
        """Count what was freed below a shared vertex out again; with the last of it the tag goes.

        As in libreapi_cli the job no longer counts among those that share the vertex, whatever is left of it there.
        """
        booked = self.booked.get(vertex)
        if booked is None or booked.counted is None or booked.totals is None:
            return
        for name, (planner, amount) in list(booked.counted.items()):
            back = freed.get(name, 0)
            if back == amount:
                planner.remove(self.at, self.duration, amount)
                del booked.counted[name]
            elif back:
                planner.give_back(self.at, self.duration, back)
                booked.counted[name] = (planner, amount - back)
        if not booked.counted:
            booked.counted = None
            booked.totals.live -= 1
            booked.tagged = False
        self._unclaim(vertex, booked)
        if not booked.tagged and booked.units is None:
            del self.booked[vertex]

    def _unclaim(self, vertex: Vertex, booked: Booked) -> bool:
        if not booked.claimed or vertex.claims is None:
            return True
        booked.claimed = False
        return vertex.claims.remove(self.at, self.duration, 1)

    def _on(self, vertex: Vertex) -> Booked:
        booked = self.booked.get(vertex)
        if booked is None:
            booked = self.booked[vertex] = Booked()
        return booked
