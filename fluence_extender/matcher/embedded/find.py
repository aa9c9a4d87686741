"""Searching the graph: the vertices that meet criteria, and all above them (fluxion reference 5.7).

What is down, allocated or reserved makes everything below it so too. With ``agfilter=true`` only vertices that keep
totals are told, each with what is used of them; if the criteria name a job, with what that job uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from errno import ENOENT

from fluence_extender.matcher.embedded.criteria import JOB_KEYS, Group, Item
from fluence_extender.matcher.embedded.grant import Granted
from fluence_extender.matcher.embedded.graph import DOWN, UP, Edge, Graph, Vertex
from fluence_extender.matcher.embedded.hostlist import Hostlist
from fluence_extender.matcher.embedded.jobids import parse_jobid
from fluence_extender.matcher.embedded.span import Booked, Span

Jobs = Mapping[int, Sequence[Span]]


class _Seen:
    """A vertex with what it has from those above it."""

    __slots__ = ("allocated", "down", "reserved", "vertex")

    def __init__(self, vertex: Vertex, above: _Seen | None, reserved: bool) -> None:
        self.vertex = vertex
        self.down: bool = vertex.status == DOWN or (above is not None and above.down)
        self.allocated: bool = vertex.allocations > 0 or (above is not None and above.allocated)
        self.reserved: bool = reserved or (above is not None and above.reserved)


Test = Callable[[_Seen], bool]


class Found:
    """The answer to a search, in the order of emission; ``used`` is each vertex's agfilter, if asked for.

    ``errno`` is what libreapi_cli leaves behind, None where it leaves what was there.
    """

    def __init__(self, graph: Graph, jobs: Jobs, criteria: Group, epoch: int) -> None:
        """Search. ``epoch`` is the time of day in seconds, at which libreapi_cli looks for what is used first."""
        self.vertices: list[Granted] = []
        self.edges: list[Edge] = []
        self.used: dict[Vertex, dict[str, str]] = {}
        self._jobs = jobs
        self._epoch = epoch
        self._test = _test_of(criteria, jobs)
        self._agfilter = False
        self._jobid = 0
        for item in criteria.items():
            if item.key == "agfilter":
                self._agfilter = item.value in ("true", "t")
            elif item.key in JOB_KEYS:
                # The lower-cased text is parsed again here, so an F58 id mostly names another job, or none.
                again = parse_jobid(item.value)
                self._jobid = self._jobid if again is None else again
        self._reserved = _reserved(jobs) if any(i.key == "sched-future" for i in criteria.items()) else ()
        self._walk = graph.new_walk()
        self._visit(graph.root, None, None)
        self.errno = _errno_after(criteria, graph.root)

    def _visit(self, vertex: Vertex, parent: Vertex | None, above: _Seen | None) -> bool:
        """Take up what is found at the vertex and below; whether there is anything."""
        vertex.seen = self._walk
        seen = _Seen(vertex, above, vertex in self._reserved)
        below = False
        for edge in vertex.out:
            if edge.target.seen != self._walk and self._visit(edge.target, vertex, seen):
                self.edges.append(edge)
                below = True
        if not below and not self._test(seen):
            return False
        if self._agfilter:
            used = self._used_of(vertex)
            if used is None:
                return False
            self.used[vertex] = used
        self.vertices.append(Granted(vertex, parent, vertex.size, True, None))
        return True

    def _used_of(self, vertex: Vertex) -> dict[str, str] | None:
        totals = vertex.aggregates
        if totals is None:
            return None
        amounts: dict[str, int] = {}
        if self._jobid == 0:
            for name, planner in totals.planners.items():
                used = planner.total - planner.free_at(self._epoch)
                amounts[name] = used or planner.total - planner.free_at(0)
        else:
            counted = [b.counted for b in _booked(self._jobs, self._jobid, vertex) if b.counted is not None]
            if not counted:
                return None
            amounts = {name: counted[-1][name][1] if name in counted[-1] else 0 for name in totals.planners}
        return {
            name: f"used:{amounts[name]}, total:{totals.planners[name].total}" for name in sorted(amounts)
        }


def _errno_after(criteria: Group, last: Vertex) -> int | None:
    """Reading a job id clears errno, looking for a name in a hostlist sets it where the name isn't there."""
    errno = None
    for item in criteria.items():
        if item.key in JOB_KEYS:
            errno = 0
        elif item.key == "names":
            errno = 0 if last.name in Hostlist([item.value]) else ENOENT
    return errno


def _booked(jobs: Jobs, jobid: int, vertex: Vertex) -> list[Booked]:
    return [span.booked[vertex] for span in jobs.get(jobid, ()) if vertex in span.booked]


def _reserved(jobs: Jobs) -> set[Vertex]:
    return {
        vertex
        for spans in jobs.values()
        for span in spans
        for vertex, booked in span.booked.items()
        if booked.units is not None and not booked.allocated
    }


def _test_of(term: Group | Item, jobs: Jobs) -> Test:
    if isinstance(term, Item):
        return _item_test(term, jobs)
    tests = [(widens, _test_of(inner, jobs)) for widens, inner in term.terms]

    def test(seen: _Seen) -> bool:
        met = False
        for widens, inner in tests:
            met = met or inner(seen) if widens else met and inner(seen)
        return met

    return test


_STATES: dict[tuple[str, str], Test] = {
    ("status", "down"): lambda seen: seen.down,
    ("status", "up"): lambda seen: not seen.down and seen.vertex.status == UP,
    ("sched-now", "allocated"): lambda seen: seen.allocated,
    ("sched-now", "free"): lambda seen: not seen.allocated,
    ("sched-future", "reserved"): lambda seen: seen.reserved,
    ("sched-future", "free"): lambda seen: not seen.reserved,
}


def _item_test(item: Item, jobs: Jobs) -> Test:
    if item.key in JOB_KEYS:
        wanted = set(_of_job(item, jobs.get(item.jobid, ())))
        return lambda seen: seen.vertex in wanted
    if item.key == "names":
        hosts = Hostlist([item.value])
        return lambda seen: seen.vertex.name in hosts
    if item.key == "property":
        return lambda seen: item.value in seen.vertex.properties
    if item.key == "agfilter":
        constant = item.value in ("true", "t")
        return lambda _: constant
    return _STATES[item.key, item.value]


def _of_job(item: Item, spans: Iterable[Span]) -> Iterable[Vertex]:
    for span in spans:
        for vertex, booked in span.booked.items():
            if item.key == "jobid-tag":
                wanted = booked.tagged
            elif item.key == "jobid-span":
                wanted = booked.counted is not None
            else:
                wanted = booked.units is not None and booked.allocated == (item.key == "jobid-alloc")
            if wanted:
                yield vertex
