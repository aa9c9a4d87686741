"""Small graphs and jobspecs that the tests of the walker share."""

from __future__ import annotations

from typing import Any


def vertex(
    key: int, kind: str, number: int, path: str, *, rank: int = -1, size: int = 1, **more: Any
) -> dict[str, Any]:
    """A JGF vertex."""
    metadata = {"type": kind, "id": number, "uniq_id": key, "rank": rank, "size": size}
    return {"id": str(key), "metadata": metadata | {"paths": {"containment": path}} | more}


def node_entries(
    first_key: int, number: int, cores: int, memory: int = 0, memory_size: int = 1, **more: Any
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """A node with its leaves, as JGF vertices and edges; its key is ``first_key``."""
    path = f"/cluster0/node{number}"
    nodes = [vertex(first_key, "node", number, path, rank=number, **more)]
    leaves = [("core", index, 1) for index in range(cores)]
    leaves += [("memory", index, memory_size) for index in range(memory)]
    for key, (kind, index, size) in enumerate(leaves, first_key + 1):
        nodes.append(vertex(key, kind, index, f"{path}/{kind}{index}", rank=number, size=size))
    edges = [{"source": str(first_key), "target": entry["id"]} for entry in nodes[1:]]
    return nodes, edges


def cluster(nodes: int, cores: int, memory: int = 0, memory_size: int = 1, **more: Any) -> dict[str, Any]:
    """A flat cluster of equal nodes, as a JGF document."""
    vertices = [vertex(0, "cluster", 0, "/cluster0")]
    edges: list[dict[str, str]] = []
    for number in range(nodes):
        first_key = len(vertices)
        inner, links = node_entries(first_key, number, cores, memory, memory_size, **more)
        vertices += inner
        edges += [{"source": "0", "target": str(first_key)}, *links]
    return {"graph": {"nodes": vertices, "edges": edges}}


def slots(
    count: Any, cores: Any = 1, memory: int = 0, *, duration: Any = 0, constraints: Any = None
) -> dict[str, Any]:
    """A jobspec of slots of cores and memory, anywhere."""
    members = [{"type": "core", "count": cores}]
    if memory:
        members.append({"type": "memory", "count": memory})
    return jobspec(
        [{"type": "slot", "count": count, "label": "task", "with": members}], duration, constraints
    )


def jobspec(resources: Any, duration: Any = 0, constraints: Any = None) -> dict[str, Any]:
    """A jobspec of these resources."""
    system: dict[str, Any] = {"duration": duration}
    if constraints is not None:
        system["constraints"] = constraints
    return {
        "version": 1,
        "resources": resources,
        "attributes": {"system": system},
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
    }
