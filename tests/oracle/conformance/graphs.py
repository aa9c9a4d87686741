"""A small language for resource graphs.

``cluster(of("node", 2, of("core", 4), of("memory", 1, size=16)))`` is a JGF document. Vertices of a type that may stand
at several places are numbered as administrators do: ``rack`` and ``node`` across the whole graph, other types anew
below each parent. The n-th node has rank n, and so has all below it; what is above nodes has rank -1. ``uniq_id``
counts in document order, parents before their children, so it grows with the numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.port import Jgf

_NUMBERED_THROUGHOUT = frozenset({"rack", "node", "storage_node"})
_RANKED = frozenset({"node", "storage_node"})


@dataclass(frozen=True, slots=True)
class Branch:
    """``count`` equal siblings and what is below each; ``each`` is metadata of all, ``single`` of some by number."""

    kind: str
    count: int
    below: tuple[Branch, ...]
    each: dict[str, Any] = field(default_factory=dict)
    single: dict[int, dict[str, Any]] = field(default_factory=dict)


def of(
    kind: str, count: int, *below: Branch, single: dict[int, dict[str, Any]] | None = None, **each: Any
) -> Branch:
    """Return ``count`` vertices of a type; other keywords are metadata of each, ``single[n]`` of number n alone."""
    return Branch(kind, count, below, each, single or {})


def cluster(*below: Branch, kind: str = "cluster", **metadata: Any) -> Jgf:
    """Return a graph with one root of type ``kind``."""
    writer = _Writer()
    writer.write(Branch(kind, 1, below, metadata), None, "", -1)
    return {"graph": {"nodes": writer.nodes, "edges": writer.edges}}


def subtree(graph: Jgf, path: str) -> Jgf:
    """Return the part of ``graph`` at and below ``path``, with the vertices from the root down to it."""
    kept = {
        entry["id"]
        for entry in graph["graph"]["nodes"]
        if _is_prefix(own := entry["metadata"]["paths"]["containment"], path) or _is_prefix(path, own)
    }
    return {
        "graph": {
            "nodes": [entry for entry in graph["graph"]["nodes"] if entry["id"] in kept],
            "edges": [
                edge for edge in graph["graph"]["edges"] if edge["source"] in kept and edge["target"] in kept
            ],
        }
    }


def without(graph: Jgf, path: str) -> Jgf:
    """Return ``graph`` without the vertex at ``path`` and all below it."""
    gone = {
        entry["id"]
        for entry in graph["graph"]["nodes"]
        if _is_prefix(path, entry["metadata"]["paths"]["containment"])
    }
    return {
        "graph": {
            "nodes": [entry for entry in graph["graph"]["nodes"] if entry["id"] not in gone],
            "edges": [edge for edge in graph["graph"]["edges"] if edge["target"] not in gone],
        }
    }


def _is_prefix(short: str, long: str) -> bool:
    return long == short or long.startswith(f"{short}/")


class _Writer:
    """Writes branches depth first."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, str]] = []
        self._numbers: Counter[str] = Counter()

    def write(self, branch: Branch, parent: str | None, path: str, rank: int) -> None:
        start = self._numbers[branch.kind] if branch.kind in _NUMBERED_THROUGHOUT else 0
        for number in range(start, start + branch.count):
            self._numbers[branch.kind] = number + 1
            key = str(len(self.nodes))
            metadata: dict[str, Any] = {
                "type": branch.kind,
                "id": number,
                "rank": number if branch.kind in _RANKED else rank,
                "paths": {"containment": f"{path}/{branch.kind}{number}"},
            }
            metadata |= branch.each | branch.single.get(number, {})
            self.nodes.append({"id": key, "metadata": metadata})
            if parent is not None:
                self.edges.append({"source": parent, "target": key})
            for child in branch.below:
                self.write(child, key, metadata["paths"]["containment"], metadata["rank"])
