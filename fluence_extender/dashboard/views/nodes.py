"""The nodes: a map by zone and rack, and a table. The page of a node lists its pods, and why it takes no new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.apps.kubectl.figures import amounts
from fluence_extender.apps.kubectl.graph import Branch, tree
from fluence_extender.dashboard.listing import made_once
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Cut, Filters, cut
from fluence_extender.dashboard.views.overview import Utilization, share, used_of
from fluence_extender.model.notation import natural_order

MOST_TILES = 600
"""A larger cluster is drawn as its places (zones, racks) instead of its nodes."""

FULL = 0.999
STEPS = 5
"""Colors of the map, from empty to full."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A node on the map, or a place with its nodes. ``step`` is its color, from 0 to `STEPS`; -1 if it is closed."""

    name: str
    link: str
    step: int
    percent: str
    title: str


@dataclass(frozen=True, slots=True)
class MapPlace:
    """A place of the topology with what is directly in it, and the way to it."""

    name: str
    link: str
    depth: int
    nodes: int
    percent: str
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node in the table."""

    name: str
    link: str
    place: str
    cpu: Utilization
    memory: Utilization
    more: str
    gangs: int
    problems: str
    command: str


@dataclass(frozen=True, slots=True)
class NodesView:
    """The page of the nodes; ``within`` is the way to the place that is shown, from the outside in."""

    places: Sequence[MapPlace]
    rows: Cut[NodeLine]
    within: Sequence[tuple[str, str]]
    command: str


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod that uses a node."""

    namespace: str
    pod: str
    gang: str
    link: str
    user: str
    claim: str
    requests: str
    command: str


@dataclass(frozen=True, slots=True)
class NodeStory:
    """All that is known of one node."""

    name: str
    place: str
    open: bool
    why_closed: Sequence[str]
    use: Sequence[Utilization]
    pods: Sequence[NodePod]
    hidden: int
    command: str


def nodes_view(state: ClusterState, filters: Filters) -> NodesView:
    """Return the map and the table of the nodes that the filters let through."""
    within = [part for part in filters["in"].split("/") if part]
    nodes = made_once(state.nodes, _in_order)
    filtered = filters.asks("in", "show", "text")
    kept = [node for node in nodes if _within(node, within) and _passes(node, filters)] if filtered else nodes
    whole = tree(kept) if filtered else made_once(state.nodes, tree)
    gangs = made_once(state.gangs, _gangs_by_node)
    way = [
        (part, filters.address(links.NODES, **{"in": "/".join(within[: number + 1]), "page": ""}))
        for number, part in enumerate(within)
    ]
    return NodesView(
        list(_places(whole, (), filters, len(kept) <= MOST_TILES)),
        cut(kept, lambda node: _row(node, gangs), filters.page),
        way,
        commands.nodes(),
    )


def node_story(node: Item, reservations: Sequence[Item]) -> NodeStory:
    """Return what is known of a node."""
    names = sorted(node["allocatable"], key=lambda name: (name not in ("cpu", "memory"), name))
    return NodeStory(
        node["name"],
        _place(node),
        node["schedulable"],
        list(_obstacles(node, reservations)),
        [_use(node, name) for name in names],
        [_pod(one) for one in node["pods"]],
        node["hidden"],
        commands.node(node["name"]),
    )


def used_share(have: Mapping[str, float], free: Mapping[str, float]) -> float:
    """Return the share of the resource that is used most, by gangs or others, between 0 and 1."""
    return max(
        (share(have[name] - free.get(name, 0), have[name]) for name in have if name != "pods"), default=0.0
    )


def step_of(used: float) -> int:
    """Return the color of a share: 0 for nothing used, `STEPS` for full."""
    if used >= FULL:
        return STEPS
    return min(int(used * (STEPS - 1)) + 1, STEPS - 1) if used > 0 else 0


def _places(branch: Branch, way: tuple[str, ...], filters: Filters, with_nodes: bool) -> Iterator[MapPlace]:
    """Yield ``branch`` and the places below it from the outside in, each with its tiles."""
    leaves = [child for child in branch.children if child.kind == "node"]
    places = [child for child in branch.children if child.kind != "node"]
    used = _branch_share(branch)
    tiles = [_node_tile(leaf) for leaf in leaves] if with_nodes else []
    if not with_nodes and all(grand.kind == "node" for child in places for grand in child.children):
        tiles = [_place_tile(child, (*way, child.name), filters) for child in places]
        places = []
    name = "cluster" if not way else f"{branch.kind} {branch.name}"
    address = filters.address(links.NODES, **{"in": "/".join(way), "page": ""})
    yield MapPlace(name, address, len(way), branch.nodes, f"{used:.0%}", tiles)
    for place in places:
        yield from _places(place, (*way, place.name), filters, with_nodes)


def _node_tile(leaf: Branch) -> Tile:
    used = _branch_share(leaf)
    problems = "; ".join(leaf.problems)
    title = f"{leaf.name}: {used:.0%} used" + (f", {problems}" if problems else "")
    return Tile(leaf.name, links.node(leaf.name), -1 if problems else step_of(used), f"{used:.0%}", title)


def _place_tile(place: Branch, way: tuple[str, ...], filters: Filters) -> Tile:
    used = _branch_share(place)
    title = f"{place.kind} {place.name}: {place.nodes} nodes, {used:.0%} used"
    address = filters.address(links.NODES, **{"in": "/".join(way), "page": ""})
    return Tile(place.name, address, step_of(used), f"{used:.0%}", title)


def _branch_share(branch: Branch) -> float:
    return used_share(branch.sums["allocatable"], branch.sums["free"])


def _row(node: Mapping[str, object] | Item, gangs: Mapping[str, int]) -> NodeLine:
    one: Item = dict(node)
    further = [
        name for name in one["allocatable"] if name not in ("cpu", "memory", "pods", "ephemeral-storage")
    ]
    return NodeLine(
        one["name"],
        links.node(one["name"]),
        _place(one),
        _use(one, "cpu"),
        _use(one, "memory"),
        ", ".join(f"{name.rpartition('/')[2]} {_use(one, name).text}" for name in sorted(further)),
        gangs.get(one["name"], 0),
        "; ".join(one["problems"]),
        commands.node(one["name"]),
    )


def _use(node: Item, name: str) -> Utilization:
    total = node["allocatable"].get(name, 0)
    held, others = node["held"].get(name, 0), node["others"].get(name, 0)
    text = used_of(name, held + others, total) if total else "-"
    return Utilization(name, share(held, total), share(others, total), text, "")


def _obstacles(node: Item, reservations: Sequence[Item]) -> Iterator[str]:
    """Yield why nothing new lands on a node."""
    yield from node["problems"]
    for name in ("cpu", "memory"):
        if node["allocatable"].get(name) and node["free"].get(name, 0) <= 0:
            yield f"no {name} is free"
    for one in reservations:
        if node["name"] in one["nodes"]:
            owner = (
                f"gang {one['namespace']}/{one['name']}"
                if one["kind"] == "gang"
                else f"Reservation {one['name']}"
            )
            yield f"kept free for {owner}"


def _pod(one: Item) -> NodePod:
    return NodePod(
        one["namespace"],
        one["pod"],
        one["gang"],
        links.gang(one["namespace"], one["gang"]) if one["gang"] else "",
        one["user"],
        one["claim"],
        amounts(one["requests"], "pods"),
        commands.pod(one["namespace"], one["pod"]),
    )


def _in_order(nodes: Sequence[Item]) -> list[Item]:
    return sorted(nodes, key=lambda node: natural_order(node["name"]))


def _gangs_by_node(gangs: Sequence[Item]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for gang in gangs:
        if gang["state"] in ("planned", "committed", "bound"):
            for name in {member["node"] for member in gang["members"] if member["node"]}:
                counts[name] = counts.get(name, 0) + 1
    return counts


def _place(node: Item) -> str:
    return " / ".join(f"{kind} {name}" for kind, name in node["levels"].items())


def _within(node: Item, within: Sequence[str]) -> bool:
    return list(node["levels"].values())[: len(within)] == list(within)


def _passes(node: Item, filters: Filters) -> bool:
    match filters["show"]:
        case "open" if not node["schedulable"]:
            return False
        case "closed" if node["schedulable"]:
            return False
        case "free" if used_share(node["allocatable"], node["free"]) >= FULL:
            return False
    # Most often no text is asked for, and none is collected.
    return not filters["text"] or filters.finds(node["name"], *node["levels"].values(), *node["problems"])
