"""Virtual resources as their owner declares them: quantum devices, simulators, licences, anything that isn't a node.

Invariant: a value here has passed every check that needs no cluster: names are final, attributes are resolved, counts
are at least 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CLUSTER_PARENT = "cluster"


@dataclass(frozen=True, slots=True)
class VirtualResource:
    """One declared resource.

    ``names`` has one name for each vertex it makes: a type with children makes one a ``count``, a leaf type a single
    one that holds ``count`` units. ``parent`` is ``cluster`` or the name of a physical node, on the top level; a child
    has its parent's name there. ``attributes`` are resolved: inherited, overridden, cleared.
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
        """Whether it is a pool of units rather than a thing with parts."""
        return not self.children

    def walk(self) -> Iterator[VirtualResource]:
        """Itself and every declaration below it, outermost first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def types(self) -> set[str]:
        """Its own type and every type below it."""
        return {one.type for one in self.walk()}

    def vertices(self) -> int:
        """How many node-typed vertices it makes in all."""
        return len(self.names) * (1 + sum(child.vertices() for child in self.children))


@dataclass(frozen=True, slots=True)
class VirtualResources:
    """All that one resources.yaml declares; without ``resources`` the cluster is classical only."""

    source: str
    resources: tuple[VirtualResource, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """Every type that a pod can ask for, sorted."""
        return tuple(sorted({kind for one in self.resources for kind in one.types()}))


def environment_name(attribute: str) -> str:
    """The environment variable that carries an attribute into a container: ``qrmi-type`` is FLUXION_QRMI_TYPE."""
    return "FLUXION_" + re.sub(r"[^A-Z0-9]", "_", attribute.upper())
