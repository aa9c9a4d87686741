"""``kubectl fluence graph``: the cluster as a tree, with bars of what is held by us, used by others and free."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.figures import amount, bar
from fluence_extender.apps.kubectl.question import Question, read_question
from fluence_extender.apps.kubectl.service import Item, NotThere, Service
from fluence_extender.apps.kubectl.tables import document
from fluence_extender.apps.kubectl.terminal import DIM, GREEN, YELLOW, painted

MOST_NODES = 64
"""So many nodes are shown one by one; of more only the levels above them, unless --nodes is given."""

COUNTED = ("allocatable", "held", "others", "free")
_FORMS = ("json", "jgf", "dot")
_SHOWN = ("cpu", "memory")
_EVERYWHERE = {"cpu", "memory", "pods", "ephemeral-storage"}


@dataclass(slots=True)
class Branch:
    """A level of the topology or a node; ``sums`` are amounts by resource of each of `COUNTED`."""

    kind: str
    name: str
    sums: dict[str, dict[str, float]] = field(default_factory=lambda: {part: {} for part in COUNTED})
    problems: Sequence[str] = ()
    children: list[Branch] = field(default_factory=list)
    nodes: int = 0

    def add(self, node: Item) -> None:
        """Count a node that is below, or that this is."""
        self.nodes += 1
        if not node["allocatable"]:
            # It is gone: what its last pods still hold there isn't taken from what the others have.
            return
        for part in COUNTED:
            for name, value in node[part].items():
                self.sums[part][name] = self.sums[part].get(name, 0) + value

    def json(self) -> Item:
        """As a value for programs."""
        return {
            "kind": self.kind,
            "name": self.name,
            **self.sums,
            "problems": list(self.problems),
            "children": [child.json() for child in self.children],
        }


def graph(words: Sequence[str]) -> int:
    """``kubectl fluence graph``."""
    question = read_question("graph", words, ("json", "yaml", "wide"), own=(*_FORMS, "nodes"))
    if question is None:
        return 0
    forms = [form for form in _FORMS if form in question.switches]
    if len(forms) > 1:
        raise UsageError(f"--{forms[0]} and --{forms[1]} can't be given together; choose one")
    service = Service(question)
    if forms == ["jgf"]:
        return _jgf(service)
    root = tree(service.items("/v1/nodes"))
    devices = service.items("/v1/backends")
    if forms == ["json"] or question.output in ("json", "yaml"):
        document({"cluster": root.json(), "backends": devices}, question.output or "json")
    elif forms == ["dot"]:
        print("\n".join(_dot(root, devices)))
    else:
        for line in drawn(root, devices, question):
            print(line)
    return 0


def tree(nodes: Sequence[Item]) -> Branch:
    """The cluster, its levels and its nodes."""
    root = Branch("cluster", "cluster")
    for node in sorted(nodes, key=lambda one: _natural(one["name"])):
        here = root
        here.add(node)
        for kind, name in node["levels"].items():
            here = _below(here, kind, name)
            here.add(node)
        leaf = Branch("node", node["name"], problems=node["problems"])
        leaf.add(node)
        here.children.append(leaf)
    return root


def drawn(root: Branch, devices: Sequence[Item], question: Question) -> Iterator[str]:
    """The tree as lines."""
    whole = question.wide or "nodes" in question.switches or root.nodes <= MOST_NODES
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
        whole = sums["allocatable"][name]
        held, others = sums["held"].get(name, 0), sums["others"].get(name, 0)
        text = f"{amount(name, held + others)}/{amount(name, whole)}"
        parts.append(f"{name.rpartition('/')[2]} {_coloured(bar(whole, held, others, 10))} {text:<11}")
    return "  ".join((*parts, "; ".join(branch.problems))).rstrip()


def _coloured(text: str) -> str:
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
        lines = "".join("│  " if _goes_on(depths[number + 1 :], level) else "   " for level in range(depth))
        branch = "├─ " if _goes_on(depths[number + 1 :], depth) else "└─ "
        label = f"{lines}{branch}{device['name']} ({device['type']})"
        held = (
            f"[{'#' * round(10 * device['held'] / device['total']):.<10}]"
            if device["total"]
            else "[          ]"
        )
        text = f"{_coloured(held)} {device['held']}/{device['total']}"
        where = f"on {device['node']}" if device["node"] else ""
        yield label, "  ".join(part for part in (text, where, "; ".join(device["problems"])) if part)


def _goes_on(below: Sequence[int], depth: int) -> bool:
    """Whether there is another at ``depth`` before the branch ends; ``below`` are the depths of the lines below."""
    return next((one == depth for one in below if one <= depth), False)


def _depth_of(backend: str, devices: Sequence[Item]) -> int:
    return min(str(one["path"]).count("/") for one in devices if one["backend"] == backend)


def _dot(root: Branch, devices: Sequence[Item]) -> Iterator[str]:
    yield "digraph cluster {"
    yield "  node [shape=box];"
    yield from _dot_branch(root, "/cluster", None)
    for device in devices:
        above = device["path"].rpartition("/")[0]
        label = f"{device['name']}\\n{device['held']}/{device['total']} {device['type']}"
        yield f"  {json.dumps(device['path'])} [label={_quoted(label)}, style=rounded];"
        parent = above if any(one["path"] == above for one in devices) else _hook(device)
        yield f"  {json.dumps(parent)} -> {json.dumps(device['path'])};"
    yield "}"


def _hook(device: Item) -> str:
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


def _jgf(service: Service) -> int:
    try:
        sys.stdout.write(service.text("/v1/graph").decode() + "\n")
    except NotThere:
        raise UsageError("the service has no /v1/graph; update it") from None
    return 0


def _below(branch: Branch, kind: str, name: str) -> Branch:
    for child in branch.children:
        if (child.kind, child.name) == (kind, name):
            return child
    branch.children.append(Branch(kind, name))
    return branch.children[-1]


def _natural(name: str) -> list[tuple[int, int, str]]:
    from fluence_extender.model.notation import natural_order

    return natural_order(name)
