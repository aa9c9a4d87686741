"""``kubectl fluence graph``: the cluster as a tree, with bars of what gangs hold, other pods use and is free."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from fluence_extender.apps.kubectl.errors import NotFound, StateApiError, UsageError
from fluence_extender.apps.kubectl.figures import amount, bar
from fluence_extender.apps.kubectl.options import StateApiCommand, output_option
from fluence_extender.apps.kubectl.state_api import Item, StateApiClient
from fluence_extender.apps.kubectl.tables import print_document
from fluence_extender.apps.kubectl.terminal import DIM, GREEN, YELLOW, painted
from fluence_extender.model.notation import natural_order

MOST_NODES = 64
"""A larger cluster is shown without its nodes, only with the levels above them, unless --nodes is given."""

COUNTED = ("allocatable", "held", "others", "free")
_SHOWN = ("cpu", "memory")
_EVERYWHERE = {"cpu", "memory", "pods", "ephemeral-storage"}


@dataclass(slots=True)
class Branch:
    """The cluster, a level of the topology or a node; ``sums`` has amounts by resource for each of `COUNTED`."""

    kind: str
    name: str
    sums: dict[str, dict[str, float]] = field(default_factory=lambda: {part: {} for part in COUNTED})
    problems: Sequence[str] = ()
    children: list[Branch] = field(default_factory=list)
    nodes: int = 0

    def add(self, node: Item) -> None:
        """Count a node that is below this branch, or is this branch."""
        self.nodes += 1
        if not node["allocatable"]:
            # The node is gone. What its last pods still hold there must not reduce what other nodes have free.
            return
        for part in COUNTED:
            for name, value in node[part].items():
                self.sums[part][name] = self.sums[part].get(name, 0) + value

    def json(self) -> Item:
        """Return the branch as a value for programs."""
        return {
            "kind": self.kind,
            "name": self.name,
            **self.sums,
            "problems": list(self.problems),
            "children": [child.json() for child in self.children],
        }


@click.command(cls=StateApiCommand)
@output_option("json", "yaml", "wide")
@click.option("--nodes", "all_nodes", is_flag=True, help="Every node, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="The tree as JSON.")
@click.option("--jgf", is_flag=True, help="The resource graph in JSON Graph Format, as the matcher sees it.")
@click.option("--dot", is_flag=True, help="The tree for Graphviz.")
@click.pass_obj
def graph(
    client: StateApiClient, output: str | None, all_nodes: bool, as_json: bool, jgf: bool, dot: bool
) -> None:
    """Show the cluster as a tree: topology, nodes, virtual devices.

    Bars show what is held by gangs (#), used by other pods (+) and free (.).
    """
    forms = [name for name, given in (("--json", as_json), ("--jgf", jgf), ("--dot", dot)) if given]
    if len(forms) > 1:
        raise UsageError(f"{forms[0]} and {forms[1]} can't be given together; choose one")
    if jgf:
        _print_jgf(client)
        return
    root = tree(client.items("/v1/nodes"))
    devices = client.items("/v1/backends")
    if as_json or output in ("json", "yaml"):
        print_document({"cluster": root.json(), "backends": devices}, output or "json")
    elif dot:
        print("\n".join(_dot(root, devices)))
    else:
        for line in drawn(root, devices, all_nodes or output == "wide"):
            print(line)


def tree(nodes: Sequence[Item]) -> Branch:
    """Return the cluster with its levels and its nodes."""
    root = Branch("cluster", "cluster")
    for node in sorted(nodes, key=lambda node: natural_order(node["name"])):
        here = root
        here.add(node)
        for kind, name in node["levels"].items():
            here = _below(here, kind, name)
            here.add(node)
        leaf = Branch("node", node["name"], problems=node["problems"])
        leaf.add(node)
        here.children.append(leaf)
    return root


def drawn(root: Branch, devices: Sequence[Item], all_nodes: bool = False) -> Iterator[str]:
    """Yield the lines of the tree."""
    whole = all_nodes or root.nodes <= MOST_NODES
    rows = list(_rows(root, "", "", whole)) + list(_device_rows(devices))
    width = max(len(label) for label, _ in rows)
    for label, rest in rows:
        yield f"{label.ljust(width)}  {rest}".rstrip()
    yield painted("# held by gangs   + used by other pods   . free", DIM, sys.stdout)


def _rows(branch: Branch, first: str, after: str, whole: bool) -> Iterator[tuple[str, str]]:
    label = branch.name if branch.kind in ("cluster", "node") else f"{branch.kind} {branch.name}"
    yield first + label, _bars(branch)
    children = branch.children if whole else [child for child in branch.children if child.kind != "node"]
    hidden = len(branch.children) - len(children)
    for number, child in enumerate(children, start=1):
        last = number == len(children) and not hidden
        yield from _rows(child, after + ("└─ " if last else "├─ "), after + ("   " if last else "│  "), whole)
    if hidden:
        yield f"{after}└─ {hidden} nodes", "--nodes shows them"


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


def _device_rows(devices: Sequence[Item]) -> Iterator[tuple[str, str]]:
    if devices:
        yield "backends", ""
    depths = [one["path"].count("/") - _depth_of(one["backend"], devices) for one in devices]
    for number, device in enumerate(devices):
        depth = depths[number]
        lines = "".join(
            "│  " if _has_sibling(depths[number + 1 :], level) else "   " for level in range(depth)
        )
        branch = "├─ " if _has_sibling(depths[number + 1 :], depth) else "└─ "
        label = f"{lines}{branch}{device['name']} ({device['type']})"
        held = (
            f"[{'#' * round(10 * device['held'] / device['total']):.<10}]"
            if device["total"]
            else "[          ]"
        )
        text = f"{_colored(held)} {device['held']}/{device['total']}"
        where = f"on {device['node']}" if device["node"] else ""
        yield label, "  ".join(part for part in (text, where, "; ".join(device["problems"])) if part)


def _has_sibling(below: Sequence[int], depth: int) -> bool:
    """Return whether the branch has another entry at ``depth``; ``below`` are the depths of the lines below."""
    return next((one == depth for one in below if one <= depth), False)


def _depth_of(backend: str, devices: Sequence[Item]) -> int:
    """Return the depth of the backend's uppermost device."""
    return min(str(one["path"]).count("/") for one in devices if one["backend"] == backend)


def _dot(root: Branch, devices: Sequence[Item]) -> Iterator[str]:
    yield "digraph cluster {"
    yield "  node [shape=box];"
    yield from _dot_branch(root, "/cluster", None)
    for device in devices:
        above = device["path"].rpartition("/")[0]
        label = f"{device['name']}\\n{device['held']}/{device['total']} {device['type']}"
        yield f"  {json.dumps(device['path'])} [label={_quoted(label)}, style=rounded];"
        parent = above if any(one["path"] == above for one in devices) else _parent_of_top_level(device)
        yield f"  {json.dumps(parent)} -> {json.dumps(device['path'])};"
    yield "}"


def _parent_of_top_level(device: Item) -> str:
    return f"node/{device['node']}" if device["node"] else "/cluster"


def _dot_branch(branch: Branch, path: str, parent: str | None) -> Iterator[str]:
    have, free = branch.sums["allocatable"].get("cpu", 0), branch.sums["free"].get("cpu", 0)
    label = f"{branch.kind} {branch.name}\\ncpu {amount('cpu', have - free)}/{amount('cpu', have)}"
    yield f"  {json.dumps(path)} [label={_quoted(label)}];"
    if parent is not None:
        yield f"  {json.dumps(parent)} -> {json.dumps(path)};"
    for child in branch.children:
        below = f"node/{child.name}" if child.kind == "node" else f"{path}/{child.kind}={child.name}"
        yield from _dot_branch(child, below, path)


def _quoted(label: str) -> str:
    return '"' + label.replace('"', '\\"') + '"'


def _print_jgf(client: StateApiClient) -> None:
    try:
        sys.stdout.write(client.text("/v1/graph").decode() + "\n")
    except NotFound:
        raise StateApiError("the service has no /v1/graph; update it") from None


def _below(branch: Branch, kind: str, name: str) -> Branch:
    for child in branch.children:
        if (child.kind, child.name) == (kind, name):
            return child
    branch.children.append(Branch(kind, name))
    return branch.children[-1]
