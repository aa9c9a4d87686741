"""Why a gang has no place now: busy, or unsatisfiable, and what it is short of.

Everything is counted on exact vectors. "Unsatisfiable" is what would not fit even if nothing ran; nodes that are only
cordoned or not ready count as there, because they may come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluence_extender.ledger.account import NodeAccount, ports_clash
from fluence_extender.model.pod import HostPort
from fluence_extender.model.reason import Reason, busy, unsatisfiable
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Resources
from fluence_extender.placement.search import Room, Shape, fill, place

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
    accounts: Mapping[str, NodeAccount],
    possible: Sequence[tuple[str, ...]],
) -> Reason:
    """The reason for a gang of ``shapes``.

    ``possible[i]`` are the nodes that shape i could ever use (cordoned and not ready ones included), ``refusals`` what
    keeps the other nodes away from the first shape, with the number of nodes.
    """
    for shape, nodes in zip(shapes, possible, strict=True):
        if not nodes:
            return _no_node(refusals)
        whole = [accounts[name].allocatable for name in nodes]
        if not any(shape.requests.fits(one) for one in whole):
            return unsatisfiable(_too_large(shape.requests, whole))
    wanted = sum(shape.count for shape in shapes)
    empty = {name: Room(accounts[name].allocatable) for nodes in possible for name in nodes}
    ideal = [
        Shape(shape.requests, shape.count, nodes, shape.ports)
        for shape, nodes in zip(shapes, possible, strict=True)
    ]
    if place(ideal, empty) is None:
        most = _fill_all(ideal, dict(empty))
        if most < wanted:
            return unsatisfiable(f"{most} of {wanted} members would fit if nothing else ran")
    rooms = {
        name: Room(accounts[name].free, accounts[name].ports) for shape in shapes for name in shape.nodes
    }
    fitting = _fill_all(shapes, rooms)
    return busy(min(fitting, wanted - 1), wanted, _short_of(shapes, rooms))


def _fill_all(shapes: Sequence[Shape], rooms: dict[str, Room]) -> int:
    """How many members fit one shape after the other; ``rooms`` is changed accordingly."""
    return sum(sum(fill(shape, rooms, shape.nodes).values()) for shape in shapes)


def _no_node(refusals: Mapping[str, int]) -> Reason:
    if not refusals:
        return unsatisfiable("the cluster has no nodes")
    listed = ", ".join(f"{count} {why}" for why, count in refusals.items())
    return unsatisfiable(f"no node may be used (nodes refused: {listed})")


def _too_large(requests: Resources, whole: Sequence[Resources]) -> str:
    """Which amount no node has, with the largest there is."""
    for name in sorted(requests):
        largest = max(one[name] for one in whole)
        if requests[name] > largest:
            have = amount_text(name, largest) if largest else "none"
            return f"no node has {amount_text(name, requests[name])} (the largest has {have})"
    wanted = " and ".join(amount_text(name, requests[name]) for name in sorted(requests) if name != "pods")
    return f"no single node has {wanted}"


def _short_of(shapes: Sequence[Shape], left: Mapping[str, Room]) -> tuple[str, ...]:
    """What keeps the next member out: the names short on the node that lacks the fewest of them."""
    best: tuple[str, ...] | None = None
    for shape in shapes:
        for name in shape.nodes:
            short = shape.requests.shortage(left[name].free) + _clashing(shape.ports, left[name].ports)
            if short and (best is None or (len(short), short) < (len(best), best)):
                best = short
    return best or ()


def _clashing(wanted: Sequence[HostPort], taken: Sequence[HostPort]) -> tuple[str, ...]:
    """The host ports among ``wanted`` that are taken on a node."""
    return tuple(f"host port {one.port}" for one in wanted if ports_clash((one,), taken))
