"""Random graphs, requests and calls of the whole matcher port."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle.tests.walker_graphs import jobspec

POLICIES = ("first", "firstnodex", "high", "low", "lonode", "hinode", "lonodex", "hinodex", "locality")
FILTERS = ("ALL:core,ALL:node", "ALL:core,ALL:memory,ALL:gpu", "ALL:core", "ALL:node,ALL:gpu")
OPERATIONS = (
    "allocate",
    "allocate",
    "allocate_with_satisfiability",
    "allocate_orelse_reserve",
    "satisfiability",
    "without_allocating",
    "without_allocating_future",
)
LEAVES = ("core", "memory", "gpu")


class Grown:
    """A graph in the making: a cluster, perhaps with racks and sockets, nodes and leaves."""

    def __init__(self, random: Random, *, ranked: bool = True) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.ranks = 0
        self._random = random
        self._ranked = ranked
        self._step = random.choice([1, 3])
        self._name = random.choice(["node", "node", "host-", "n0"])
        self._grow()

    @property
    def document(self) -> dict[str, Any]:
        return {"graph": {"nodes": self.nodes, "edges": self.edges}}

    def _grow(self) -> None:
        random = self._random
        root = self._add(None, "cluster", 0, -1)
        racks = random.choice([0, 0, 2])
        sockets = random.choice([0, 0, 2])
        leaves = {kind: random.randint(0 if kind == "gpu" else 1, 3) for kind in LEAVES}
        sizes = {"memory": random.choice([1, 4])}
        for rack in range(max(racks, 1)):
            holder = self._add(root, "rack", rack, -1) if racks else root
            for number in range(rack * 2, rack * 2 + random.randint(1, 3 if not racks else 2)):
                rank = self.ranks if self._ranked else -1
                self.ranks += 1
                marks = {
                    name: random.choice(["", "x"]) for name in ("big", "class=a") if random.random() < 0.4
                }
                node = self._add(holder, "node", number, rank, properties=marks)
                for socket in range(max(sockets, 1)):
                    below = self._add(node, "socket", socket, rank) if sockets else node
                    for kind, count in leaves.items():
                        for leaf in range(socket * count, (socket + 1) * count):
                            self._add(below, kind, leaf, rank, size=sizes.get(kind, 1))

    def _add(self, parent: int | None, kind: str, number: int, rank: int, **more: Any) -> int:
        index = len(self.nodes)
        name = f"{self._name}{number}" if kind == "node" else f"{kind}{number}"
        path = f"/{name}" if parent is None else f"{self.paths[parent]}/{name}"
        metadata = {
            "type": kind,
            "name": name,
            "id": number,
            "uniq_id": index * self._step,
            "rank": rank,
            **more,
        }
        self.nodes.append({"id": str(index), "metadata": {**metadata, "paths": {"containment": path}}})
        if parent is not None:
            self.edges.append({"source": str(parent), "target": str(index)})
        self.paths.append(path)
        return index


def random_jobspec(random: Random) -> dict[str, Any]:
    """Slots at some level, perhaps in nodes or racks taken whole."""
    leaves = random.sample(LEAVES, random.randint(1, 2))
    members: list[dict[str, Any]] = [{"type": leaf, "count": random.randint(1, 3)} for leaf in leaves]
    shape = random.random()
    if shape < 0.15:
        members = [{"type": "node", "count": 1, "with": members}]
    slot = {"type": "slot", "count": random.randint(1, 4), "label": "task", "with": members}
    resources = [slot]
    if 0.15 <= shape < 0.35:
        holder: dict[str, Any] = {"type": "node", "count": random.randint(1, 2), "with": [slot]}
        if random.random() < 0.5:
            holder["exclusive"] = True
        resources = [holder]
    elif 0.35 <= shape < 0.4:
        resources = [{"type": "node", "count": random.randint(1, 2), "exclusive": True}]
    elif 0.4 <= shape < 0.45:
        resources = [{"type": "rack", "count": 1, "exclusive": True}]
    constraints = random.choice(
        [None, None, None, {"properties": ["big"]}, {"not": [{"properties": ["big"]}]}]
    )
    spec = jobspec(resources, random.choice([0, 0, 10, 3600]), constraints)
    if random.random() < 0.3:
        spec["attributes"]["system"]["queue"] = random.choice(["batch", "debug"])
    return spec
