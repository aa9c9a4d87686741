"""Why a gang has no place now: busy, or unsatisfiable, and what it is short of.

Everything is counted on exact vectors. "Unsatisfiable" is what would not fit even if nothing ran; nodes that are only
cordoned or not ready count as there, because they may come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fluence_extender.ledger.account import ports_clash
from fluence_extender.model.pod import HostPort
from fluence_extender.model.reason import Reason, busy, unsatisfiable
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from fluence_extender.placement.rooms import Rooms
from fluence_extender.placement.search import Counts, Shape, capacity, fill, place

_BINARY = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def amount_text(name: str, amount: int) -> str:
    """An amount as people write it: ``2 cpu``, ``500m cpu``, ``4Gi memory``, ``2 nvidia.com/gpu``."""
    if name == CPU:
        return f"{amount // 1000} cpu" if amount % 1000 == 0 else f"{amount}m cpu"
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if amount >= size:
                return f"{amount / size:.4g}{suffix} {name}"
        return f"{amount} bytes of {name}"
    return f"{amount} {name}"


def no_place(
    shapes: Sequence[Shape],
    refusals: Mapping[str, int],
    free: Rooms,
    whole: Rooms,
    possible: Sequence[tuple[str, ...]],
) -> Reason:
    """The reason for a gang of ``shapes``.

    ``free`` is what the nodes have left, ``whole`` what they have when nothing runs. ``possible[i]`` are the nodes that
    shape i could ever use (cordoned and not ready ones included), ``refusals`` what keeps the other nodes away from the
    first shape, with the number of nodes.
    """
    ideal = [
        Shape(shape.requests, shape.count, nodes, shape.ports)
        for shape, nodes in zip(shapes, possible, strict=True)
    ]
    for shape in ideal:
        if not shape.nodes:
            return _no_node(refusals)
        if not capacity(shape, whole).any():
            return unsatisfiable(_too_large(shape, whole))
    wanted = sum(shape.count for shape in shapes)
    if place(ideal, whole) is None:
        most = _members(fill(ideal, whole)[0])
        if most < wanted:
            return unsatisfiable(f"{most} of {wanted} members would fit if nothing else ran")
    counts, left = fill(shapes, free)
    return busy(min(_members(counts), wanted - 1), wanted, _short_of(shapes, left))


def _members(counts: Counts) -> int:
    return sum(sum(placed.values()) for placed in counts)


def _no_node(refusals: Mapping[str, int]) -> Reason:
    if not refusals:
        return unsatisfiable("the cluster has no nodes")
    listed = ", ".join(f"{count} {why}" for why, count in refusals.items())
    return unsatisfiable(f"no node may be used (nodes refused: {listed})")


def _too_large(shape: Shape, whole: Rooms) -> str:
    """Which amount no node has, with the largest there is."""
    amounts = whole.free[whole.at(shape.nodes)]
    requests = shape.requests
    for name in sorted(requests):
        largest = int(amounts[:, whole.columns[name]].max())
        if requests[name] > largest:
            have = amount_text(name, largest) if largest else "none"
            return f"no node has {amount_text(name, requests[name])} (the largest has {have})"
    wanted = " and ".join(amount_text(name, requests[name]) for name in sorted(requests) if name != "pods")
    return f"no single node has {wanted}"


def _short_of(shapes: Sequence[Shape], left: Rooms) -> tuple[str, ...]:
    """What keeps the next member out: the names short on the node that lacks the fewest of them."""
    best: tuple[str, ...] | None = None
    for shape in {(one.requests, one.nodes, one.ports): one for one in shapes}.values():
        for short in _shortages(shape, left):
            if short and (best is None or (len(short), short) < (len(best), best)):
                best = short
    return best or ()


def _shortages(shape: Shape, left: Rooms) -> Iterator[tuple[str, ...]]:
    """What each kind of node lacks for one more member."""
    names = sorted(name for name in shape.requests if shape.requests[name] > 0)
    size = left.size(shape.requests)
    columns = np.array([left.columns[name] for name in names], dtype=np.intp)
    rows = left.at(shape.nodes)
    lacking = size[columns] > left.free[np.ix_(rows, columns)].clip(min=0)
    taken = {row: _clashing(shape.ports, left.ports[row]) for row in left.ports if shape.ports}
    apart = np.isin(rows, list(taken)) if taken else np.zeros(len(rows), dtype=bool)
    for pattern in np.unique(lacking[~apart], axis=0):
        yield tuple(name for name, lacks in zip(names, pattern, strict=True) if lacks)
    for row, pattern in zip(rows[apart], lacking[apart], strict=True):
        yield tuple(name for name, lacks in zip(names, pattern, strict=True) if lacks) + taken[int(row)]


def _clashing(wanted: Sequence[HostPort], taken: Sequence[HostPort]) -> tuple[str, ...]:
    """The host ports among ``wanted`` that are taken on a node."""
    return tuple(f"host port {one.port}" for one in wanted if ports_clash((one,), taken))
