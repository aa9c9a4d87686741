"""The overview: how full the cluster is, the queues, the gangs by state, and what changed lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.apps.kubectl.figures import amount
from fluence_extender.apps.kubectl.graph import tree
from fluence_extender.dashboard.listing import made_once
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links
from fluence_extender.dashboard.views.gangs import counted_by_state

FIRST = ("cpu", "memory")
LEFT_OUT = ("pods", "ephemeral-storage")

MOST_CHANGES = 12


@dataclass(frozen=True, slots=True)
class Utilization:
    """How much of a resource is used; ``held`` and ``others`` are shares of the whole, from 0 to 1."""

    name: str
    held: float
    others: float
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue, and how much is in it."""

    name: str
    link: str
    stop: str
    waiting: int
    running: int
    limits: str
    head: str
    head_link: str
    starts: str
    oldest: str
    problems: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A gang that changed; ``before`` and ``after`` are states, "" for none."""

    at: str
    gang: str
    link: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Overview:
    """What the first page says."""

    resources: Sequence[Utilization]
    nodes: int
    closed: int
    states: Sequence[tuple[str, int, str]]
    queues: Sequence[QueueRow]
    changes: Sequence[ChangeRow]


def overview(state: ClusterState) -> Overview:
    """Return what the first page says of the state."""
    return Overview(
        [*made_once(state.nodes, _of_nodes), *_of_devices(state.devices)],
        len(state.nodes),
        sum(1 for node in state.nodes if not node["schedulable"]),
        [(name, count, links.gangs(state=name)) for name, count in made_once(state.gangs, counted_by_state)],
        [queue_row(queue) for queue in state.queues],
        [
            ChangeRow(
                one.at.isoformat(),
                f"{one.namespace}/{one.name}",
                links.gang(one.namespace, one.name, one.convention),
                one.before,
                one.after,
                one.reason,
            )
            for one in state.changes[:MOST_CHANGES]
        ],
    )


def queue_row(queue: Item) -> QueueRow:
    """Return the row of a queue."""
    namespace, _, head = queue["head"].partition("/")
    return QueueRow(
        queue["name"],
        links.queue(queue["name"]),
        queue["stop"],
        queue["waiting"],
        queue["running"],
        ", ".join(f"{name} {most:,}" for name, most in queue["limits"].items()),
        queue["head"],
        links.gang(namespace, head) if head else "",
        queue["expected_start"] or "",
        queue["oldest"] or "",
        "; ".join(queue["problems"]),
    )


def share(part: float, total: float) -> float:
    """Return a part of a whole, between 0 and 1."""
    return min(max(part / total, 0.0), 1.0) if total > 0 else 0.0


def used_of(name: str, used: float, total: float) -> str:
    """Return how much of a resource is used; cores have one unit on both sides."""
    if name == "cpu":
        return f"{round(used, 3):,.10g} of {round(total, 3):,.10g}"
    return f"{amount(name, used)} of {amount(name, total)}"


def _of_nodes(nodes: Sequence[Item]) -> list[Utilization]:
    sums = made_once(nodes, tree).sums
    total = sums["allocatable"]
    names = [name for name in FIRST if name in total]
    names += sorted(
        name for name in total if name not in (*FIRST, *LEFT_OUT) and not name.startswith("hugepages")
    )
    found = []
    for name in names:
        held, others = sums["held"].get(name, 0.0), sums["others"].get(name, 0.0)
        text = used_of(name, held + others, total[name])
        shares = share(held, total[name]), share(others, total[name])
        found.append(Utilization(name, *shares, text, links.NODES))
    return found


def _of_devices(devices: Sequence[Item]) -> list[Utilization]:
    sums: dict[str, list[int]] = {}
    for device in devices:
        one = sums.setdefault(device["type"], [0, 0])
        one[0] += device["held"]
        one[1] += device["total"]
    return [
        Utilization(kind, share(held, total), 0.0, f"{held} of {total}", links.devices(type=kind))
        for kind, (held, total) in sorted(sums.items())
    ]
