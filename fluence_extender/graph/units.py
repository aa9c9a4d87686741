"""From exact amounts to leaf counts: the one place where amounts are rounded to whole leaves.

A graph has whole leaves, and libreapi_cli grants no less. A leaf of ``core`` stands for a core, a leaf of ``memory``
for a GiB, and devices are counted one by one. What a node offers is rounded down and what a pod requests is rounded up,
so a grant never promises more than exists.

Invariant: a resource name has the same leaf type in every cluster, and no virtual type is ever one of these.
"""

from __future__ import annotations

from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.resources import CPU, MEMORY, Resources

CORE_LEAF = "core"
MEMORY_LEAF = "memory"
GPU_LEAF = "gpu"

LEAF_SIZES = {CORE_LEAF: 1000, MEMORY_LEAF: 2**30}
"""What a leaf stands for, in millicores and bytes; a leaf of any other type stands for 1."""

MOST_OFFERED = 2**16
"""The most leaves of a type that a node has in the graph, so that no absurd node stops everything."""

MOST_REQUESTED = 2**32 - 1
"""The largest count that a jobspec can request; no node offers as many."""


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


def leaf_counts(resources: Resources) -> dict[str, int]:
    """Return how many leaves of each type a node's ``resources`` make, rounded down; zeros are left out."""
    counts: dict[str, int] = {}
    for name, amount in resources.items():
        leaf = leaf_type(name)
        if leaf is not None and amount > 0:
            counts[leaf] = counts.get(leaf, 0) + amount // LEAF_SIZES.get(leaf, 1)
    return _capped(counts, MOST_OFFERED)


def request_counts(resources: Resources) -> dict[str, int]:
    """Return how many leaves of each type cover a pod's ``resources``, rounded up; zeros are left out.

    Counts that no node can have become `MOST_REQUESTED`, so that the request is unsatisfiable and not malformed.
    """
    counts: dict[str, int] = {}
    for name, amount in resources.items():
        leaf = leaf_type(name)
        if leaf is not None and amount > 0:
            counts[leaf] = counts.get(leaf, 0) - (-amount // LEAF_SIZES.get(leaf, 1))
    return _capped(counts, MOST_REQUESTED)


def _capped(counts: dict[str, int], most: int) -> dict[str, int]:
    return {leaf: min(counts[leaf], most) for leaf in sorted(counts, key=_leaf_order) if counts[leaf]}


def _leaf_order(leaf: str) -> tuple[int, str]:
    known = (CORE_LEAF, MEMORY_LEAF, GPU_LEAF)
    return (known.index(leaf) if leaf in known else len(known), leaf)
