"""Small graphs and jobspecs for the tests of this folder."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def vertex(uniq_id: int, type: str, path: str, rank: int = -1, /, **metadata: Any) -> Json:
    name = path.rpartition("/")[2]
    digits = name[len(name.rstrip("0123456789")) :]
    return {
        "id": str(uniq_id),
        "metadata": {
            "type": type,
            "name": name,
            "id": int(digits or 0),
            "rank": rank,
            "paths": {"containment": path},
        }
        | metadata,
    }


def edge(source: int, target: int) -> Json:
    return {"source": str(source), "target": str(target)}


def graph(nodes: int = 2, cores: int = 2, root: str = "cluster") -> Json:
    """Return a graph of the vertices ``/<root>0/node<i>/core<j>``; node i has rank i."""
    vertices, edges = [vertex(0, root, f"/{root}0")], []
    for i in range(nodes):
        node = len(vertices)
        vertices.append(vertex(node, "node", f"/{root}0/node{i}", i))
        edges.append(edge(0, node))
        for j in range(cores):
            edges.append(edge(node, len(vertices)))
            vertices.append(vertex(len(vertices), "core", f"/{root}0/node{i}/core{j}", i))
    return {"graph": {"nodes": vertices, "edges": edges}}


def jobspec(resources: Any = None, **system: Any) -> Json:
    slot = {"type": "slot", "count": 1, "label": "default", "with": [{"type": "core", "count": 1}]}
    return {
        "version": 1,
        "resources": [slot] if resources is None else resources,
        "tasks": [],
        "attributes": {"system": {"duration": 60} | system},
    }


RELEASE = {"version": 1, "execution": {"R_lite": [{"rank": "1", "children": {}}]}}
