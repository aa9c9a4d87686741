"""``kubectl fluence graph``: the cluster as a tree, with bars of what gangs hold, other pods use and is free."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.figures import amount, bar
from fluence_extender.apps.kubectl.options import StateApiCommand, output_option
from fluence_extender.apps.kubectl.tables import print_document
from fluence_extender.apps.kubectl.terminal import DIM, GREEN, YELLOW, painted
from fluence_extender.model.notation import natural_order

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient

MOST_NODES = 64
"""A larger cluster is shown without its nodes, only with the levels above them, unless --nodes is given."""

COUNTED = ("allocatable", "held", "others", "free")
_SHOWN = ("cpu", "memory")
_EVERYWHERE = {"cpu", "memory", "pods", "ephemeral-storage"}


@dataclass(slots=True)
class Branch:
    """The cluster, a level of the topology or a node; ``sums`` has amounts by resource for each of `COUNTED`.

    ``devices`` are those that drivers publish for a node, each with what it is.
    """

    kind: str
    name: str
    sums: dict[str, dict[str, float]] = field(default_factory=lambda: {part: {} for part in COUNTED})
    problems: Sequence[str] = ()
    children: list[Branch] = field(default_factory=list)
    nodes: int = 0
    devices: dict[str, str] = field(default_factory=dict)

    def add_up(self) -> None:
        """Count what is below this branch, from the nodes upwards, so that each amount is added once a level."""
        for child in self.children:
            if child.kind != "node":
                child.add_up()
            self.nodes += child.nodes
            for part, total in self.sums.items():
                for name, value in child.sums[part].items():
                    total[name] = total.get(name, 0) + value

    def json(self) -> Item:
        """Return the branch as a value for programs."""
        return {
            "kind": self.kind,
            "name": self.name,
            **self.sums,
            "problems": list(self.problems),
            "devices": self.devices,
            "children": [child.json() for child in self.children],
        }


@click.command(cls=StateApiCommand)
@output_option("json", "yaml", "wide")
@click.option("--nodes", "all_nodes", is_flag=True, help="Every node, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="The tree as JSON.")
@click.option("--jgf", is_flag=True, help="The resource graph in JSON Graph Format, in whole cores and GiB.")
@click.pass_obj
def graph(client: StateApiClient, output: str | None, all_nodes: bool, as_json: bool, jgf: bool) -> None:
    """Show the cluster as a tree: topology, nodes, virtual devices.

    Bars show what is held by gangs (#), used by other pods (+) and free (.).
    """
    if as_json and jgf:
        raise UsageError("--json and --jgf can't be given together; choose one")
    if jgf:
        sys.stdout.write(client.text("/v1/graph").decode() + "\n")
        return
    root = tree(client.items("/v1/nodes"))
    devices = client.items("/v1/backends")
    if as_json or output in ("json", "yaml"):
        print_document({"cluster": root.json(), "backends": devices}, output or "json")
    else:
        for line in drawn(root, devices, all_nodes or output == "wide", output == "wide"):
            print(line)


def tree(nodes: Sequence[Item]) -> Branch:
    """Return the cluster with its levels and its nodes."""
    root = Branch("cluster", "cluster")
    for node in sorted(nodes, key=lambda node: natural_order(node["name"])):
        branch = root
        for kind, name in node["levels"].items():
            branch = _below(branch, kind, name)
        leaf = Branch(
            "node", node["name"], problems=node["problems"], nodes=1, devices=node.get("devices", {})
        )
        # A node that is gone has nothing. What its last pods still hold there must not reduce what others have free.
        if node["allocatable"]:
            leaf.sums = {part: node[part] for part in COUNTED}
        branch.children.append(leaf)
    root.add_up()
    return root


def drawn(
    root: Branch, devices: Sequence[Item], all_nodes: bool = False, named: bool = False
) -> Iterator[str]:
    """Yield the lines of the tree; devices of nodes are in it by name if ``named``."""
    rows = list(_rows(_outline(root, all_nodes or root.nodes <= MOST_NODES, named)))
    if devices:
        rows += _rows(_device_outline(devices))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        yield f"{label.ljust(width)}  {text}".rstrip()
    yield painted("# held by gangs   + used by other pods   . free", DIM, sys.stdout)


@dataclass(slots=True)
class _Outline:
    """A line of the drawing, and the lines that branch off from it."""

    label: str
    text: str = ""
    children: list[_Outline] = field(default_factory=list)


def _rows(outline: _Outline, first: str = "", after: str = "") -> Iterator[tuple[str, str]]:
    """Yield label and text of each line; ``first`` is in front of this line, ``after`` of those below."""
    yield first + outline.label, outline.text
    for child in outline.children[:-1]:
        yield from _rows(child, f"{after}├─ ", f"{after}│  ")
    for child in outline.children[-1:]:
        yield from _rows(child, f"{after}└─ ", f"{after}   ")


def _outline(branch: Branch, with_nodes: bool, named: bool) -> _Outline:
    label = branch.name if branch.kind in ("cluster", "node") else f"{branch.kind} {branch.name}"
    shown = [child for child in branch.children if with_nodes or child.kind != "node"]
    outline = _Outline(label, _bars(branch), [_outline(child, with_nodes, named) for child in shown])
    if named:
        outline.children += [_Outline(name, state) for name, state in branch.devices.items()]
    hidden = len(branch.children) - len(shown)
    if hidden:
        outline.children.append(_Outline(f"{hidden} nodes", "--nodes shows them"))
    return outline


def _device_outline(devices: Sequence[Item]) -> _Outline:
    root = _Outline("backends")
    outlines: dict[str, _Outline] = {}
    for device in devices:
        outline = outlines[device["path"]] = _Outline(f"{device['name']} ({device['type']})", _use(device))
        outlines.get(_parent(device, outlines), root).children.append(outline)
    return root


def _parent(device: Item, paths: Container[str]) -> str:
    """Return the path of the nearest device above that is among ``paths``, empty if there is none."""
    path = str(device["path"]).rpartition("/")[0]
    while path and path not in paths:
        path = path.rpartition("/")[0]
    return path


def _use(device: Item) -> str:
    text = f"{_colored(bar(device['total'], device['held'], 0, 10))} {device['held']}/{device['total']}"
    where = f"on {device['node']}" if device["node"] else ""
    return "  ".join(part for part in (text, where, "; ".join(device["problems"])) if part)


def _bars(branch: Branch) -> str:
    sums = branch.sums
    names = [name for name in _SHOWN if name in sums["allocatable"]]
    names += sorted(
        name for name in sums["allocatable"] if name not in _EVERYWHERE and "hugepages" not in name
    )
    parts = []
    for name in names:
        total = sums["allocatable"][name]
        held, others = sums["held"].get(name, 0), sums["others"].get(name, 0)
        text = f"{amount(name, held + others)}/{amount(name, total)}"
        parts.append(f"{name.rpartition('/')[2]} {_colored(bar(total, held, others, 10))} {text:<11}")
    return "  ".join((*parts, "; ".join(branch.problems))).rstrip()


def _colored(text: str) -> str:
    ours, theirs = text.count("#"), text.count("+")
    return (
        "["
        + painted("#" * ours, GREEN, sys.stdout)
        + painted("+" * theirs, YELLOW, sys.stdout)
        + text[1 + ours + theirs :]
    )


def _below(branch: Branch, kind: str, name: str) -> Branch:
    for child in branch.children:
        if (child.kind, child.name) == (kind, name):
            return child
    branch.children.append(Branch(kind, name))
    return branch.children[-1]
