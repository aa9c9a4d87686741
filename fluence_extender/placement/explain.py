"""Why a gang has no place now: busy, or unsatisfiable, and what it is short of.

Everything is counted on exact vectors. "Unsatisfiable" is what would not fit even if nothing ran, where that is
certain; nodes that are only cordoned or not ready count as there, because they may come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.model.quantity import in_binary
from fluence_extender.model.reason import Reason, ReasonCode, busy, short, unsatisfiable
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from fluence_extender.placement.eligibility import passes
from fluence_extender.placement.search import Shape, Undecided, capacity, decide
from fluence_extender.placement.shortage import Part, largest_part, part_that_fits

SHOWN = 3
"""So many kinds of members are listed."""


def amount_text(name: str, amount: int) -> str:
    """An amount as people write it: ``2 cpu``, ``500m cpu``, ``4Gi memory``, ``2 nvidia.com/gpu``, ``110 pods``."""
    if name == CPU:
        return f"{amount // 1000} cpu" if amount % 1000 == 0 else f"{amount}m cpu"
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        binary = in_binary(amount)
        return f"{amount} bytes of {name}" if binary is None else f"{binary} {name}"
    return f"{amount} {name}"


def requests_text(requests: Resources) -> str:
    """What one member asks for, ``4 cpu + 1Gi memory``; the pod slot that each takes is understood."""
    asked = [amount_text(name, requests[name]) for name in sorted(requests) if name != PODS]
    return " + ".join(asked) if asked else "no resources"


@dataclass(frozen=True, slots=True)
class Asked:
    """A shape with all that is known of its nodes.

    ``possible`` are those that it could ever use (cordoned and not ready ones included), ``refusals`` what keeps it
    from the others, with the number of nodes. ``tie`` are the kinds of devices that tie it to a few nodes, "" for none.
    """

    shape: Shape
    possible: tuple[str, ...]
    refusals: Mapping[str, int] = field(default_factory=dict)
    tie: str = ""

    @property
    def a_node(self) -> str:
        """How its nodes are called."""
        return f"node with {self.tie}" if self.tie else "node"


def no_place_now(asked: Sequence[Asked], free: CapacityTable) -> Reason:
    """The reason for a gang that has to wait for room; ``free`` is what the nodes have left."""
    wanted = sum(one.shape.count for one in asked)
    for one in asked:
        if one.tie and not one.shape.nodes:
            why = _refused(one.refusals)
            return Reason(ReasonCode.BUSY, f"busy: no {one.a_node} may be used now{why}{_who(one, asked)}")
    part = part_that_fits([one.shape for one in asked], free)
    reason = busy(min(part.members, wanted - 1), wanted, part.short_of)
    return replace(reason, text=f"{reason.text}{_refused(_for_now(asked))}")


def never_a_place(asked: Sequence[Asked], whole: CapacityTable) -> Reason | None:
    """Why a gang wouldn't fit even if nothing ran; None where it would, or where that isn't certain.

    ``whole`` is what the nodes have when nothing runs.
    """
    ideal = [replace(one.shape, nodes=one.possible) for one in asked]
    for one, shape in zip(asked, ideal, strict=True):
        if not shape.nodes:
            return unsatisfiable(f"{_no_node(one)}{_who(one, asked)}")
        if not capacity(shape, whole).any():
            return unsatisfiable(f"{_too_large(shape, whole, one.a_node)}{_who(one, asked)}")
    try:
        if decide(ideal, whole) is not None:
            return None
    except Undecided:
        return None
    part = largest_part(ideal, whole)
    wanted = sum(shape.count for shape in ideal)
    fit = f"{part.members} of {wanted} members would fit if nothing else ran{short(part.short_of)}"
    return unsatisfiable(f"{fit}{_left_over(ideal, part)}")


def _who(one: Asked, asked: Sequence[Asked]) -> str:
    """How many of unequal members it is about."""
    wanted = sum(each.shape.count for each in asked)
    return f", for {one.shape.count} of {wanted} members" if len(asked) > 1 else ""


def _left_over(shapes: Sequence[Shape], part: Part) -> str:
    """Which of unequal members have no place in ``part``."""
    left: dict[str, int] = {}
    for shape, count in zip(shapes, part.counts, strict=True):
        if len(shapes) > 1 and count < shape.count:
            text = requests_text(shape.requests)
            left[text] = left.get(text, 0) + shape.count - count
    if not left:
        return ""
    listed = [f"{count} x {text}" for text, count in sorted(left.items())]
    more = f" and {len(listed) - SHOWN} more kinds" if len(listed) > SHOWN else ""
    return f"; no place for {', '.join(listed[:SHOWN])}{more}"


def _no_node(one: Asked) -> str:
    if not one.refusals:
        return "the cluster has no nodes" if not one.tie else f"no {one.a_node} is there"
    return f"no {one.a_node} may be used{_refused(one.refusals)}"


def _for_now(asked: Sequence[Asked]) -> dict[str, int]:
    """The refusals that end by themselves, each with the most nodes for which it holds for any of the members."""
    counts: dict[str, int] = {}
    for one in asked:
        for why, count in one.refusals.items():
            if passes(why):
                counts[why] = max(counts.get(why, 0), count)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _refused(refusals: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count} {why}" for why, count in refusals.items())
    return f" (nodes refused: {listed})" if listed else ""


def _too_large(shape: Shape, whole: CapacityTable, a_node: str) -> str:
    """Which amounts no node has, with the largest there is; or what the nearest node has."""
    requests = shape.requests
    amounts = whole.free[whole.at(shape.nodes)]
    names = [name for name in sorted(requests) if requests[name] > 0]
    columns = [whole.columns[name] for name in names]
    asked = np.array([requests[name] for name in names])
    largest = amounts[:, columns].max(axis=0)
    lacking = [
        f"{amount_text(name, requests[name])} (the largest has {amount_text(name, int(most)) if most > 0 else 'none'})"
        for name, most in zip(names, largest, strict=True)
        if requests[name] > most
    ]
    if lacking:
        return f"no {a_node} has {', nor '.join(lacking)}"
    missing = amounts[:, columns] < asked
    fewest = missing[missing.sum(axis=1) == missing.sum(axis=1).min()]
    nearest = min(tuple(np.flatnonzero(row).tolist()) for row in np.unique(fewest, axis=0))
    alike = (missing == np.isin(np.arange(len(names)), nearest)).all(axis=1)
    best = max(amounts[alike][:, [columns[one] for one in nearest]].tolist())
    had = " and ".join(_have(names[one], int(amount)) for one, amount in zip(nearest, best, strict=True))
    wanted = [
        amount_text(name, requests[name])
        for place, name in enumerate(names)
        if name != PODS or place in nearest
    ]
    return f"no single {a_node} has {' and '.join(wanted)} (the nearest has {had})"


def _have(name: str, amount: int) -> str:
    return amount_text(name, amount) if amount > 0 else f"no {name}"
