"""From exact amounts to leaf counts: the one place where amounts are rounded to a matcher's units.

A matcher grants whole leaves. One leaf of ``core`` stands for ``cpu_millicores``, one leaf of ``memory`` for
``memory_bytes``; devices are counted one by one. What a node offers is rounded down and what a pod requests is rounded
up, so a match never promises more than exists.

Invariant: a resource name has the same leaf type in every cluster, and no virtual type is ever one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.resources import CPU, MEMORY, Resources

CORE_LEAF = "core"
MEMORY_LEAF = "memory"
GPU_LEAF = "gpu"


MOST_LEAVES = 2**32 - 1
"""The largest count that a jobspec can request; no node offers as many."""

LARGEST_BLOCK = 64 * 2**10
"""The largest memory block in bytes, which one huge node can force on all others; enough for 256 TiB a node."""


@dataclass(frozen=True, slots=True)
class Units:
    """What one leaf stands for, in thousandths of a core and in bytes. Both are at least 1.

    At most ``most_leaves`` leaves of a type are counted for one node; the accounts stay exact.
    """

    cpu_millicores: int
    memory_bytes: int
    most_leaves: int = MOST_LEAVES - 1

    def __post_init__(self) -> None:
        if self.cpu_millicores < 1 or self.memory_bytes < 1:
            raise ValueError(f"a unit must be at least 1 millicore and 1 byte: {self}")


FINE = Units(cpu_millicores=1, memory_bytes=1024)
"""For an engine in which counts cost nothing: millicores and KiB; larger blocks when a node has over 4 TiB."""

COARSE = Units(cpu_millicores=1000, memory_bytes=2**30, most_leaves=2**16)
"""For libreapi_cli, in which each leaf is a vertex: whole cores and GiB, so that no absurd node stops everything."""


def widened(units: Units, nodes: Iterable[Resources]) -> Units:
    """Return ``units`` with the memory block doubled until all memory of each node can be counted.

    The block stays at `LARGEST_BLOCK` or below; of a node with more memory, only what can be counted is.
    """
    largest = max((node[MEMORY] for node in nodes), default=0)
    block = units.memory_bytes
    while block < LARGEST_BLOCK and largest // block > units.most_leaves:
        block *= 2
    return replace(units, memory_bytes=block)


def leaf_type(resource: str) -> str | None:
    """Return the leaf type of a Kubernetes resource name, or None for one that isn't in the graph.

    ``cpu`` is ``core``; ``memory`` is ``memory``; ``nvidia.com/gpu``, ``amd.com/gpu`` and every other
    ``*/gpu`` are ``gpu``. Any other extended resource ``example.com/fpga`` is ``fpga@example.com``, which distinguishes
    equal names of two vendors. Pod slots, ephemeral storage and huge pages are counted in accounts only, and our own
    ``fluxion.flux-framework.org/`` names are virtual resources.
    """
    if resource == CPU:
        return CORE_LEAF
    if resource == MEMORY:
        return MEMORY_LEAF
    domain, slash, name = resource.partition("/")
    if not slash or resource.startswith(RESOURCE_PREFIX):
        return None
    return GPU_LEAF if name == GPU_LEAF else f"{name}@{domain}"


def leaf_counts(resources: Resources, units: Units) -> dict[str, int]:
    """Return how many leaves of each type a node's ``resources`` make, rounded down; zeros are left out."""
    return _counts(resources, units, lambda amount, unit: amount // unit, units.most_leaves)


def request_counts(resources: Resources, units: Units) -> dict[str, int]:
    """Return how many leaves of each type cover a pod's ``resources``, rounded up; zeros are left out.

    Counts that no node can have become `MOST_LEAVES`, so that the request is unsatisfiable and not malformed.
    """
    return _counts(resources, units, lambda amount, unit: -(-amount // unit), MOST_LEAVES)


def _counts(
    resources: Resources, units: Units, divide: Callable[[int, int], int], most: int
) -> dict[str, int]:
    sizes = {CORE_LEAF: units.cpu_millicores, MEMORY_LEAF: units.memory_bytes}
    counts: dict[str, int] = {}
    for name, amount in resources.items():
        leaf = leaf_type(name)
        if leaf is not None and amount > 0:
            counts[leaf] = counts.get(leaf, 0) + divide(amount, sizes.get(leaf, 1))
    return {leaf: min(counts[leaf], most) for leaf in sorted(counts, key=_leaf_order) if counts[leaf]}


def _leaf_order(leaf: str) -> tuple[int, str]:
    known = (CORE_LEAF, MEMORY_LEAF, GPU_LEAF)
    return (known.index(leaf) if leaf in known else len(known), leaf)
