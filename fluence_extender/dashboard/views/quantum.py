"""Quantum jobs: where each task is in its vendor's queue, and in step with it the pods that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.dashboard.listing import made_once
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Filters


@dataclass(frozen=True, slots=True)
class QuantumRow:
    """A gang with a task, and the gang of its consumers, of which there may be none."""

    name: str
    link: str
    state: str
    backends: str
    task: str
    status: str
    consumers: str
    consumers_link: str
    consumers_state: str
    consumers_status: str
    command: str


def quantum_rows(state: ClusterState, filters: Filters) -> list[QuantumRow]:
    """Return the quantum jobs that the filters let through."""
    parts = made_once(state.gangs, _parts)
    consumers = {
        (one["namespace"], one["name"]): one for one in parts if one["quantum"]["role"] == "consumer"
    }
    return [
        _row(one, consumers.get((one["namespace"], one["quantum"]["partner"])))
        for one in parts
        if one["quantum"]["role"] != "consumer" and _passes(one, filters)
    ]


def _row(gang: Item, consumers: Item | None) -> QuantumRow:
    namespace, quantum = gang["namespace"], gang["quantum"]
    return QuantumRow(
        f"{namespace}/{gang['name']}",
        links.gang(namespace, gang["name"], gang["convention"]),
        gang["state"],
        ", ".join(_backends(gang)),
        quantum["task"],
        quantum["status"],
        f"{namespace}/{consumers['name']} ({len(consumers['members'])} pods)" if consumers else "",
        links.gang(namespace, consumers["name"], consumers["convention"]) if consumers else "",
        consumers["state"] if consumers else "",
        consumers["quantum"]["status"] if consumers else "",
        commands.why(namespace, gang["name"]),
    )


def _parts(gangs: Sequence[Item]) -> list[Item]:
    return [gang for gang in gangs if gang.get("quantum")]


def _backends(gang: Item) -> list[str]:
    return sorted({member["backend"] for member in gang["members"] if member["backend"]})


def _passes(gang: Item, filters: Filters) -> bool:
    backends = _backends(gang)
    return (not filters["backend"] or filters["backend"] in backends) and filters.finds(
        gang["name"], gang["namespace"], gang["quantum"]["task"], *backends
    )
