"""The flat cluster on which matchers are measured: nodes of 32 cores, 32 units of memory and 4 GPUs."""

from __future__ import annotations

from typing import Any

from fluence_extender.matcher import Jgf

LEAVES = (("core", 32), ("memory", 32), ("gpu", 4))
PRUNE = "ALL:core,ALL:memory,ALL:gpu"


def cluster(numbers: range) -> Jgf:
    """Return a compact document of the root and the nodes with these numbers."""
    nodes = [_entry("cluster", 0, 0, -1, "/cluster")]
    edges: list[Jgf] = []
    for number in numbers:
        more_nodes, more_edges = _node(number)
        nodes += more_nodes
        edges += more_edges
    return {"graph": {"nodes": nodes, "edges": edges}}


def _node(number: int) -> tuple[list[Jgf], list[Jgf]]:
    uniq_id = 1 + number * (1 + sum(count for _, count in LEAVES))
    path = f"/cluster/node{number}"
    nodes = [_entry("node", number, uniq_id, number, path, properties={"virtual=false": ""})]
    edges = [{"source": "0", "target": str(uniq_id)}]
    leaf_id = uniq_id + 1
    for kind, count in LEAVES:
        nodes.append(_entry(kind, 0, leaf_id, number, f"{path}/{kind}0", count=count))
        edges.append({"source": str(uniq_id), "target": str(leaf_id)})
        leaf_id += count
    return nodes, edges


def _entry(kind: str, number: int, uniq_id: int, rank: int, path: str, **more: Any) -> Jgf:
    name = path.rpartition("/")[2]
    metadata = {"type": kind, "basename": kind, "name": name, "id": number, "uniq_id": uniq_id, "rank": rank}
    return {"id": str(uniq_id), "metadata": {**metadata, "paths": {"containment": path}, **more}}


def slots(count: int, **leaves: int) -> Jgf:
    """Return a jobspec of slots on any nodes."""
    shape = [{"type": kind, "count": units} for kind, units in leaves.items()]
    return {
        "version": 9999,
        "resources": [{"type": "slot", "count": count, "label": "default", "with": shape}],
        "attributes": {"system": {"duration": 0}},
        "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
    }
