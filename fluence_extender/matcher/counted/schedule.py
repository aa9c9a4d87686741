"""When a request can start: now, at the end of some job, or never (fluxion reference 4.2).

Free room changes only where a job starts or ends, so those times are the only candidates for a later start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fluence_extender.matcher.counted.booking import Books
from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.granting import grant
from fluence_extender.matcher.counted.jobs import Share
from fluence_extender.matcher.counted.matching import Search
from fluence_extender.matcher.counted.request import GRAPH_END, Request, Shape
from fluence_extender.matcher.counted.state import State
from fluence_extender.matcher.counted.view import View, empty, live, window


@dataclass(frozen=True, slots=True)
class Start:
    """A start time in seconds, and the shares that are free from then on for the request's duration."""

    at: int
    shares: tuple[Share, ...]
    search: Search
    last: bool = False
    """Whether nothing ends or starts later than that."""


def view_of(state: State, books: Books, at: int, duration: int) -> View:
    """What is free for all of [at, at + duration)."""
    if at == 0 and not any(job.start < duration for job in books.later):
        return live(state.table)
    return window(state.table, books.jobs(), at, duration)


def start_now(graph: CompactGraph, books: Books, request: Request) -> Start | None:
    """The request at time 0."""
    return _at(graph, books, request, 0)


def start_later(graph: CompactGraph, books: Books, request: Request) -> Start | None:
    """The request at the first later time at which it fits.

    As in libreapi_cli, a job that holds nothing of a counted type is no reason to look again when it ends.
    """
    if not satisfiable(graph.state, request):
        return None
    times = {time for job in books.jobs() if job.levels for time in (job.start, job.end) if time >= 1}
    for at in sorted(times):
        start = _at(graph, books, request, at)
        if start is not None:
            return replace(start, last=at == max(times))
    return None


def satisfiable(state: State, request: Request) -> bool:
    """Whether the request fits on the graph when no job is there and everything is up."""
    return best_case(state, request).feasible()


def best_case(state: State, request: Request) -> Search:
    """The search on the graph when no job is there and everything is up."""
    return Search(state, request, empty(state.table), ever=True)


def _at(graph: CompactGraph, books: Books, request: Request, at: int) -> Start | None:
    state = graph.state
    view = view_of(state, books, at, request.duration)
    if graph.nested and (request.exclusive_nodes or request.shape is Shape.WHOLE):
        view.on_it = view.on_it.copy()
        for row in graph.nested.values():
            view.on_it[row] += graph.claimed(state.table.node(row), at, request.duration)
    search = Search(state, request, view)
    choice = search.choose()
    return None if choice is None else Start(at, grant(state, request, view, choice), search)


def end_of(at: int, duration: int) -> int:
    """When a job that starts at ``at`` ends; the graph's end ends all."""
    return min(at + duration, GRAPH_END)
