"""Virtual resources as their owner declares them: quantum devices, simulators, licenses, anything that isn't a node.

Invariant: a value has passed every check that needs no cluster: its names are final, its attributes are resolved, and
its counts are at least 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CLUSTER_PARENT = "cluster"


@dataclass(frozen=True, slots=True)
class VirtualResource:
    """One declared resource.

    ``names`` has one name for each vertex: a type with children makes ``count`` vertices, a leaf type makes one vertex
    with ``count`` units. The ``parent`` of a top-level resource is ``cluster`` or the name of a physical node, that of
    a child is its parent's name. ``attributes`` are resolved: inherited, overridden, cleared.
    """

    type: str
    name: str
    names: tuple[str, ...]
    count: int = 1
    parent: str = CLUSTER_PARENT
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: tuple[VirtualResource, ...] = ()
    path: str = ""
    line: int = 0

    @property
    def is_leaf(self) -> bool:
        """Whether it is a pool of units rather than something with parts."""
        return not self.children

    def walk(self) -> Iterator[VirtualResource]:
        """Yield this declaration and all below it, outermost first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def types(self) -> set[str]:
        """Return its own type and every type below it."""
        return {one.type for one in self.walk()}

    def vertices(self) -> int:
        """Return how many node-typed vertices it makes in all."""
        return len(self.names) * (1 + sum(child.vertices() for child in self.children))


@dataclass(frozen=True, slots=True)
class VirtualResources:
    """Everything that one resources.yaml declares; without ``resources`` the cluster is only classical."""

    source: str
    resources: tuple[VirtualResource, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """Every type that a pod can request, sorted."""
        return tuple(sorted({kind for one in self.resources for kind in one.types()}))


def environment_name(attribute: str) -> str:
    """Return the environment variable that passes an attribute to a container: FLUXION_QRMI_TYPE for ``qrmi-type``."""
    return "FLUXION_" + re.sub(r"[^A-Z0-9]", "_", attribute.upper())
