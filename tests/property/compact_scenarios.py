"""Random compact graphs, random calls on them, and answers in a form that can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from fluence_extender.matcher import Jgf, MatchOp

LEAVES = ("core", "memory", "gpu", "qubit")


@dataclass
class Cluster:
    """A compact document in the making; the numbers of its vertices never repeat."""

    random: Random
    nodes: list[Jgf] = field(default_factory=list)
    edges: list[Jgf] = field(default_factory=list)
    by_path: dict[str, Jgf] = field(default_factory=dict)
    levels: list[str] = field(default_factory=list)
    physical: list[str] = field(default_factory=list)
    virtual: list[str] = field(default_factory=list)
    uniq: int = 0
    rank: int = 0
    ranks: int = 0

    def vertex(self, parent: str | None, kind: str, name: str, number: int, **metadata: Any) -> str:
        path = f"{parent or ''}/{name}"
        count = metadata.get("count", 1)
        entry = {
            "id": str(self.uniq),
            "metadata": {
                "type": kind,
                "basename": kind,
                "name": name,
                "id": number,
                "uniq_id": self.uniq,
                "rank": -1,
                "paths": {"containment": path},
                **metadata,
            },
        }
        self.uniq += count + self.random.choice([0, 0, 3])
        self.nodes.append(entry)
        self.by_path[path] = entry
        if parent is not None:
            self.edges.append({"source": self.by_path[parent]["id"], "target": entry["id"]})
        return path

    def leaves(self, parent: str, kind: str, count: int, rank: int) -> None:
        if count:
            first = self.random.choice([0, 0, 0, 4])
            extra = {"count": count} if count > 1 or self.random.random() < 0.5 else {}
            self.vertex(parent, kind, f"{kind}{first}", first, rank=rank, **extra)

    def node(self, parent: str, ids: str) -> str:
        rank = self.rank
        self.rank += 1
        number = rank if ids == "unique" else self.random.randrange(3)
        properties = {"virtual=false": ""}
        properties |= {key: "" for key in ("big", "zone=a") if self.random.random() < 0.4}
        path = self.vertex(parent, "node", f"host{rank}", number, rank=rank, properties=properties)
        for kind, most in (("core", 6), ("memory", 6), ("gpu", 2)):
            self.leaves(path, kind, self.random.randint(kind == "core", most), rank)
        self.physical.append(path)
        return path

    def device(self, parent: str) -> str:
        rank = self.rank
        self.rank += 1
        properties = {"virtual=true": "", **({"vendor=x": ""} if self.random.random() < 0.5 else {})}
        path = self.vertex(parent, "node", f"qpu{rank}", rank, rank=rank, properties=properties)
        self.leaves(path, "qubit", self.random.randint(1, 5), rank)
        self.virtual.append(path)
        return path

    def document(self) -> Jgf:
        return {"graph": {"nodes": list(self.nodes), "edges": list(self.edges)}}

    def branch(self, before: int, path: str) -> Jgf:
        """The entries from ``before`` on, with the path from the root down to ``path``."""
        above: list[Jgf] = []
        while path.count("/") > 1:
            path = path.rpartition("/")[0]
            above.append(self.by_path[path])
        new = self.nodes[before:]
        ids = {entry["id"] for entry in (*above, *new)}
        edges = [edge for edge in self.edges if edge["source"] in ids and edge["target"] in ids]
        return {"graph": {"nodes": above[::-1] + new, "edges": edges}}


def random_cluster(random: Random, *, nested_devices: bool, many: bool) -> Cluster:
    cluster = Cluster(random)
    cluster.uniq = random.choice([0, 0, 9_985])
    root = cluster.vertex(None, "cluster", "cluster0", 0)
    cluster.levels = [root]
    shape = random.choice(["flat", "flat", "rack", "zone"])
    if shape == "zone":
        cluster.levels.append(cluster.vertex(root, "zone", "zone0", 0))
    if shape != "flat":
        zone = cluster.levels[-1]
        cluster.levels += [cluster.vertex(zone, "rack", f"rack{number}", number) for number in range(2)]
    ids = random.choice(["unique", "unique", "repeated"])
    places = cluster.levels[-2:] if shape != "flat" else [root]
    if shape != "flat" and random.random() < 0.3:
        places = [*places, root]
    for place in places:
        cluster.node(place, ids)
    for _ in range(random.choice([20, 40]) if many else random.randint(0, 5)):
        cluster.node(random.choice(places), ids)
    for _ in range(random.choice([0, 0, 1, 2])):
        cluster.device(random.choice([root, *cluster.physical]) if nested_devices else root)
    return cluster


def random_count(random: Random, most: int) -> Any:
    if random.random() < 0.8:
        return random.randint(1, most)
    low = random.randint(1, 3)
    return random.choice(
        [
            {"min": low},
            {"min": low, "max": low + random.randint(0, 4), "operator": "+", "operand": random.randint(1, 2)},
            {"min": low, "max": 12, "operator": "*", "operand": 2},
        ]
    )


def random_constraint(random: Random, cluster: Cluster, depth: int = 0) -> Jgf:
    kind = random.choice(["ranks", "ranks", "properties", "hostlist", "and", "or", "not"])
    if kind in ("and", "or", "not") and depth < 2:
        parts = [random_constraint(random, cluster, depth + 1) for _ in range(random.randint(1, 2))]
        return {kind: parts}
    if kind == "properties":
        return {"properties": random.sample(["big", "zone=a", "^big", "virtual=false", "vendor=x"], 1)}
    if kind == "hostlist":
        return {
            "hostlist": [f"host{random.randrange(6)}", f"host[0-{random.randint(1, 4)}]"][
                : random.randint(1, 2)
            ]
        }
    rank = random.randrange(max(cluster.rank, 1))
    return {"ranks": [random.choice([str(rank), f"{rank}-{rank + 2}"])]}


def random_jobspec(random: Random, cluster: Cluster) -> Jgf:
    kind = random.choice(["slots"] * 6 + ["nodes", "nodes", "whole", "whole", "device", "device"])
    leaves = [
        {"type": name, "count": random_count(random, 3 if name != "gpu" else 1)}
        for name in random.sample(["core", "memory", "gpu"], random.choice([1, 1, 2, 3]))
    ]
    slot: Jgf = {"type": "slot", "label": "default", "count": random_count(random, 8), "with": leaves}
    constraint = random_constraint(random, cluster) if random.random() < 0.35 else None
    if kind == "nodes":
        node: Jgf = {"type": "node", "count": random_count(random, 3), "with": [slot]}
        slot["count"] = random_count(random, 3)
        if random.random() < 0.25:
            node["exclusive"] = True
        slot = node
    elif kind == "whole":
        node = {"type": "node", "count": 1, "with": leaves}
        if random.random() < 0.25:
            node["exclusive"] = True
        if random.random() < 0.25:
            node.pop("with")
            constraint = {"and": [{"properties": ["virtual=false"]}, constraint or {}]}
        slot |= {"count": random_count(random, 3), "with": [node]}
    elif kind == "device":
        below = {"type": "qubit", "count": random.randint(1, 4)}
        wrapped = {"type": "node", "count": 1, "with": [below]}
        slot |= {"count": random.randint(1, 2), "with": [random.choice([below, wrapped])]}
    system: Jgf = {"duration": random.choice([0, 0, 10, 20, 50])}
    if constraint is not None:
        system["constraints"] = constraint
    return {
        "version": 9999,
        "resources": [slot],
        "attributes": {"system": system},
        "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
    }


def random_op(random: Random) -> MatchOp:
    return random.choice([MatchOp.ALLOCATE] * 5 + list(MatchOp))


def units(resources: Jgf) -> dict[str, frozenset[int]]:
    """Holder path -> the uniq_ids of what is listed right below it, counts written out, of a JGF R."""
    found: dict[str, set[int]] = {}
    for entry in resources["graph"]["nodes"]:
        metadata = entry["metadata"]
        path = metadata["paths"]["containment"]
        if metadata["type"] in LEAVES:
            first = int(entry["id"])
            listed = range(first, first + metadata.get("count", 1))
            found.setdefault(path.rpartition("/")[0], set()).update(listed)
        else:
            held = {-1} if metadata.get("exclusive") else set()
            found.setdefault(path, set()).update(held)
    return {path: frozenset(ids) for path, ids in found.items()}
