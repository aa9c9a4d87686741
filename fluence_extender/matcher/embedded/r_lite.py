"""Replaying an R that names no vertices, only ranks and ids (``rv1_nosched``).

libreapi_cli builds the paths from the host names: nodes right below the root, their children right below them, named by
type and id. So only a graph of exactly that shape can be meant (fluxion reference 5.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fluence_extender.matcher.embedded.graph import Edge, Graph, Vertex
from fluence_extender.matcher.embedded.hostlist import expand_hosts
from fluence_extender.matcher.embedded.idset import Idset

_SUFFIX = re.compile(r"\d*\Z", re.ASCII)


class RLiteReplay:
    """The vertices that an ``execution`` names. Marks edges with ``seq``; ``held`` are those to be taken whole."""

    def __init__(self, graph: Graph, execution: Mapping[str, Any], seq: int, at: int, duration: int) -> None:
        """Find and mark. Raises ValueError for what isn't in the graph, or isn't free then."""
        self.held: dict[Vertex, None] = {}
        self._graph = graph
        self._seq = seq
        self._at = at
        self._duration = duration
        entries = _entries(execution)
        ranks = sorted(rank for ranks, _ in entries for rank in ranks)
        if len(set(ranks)) < len(ranks):
            raise ValueError("execution.R_lite lists a rank twice")
        hosts = dict(zip(ranks, _hosts(execution), strict=False))
        for listed, children in entries:
            for rank in listed:
                if rank not in hosts:
                    raise ValueError(f"execution.nodelist has no name for rank {rank}")
                self._take_rank(rank, hosts[rank], children)

    def _take_rank(self, rank: int, host: str, children: Mapping[str, str]) -> None:
        root = self._graph.root
        suffix = _SUFFIX.search(host)
        digits = suffix[0] if suffix else ""
        node = self._child(root, "node", host, int(digits) if digits else -1, rank)
        taken = 0
        for kind, ids in children.items():
            for number in Idset([ids]).numbers():
                self.held[self._child(node, kind, f"{kind}{number}", number, rank)] = None
                taken += 1
        if taken == 0:
            raise ValueError(f"execution.R_lite: nothing is listed under rank {rank}")
        if taken == len(self._graph.of_rank(rank)) - 1:
            self.held[node] = None

    def _child(self, parent: Vertex, kind: str, name: str, number: int, rank: int) -> Vertex:
        """The one vertex that is meant, free for the whole time; marks the edge to it."""
        path = f"{parent.path}/{name}"
        for vertex in self._graph.by_path.get(path, ()):
            if (vertex.rank, vertex.id, vertex.size, vertex.type) == (rank, number, 1, kind):
                if vertex in self.held or vertex.free_during(self._at, self._duration) < vertex.size:
                    raise ValueError(f"{path!r} isn't free")
                _edge(parent, vertex).mark(self._seq, vertex.size, True)
                return vertex
        raise ValueError(f"no {kind} {number} of size 1 and rank {rank} is at {path!r}")


def _edge(parent: Vertex, child: Vertex) -> Edge:
    for edge in parent.out:
        if edge.target is child:
            return edge
    raise ValueError(f"{child.path!r} isn't below {parent.path!r}")


def _entries(execution: Mapping[str, Any]) -> list[tuple[list[int], Mapping[str, str]]]:
    listed = execution.get("R_lite")
    if not isinstance(listed, list) or not listed:
        raise ValueError("execution.R_lite must be a list that isn't empty")
    entries: list[tuple[list[int], Mapping[str, str]]] = []
    for index, entry in enumerate(listed):
        where = f"execution.R_lite[{index}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("rank"), str):
            raise ValueError(f"{where} must be an object with a 'rank' that is a string")
        children = entry.get("children")
        if not isinstance(children, Mapping) or not all(isinstance(ids, str) for ids in children.values()):
            raise ValueError(f"{where}.children must be an object of strings")
        entries.append((Idset([entry["rank"]]).numbers(), children))
    return entries


def _hosts(execution: Mapping[str, Any]) -> list[str]:
    """The host names, the first of which is that of the lowest rank; the properties are only checked."""
    names = execution.get("nodelist")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("execution.nodelist must be a list of strings")
    properties = execution.get("properties", {})
    if not isinstance(properties, Mapping):
        raise ValueError("execution.properties must be an object")
    for name, ranks in properties.items():
        if not isinstance(ranks, str):
            raise ValueError(f"execution.properties.{name} must be a string")
        Idset([ranks])
    return expand_hosts(names)
