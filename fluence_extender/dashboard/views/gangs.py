"""Gangs: a row for each in lists, and the story of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.apps.kubectl.jobs import placed_of
from fluence_extender.apps.kubectl.why import explanation
from fluence_extender.dashboard.listing import made_once
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Cut, Filters, choices, cut
from fluence_extender.model.notation import first_few_in_a_cell

STATES = ("waiting", "planned", "committed", "bound", "finished", "gone")

CHOSEN = ("namespace", "state", "queue", "why")
"""The filters of gangs that ask for one value."""

MOST_NAMED = 3
"""Nodes that a row names."""


@dataclass(frozen=True, slots=True)
class GangRow:
    """A gang in a list."""

    namespace: str
    name: str
    link: str
    state: str
    placed: str
    created: str
    starts: str
    user: str
    queue: str
    position: str
    nodes: str
    backends: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of a gang; ``node_link`` is empty while it has no node."""

    pod: str
    node: str
    node_link: str
    backend: str
    command: str


@dataclass(frozen=True, slots=True)
class Happening:
    """An entry of a gang's history."""

    at: str
    what: str
    pod: str
    detail: str
    count: int


@dataclass(frozen=True, slots=True)
class GangStory:
    """All that is known of one gang."""

    row: GangRow
    facts: Sequence[str]
    members: Sequence[MemberRow]
    former: Sequence[str]
    history: Sequence[Happening]
    forgotten: int


@dataclass(frozen=True, slots=True)
class GangsView:
    """The page of all gangs."""

    rows: Cut[GangRow]
    namespaces: Sequence[str]
    queues: Sequence[str]
    command: str


def gangs_view(state: ClusterState, filters: Filters) -> GangsView:
    """Return the gangs that the filters let through."""
    kept: Iterable[Item] = state.gangs
    if filters.asks(*CHOSEN, "text"):
        kept = (gang for gang in state.gangs if _passes(gang, filters))
    return GangsView(
        cut(kept, gang_row, filters.page),
        made_once(state.gangs, namespaces_of),
        made_once(state.gangs, _queues_of),
        commands.jobs(filters["namespace"]),
    )


def namespaces_of(gangs: Sequence[Item]) -> list[str]:
    """Return the namespaces of gangs, each once."""
    return choices(gang["namespace"] for gang in gangs)


def _queues_of(gangs: Sequence[Item]) -> list[str]:
    return choices(gang["queue"] for gang in gangs)


def gang_row(gang: Mapping[str, object] | Item) -> GangRow:
    """Return the row of a gang."""
    one: Item = dict(gang)
    members = one["members"]
    return GangRow(
        one["namespace"],
        one["name"],
        links.gang(one["namespace"], one["name"], one["convention"]),
        one["state"],
        placed_of(one),
        one["created"] or "",
        one["expected_start"] or "",
        one["user"],
        one["queue"],
        str(one["position"] or ""),
        _first_names(member["node"] for member in members),
        _first_names(member["backend"] for member in members),
        one["reason"],
        commands.why(one["namespace"], one["name"]),
    )


def gang_story(gang: Item, state: ClusterState) -> GangStory:
    """Return what is known of a gang; what would fit is by the state's nodes."""
    return GangStory(
        gang_row(gang),
        list(_facts(gang, state)),
        [
            MemberRow(
                member["pod"],
                member["node"],
                links.node(member["node"]) if member["node"] else "",
                member["backend"],
                commands.pod(gang["namespace"], member["pod"]),
            )
            for member in gang["members"]
        ],
        gang["former"],
        [
            Happening(entry["at"], entry["what"], entry["pod"], entry["detail"], entry["count"])
            for entry in gang["history"]
        ],
        gang["forgotten"],
    )


def counted_by_state(gangs: Sequence[Item]) -> list[tuple[str, int]]:
    """Return how many gangs are in each state."""
    counts = Counter(gang["state"] for gang in gangs)
    return [(state, counts[state]) for state in STATES if counts[state] or state != "gone"]


def _facts(gang: Item, state: ClusterState) -> Iterator[str]:
    """Yield the lines with which ``kubectl fluence why`` explains the gang, without title, reason and history."""
    said_elsewhere: Item = {"history": [], "reason": "", "position": None, "expected_start": None}
    lines = explanation({**gang, **said_elsewhere}, state.nodes, state.devices, False)
    next(lines)
    yield from (line.removeprefix("  ") for line in lines)


def _passes(gang: Item, filters: Filters) -> bool:
    if not filters.matches(*((name, gang[name]) for name in CHOSEN)):
        return False
    # Most often no text is asked for, and none is collected.
    return not filters["text"] or filters.finds(
        gang["name"],
        gang["namespace"],
        gang["user"],
        gang["reason"],
        *(member["pod"] for member in gang["members"]),
    )


def _first_names(names: Iterator[str]) -> str:
    return first_few_in_a_cell(list(dict.fromkeys(name for name in names if name)), MOST_NAMED)
