"""The line: who waits, in which order, until when and why; and a timeline of what runs, starts and is kept free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fluence_extender.apps.kubectl.figures import moment
from fluence_extender.dashboard.listing import made_once
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Cut, Filters, choices, cut
from fluence_extender.dashboard.views.gangs import namespaces_of
from fluence_extender.dashboard.views.overview import QueueRow, queue_row
from fluence_extender.model.notation import first_few_in_a_cell

RUNNING = ("planned", "committed", "bound")
RUNS = ("running", "ahead")
"""The kinds of spans of gangs that run."""

MOST_LINES = 24
"""Lines of the timeline."""

SHORTEST = timedelta(minutes=10)
"""What the timeline shows of the past and of the future, at least."""
LONGEST = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class LineRow:
    """A gang in line."""

    position: int
    namespace: str
    name: str
    link: str
    queue: str
    user: str
    priority: int
    created: str
    starts: str
    kept: str
    held: bool
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A line of the timeline, from ``left`` to ``right``, which are shares of its width.

    ``kind`` is running, ahead (runs, although an older gang waits for its start), reserved (kept free for a gang),
    expected (may start then) or closed (an administrator's). ``open`` says that nobody knows the end.
    """

    name: str
    link: str
    kind: str
    left: float
    right: float
    open: bool
    text: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    """What runs and what is to come: spans between two times; ``now`` is a share of the width."""

    begin: datetime
    end: datetime
    now: float
    spans: Sequence[TimelineSpan]
    left_out: int


@dataclass(frozen=True, slots=True)
class QueueView:
    """The page of the queue."""

    queues: Sequence[QueueRow]
    rows: Cut[LineRow]
    timeline: TimelineView
    names: Sequence[str]
    namespaces: Sequence[str]
    command: str


def queue_view(state: ClusterState, filters: Filters) -> QueueView:
    """Return the line that the filters let through, with a timeline of the same gangs."""
    kept: Sequence[Item] = state.line
    if filters.asks("queue", "namespace", "text"):
        kept = [entry for entry in state.line if _passes(entry, filters)]
    running = [
        gang
        for gang in made_once(state.gangs, _running)
        if filters.matches(("queue", gang["queue"]), ("namespace", gang["namespace"]))
        and filters.finds(gang["name"], gang["namespace"])
    ]
    return QueueView(
        [queue_row(queue) for queue in state.queues if filters.matches(("queue", queue["name"]))],
        cut(kept, line_row, filters.page),
        timeline(running, kept, state.reservations, state.at),
        choices(queue["name"] for queue in state.queues),
        made_once(state.gangs, namespaces_of),
        commands.line(filters["queue"], filters["namespace"]),
    )


def line_row(entry: Mapping[str, object] | Item) -> LineRow:
    """Return the row of a gang in line."""
    one: Item = dict(entry)
    return LineRow(
        one["position"],
        one["namespace"],
        one["name"],
        links.gang(one["namespace"], one["name"], one["convention"]),
        one["queue"],
        one["user"],
        one["priority"],
        one["created"] or "",
        one["expected_start"] or "",
        first_few_in_a_cell(one["reserved_nodes"], 3),
        one["held"],
        one["reason"],
        commands.why(one["namespace"], one["name"]),
    )


def timeline(
    running: Sequence[Item], line: Sequence[Item], reservations: Sequence[Item], now: datetime
) -> TimelineView:
    """Return what runs, what is reserved and what is expected, around ``now``."""
    reserved = {(one["namespace"], one["name"]) for one in reservations if one["kind"] == "gang"}
    expected = [
        one
        for one in line
        if one["expected_start"] is not None and (one["namespace"], one["name"]) not in reserved
    ]
    oldest = min((moment(one["created"]) for one in line if one["expected_start"]), default=now)
    shown = {(one["namespace"], one["name"]) for one in line} if reserved else set()
    known = [
        *(
            (
                _gang(one),
                _running_kind(one, oldest),
                _time(one.get("started") or one["created"]) or now,
                _time(one.get("expected_end")),
                "",
            )
            for one in running
        ),
        *(
            (_gang(one), "reserved", _time(one["start"]) or now, _time(one["end"]), _nodes(one))
            for one in reservations
            if one["kind"] == "gang" and (one["namespace"], one["name"]) in shown
        ),
        *((_gang(one), "expected", moment(one["expected_start"]), None, "") for one in expected),
        *(
            (_closed(one), "closed", _time(one["start"]) or now, _time(one["end"]), _nodes(one))
            for one in reservations
            if one["kind"] == "reservation"
        ),
    ]
    begin, end = _bounds(now, known[:MOST_LINES])
    width = (end - begin).total_seconds()

    def at(time: datetime) -> float:
        return min(max((time - begin).total_seconds() / width, 0.0), 1.0)

    spans = [
        TimelineSpan(
            name, link, kind, at(start), _right(kind, at(start), until, at, now), until is None, text
        )
        for (name, link), kind, start, until, text in known[:MOST_LINES]
    ]
    return TimelineView(begin, end, at(now), spans, len(known) - len(spans))


_Known = tuple[tuple[str, str], str, datetime, datetime | None, str]


def _right(
    kind: str, left: float, until: datetime | None, at: Callable[[datetime], float], now: datetime
) -> float:
    """Return where a span ends. What runs ends now at the earliest; what is to come may be open to the right."""
    if kind in RUNS:
        return max(at(now), at(until) if until is not None else 0.0, left)
    return max(at(until), left) if until is not None else 1.0


def _bounds(now: datetime, known: Sequence[_Known]) -> tuple[datetime, datetime]:
    times = [time for _, _, start, until, _ in known for time in (start, until) if time is not None]
    begin = max(min([now - SHORTEST, *times]), now - LONGEST)
    end = min(max([now + SHORTEST, *times]), now + LONGEST)
    return begin, end + (end - begin) / 20


def _running_kind(gang: Item, oldest: datetime) -> str:
    """Return whether a gang runs although one that was created before it, the ``oldest``, waits for its start."""
    created = _time(gang["created"])
    return "ahead" if created is not None and created > oldest else "running"


def _gang(one: Item) -> tuple[str, str]:
    convention = one.get("convention", "")
    return f"{one['namespace']}/{one['name']}", links.gang(one["namespace"], one["name"], convention)


def _closed(one: Item) -> tuple[str, str]:
    return f"Reservation {one['name']}" + (f" ({one['reason']})" if one["reason"] else ""), links.NODES


def _nodes(one: Item) -> str:
    return f"{one['count']} node" + ("" if one["count"] == 1 else "s")


def _running(gangs: Sequence[Item]) -> list[Item]:
    return [gang for gang in gangs if gang["state"] in RUNNING]


def _time(text: str | None) -> datetime | None:
    return moment(text) if text else None


def _passes(entry: Item, filters: Filters) -> bool:
    return filters.matches(("queue", entry["queue"]), ("namespace", entry["namespace"])) and filters.finds(
        entry["name"], entry["namespace"], entry["user"], entry["reason"]
    )
