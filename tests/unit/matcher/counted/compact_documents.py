"""Compact documents for tests: nodes of millicores and KiB, and devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluence_extender.matcher import Jgf

CORES = 32_000
MEMORY = 128 * 2**20
"""In KiB."""

QUBITS = 156


class Document:
    """A compact document that grows by nodes and devices."""

    def __init__(self) -> None:
        self.nodes: list[Jgf] = []
        self.edges: list[Jgf] = []
        self.uniq_id = 0
        self.rank = 0
        self.vertex(None, "cluster", "cluster", 0, -1)

    def vertex(self, parent: Jgf | None, kind: str, name: str, number: int, rank: int, **more: Any) -> Jgf:
        above = "" if parent is None else parent["metadata"]["paths"]["containment"]
        metadata = {
            "type": kind,
            "basename": kind,
            "name": name,
            "id": number,
            "uniq_id": self.uniq_id,
            "rank": rank,
        }
        entry = {
            "id": str(self.uniq_id),
            "metadata": {**metadata, "paths": {"containment": f"{above}/{name}"}, **more},
        }
        self.uniq_id += more.get("count", 1)
        self.nodes.append(entry)
        if parent is not None:
            self.edges.append({"source": parent["id"], "target": entry["id"]})
        return entry

    def node(self, name: str, *, virtual: bool = False, above: Jgf | None = None, **leaves: int) -> Jgf:
        return self.node_with(leaves, name, virtual, above)

    def node_with(
        self, leaves: Mapping[str, int], name: str, virtual: bool = False, above: Jgf | None = None
    ) -> Jgf:
        rank = self.rank
        self.rank += 1
        properties = {"virtual=true" if virtual else "virtual=false": ""}
        node = self.vertex(above or self.nodes[0], "node", name, rank, rank, properties=properties)
        for kind, count in leaves.items():
            self.vertex(node, kind, f"{kind}0", 0, rank, count=count)
        return node

    def graph(self, *entries: Jgf) -> Jgf:
        """The whole document, or only the root with ``entries`` and their leaves."""
        if not entries:
            return {"graph": {"nodes": list(self.nodes), "edges": list(self.edges)}}
        kept = {entry["id"] for entry in entries}
        kept |= {edge["target"] for edge in self.edges if edge["source"] in kept} | {self.nodes[0]["id"]}
        nodes = [entry for entry in self.nodes if entry["id"] in kept]
        edges = [edge for edge in self.edges if {edge["source"], edge["target"]} <= kept]
        return {"graph": {"nodes": nodes, "edges": edges}}


def two_nodes_and_a_device() -> Document:
    document = Document()
    for name in ("alpha", "beta"):
        document.node(name, core=CORES, memory=MEMORY, gpu=4)
    document.node("fez", virtual=True, qubit=QUBITS)
    return document


def jobspec(slots: Any, constraint: Jgf | None = None, duration: float = 0, **leaves: Any) -> Jgf:
    shape = [{"type": kind, "count": count} for kind, count in leaves.items()]
    return around([{"type": "slot", "count": slots, "label": "s", "with": shape}], constraint, duration)


def around(resources: list[Jgf], constraint: Jgf | None = None, duration: float = 0) -> Jgf:
    system: Jgf = {"duration": duration} | ({} if constraint is None else {"constraints": constraint})
    return {"version": 9999, "resources": resources, "attributes": {"system": system}, "tasks": []}
