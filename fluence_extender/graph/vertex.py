"""The vertices of a containment graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.graph.virtual import VirtualResource

CLUSTER_TYPE = "cluster"
NODE_TYPE = "node"
NO_RANK = -1

UNIQ_ID_CYCLE = 10_000
"""Node-centric policies weigh nodes of equal id by ``uniq_id`` modulo this."""

PHYSICAL = "virtual=false"
VIRTUAL = "virtual=true"
"""Fluxion matches a property by its key alone, so the key contains the value."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """One vertex, or an entry of ``count`` equal sibling leaves.

    The ``path``, ``name``, ``id`` and ``uniq_id`` of an entry are those of its first leaf; each further leaf is one
    higher. ``rank`` is that of the vertex's node, -1 above the nodes. ``resource`` and ``backend`` (the name of the
    top-level vertex) are set on the node-typed vertices of virtual resources.
    """

    path: str
    type: str
    basename: str
    name: str
    id: int
    rank: int
    uniq_id: int
    count: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    resource: VirtualResource | None = None
    backend: str = ""
