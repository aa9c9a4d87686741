"""The graph as it is shown to people: counts in whole cores and GiB, whatever units the engine counts in."""

from __future__ import annotations

from collections.abc import Mapping

from fluence_extender.graph.jgf import Jgf


def in_units(document: Jgf, scale: Mapping[str, tuple[int, int]]) -> Jgf:
    """Convert the counts of a compact document: leaf type -> (its present unit, the unit wanted), rounded down.

    A leaf entry of which nothing remains is left out. The document isn't changed.
    """
    kept: list[Jgf] = []
    gone: set[str] = set()
    for vertex in document["graph"]["nodes"]:
        metadata = vertex["metadata"]
        if metadata["type"] in scale:
            present, wanted = scale[metadata["type"]]
            count = metadata.get("count", 1) * present // wanted
            if not count:
                gone.add(vertex["id"])
                continue
            vertex = {**vertex, "metadata": {**metadata, "count": count}}
        kept.append(vertex)
    edges = [edge for edge in document["graph"]["edges"] if edge["target"] not in gone]
    return {"graph": {"nodes": kept, "edges": edges}}


def sized(document: Jgf) -> Jgf:
    """Write each entry's count as the ``size`` of one vertex, which every JGF reader understands."""
    nodes = []
    for vertex in document["graph"]["nodes"]:
        metadata = dict(vertex["metadata"])
        count = metadata.pop("count", 1)
        if count != 1:
            metadata["size"] = count
        nodes.append({**vertex, "metadata": metadata})
    return {"graph": {"nodes": nodes, "edges": document["graph"]["edges"]}}
