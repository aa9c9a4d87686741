"""The order in which a pass tries the waiting gangs, given what their queues and users have at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.gangs.planning.view import View
from fluence_extender.gangs.queue.turns import RANK, ToTry, turn, waits
from fluence_extender.model.gang import GangKey
from fluence_extender.queueing.entry import EQUAL, Entitlement
from fluence_extender.queueing.order import Rank


@dataclass(frozen=True, slots=True)
class Order:
    """The gangs to try in their ``line``, and what was found out about their order.

    ``cut`` is the rank of the last gang that the queue's queueDepth lets a pass try, None if it lets all. ``entitled``
    has the gangs whose entitlement has changed, with the new one. ``moved`` says whether the order differs from that in
    the view.
    """

    line: Sequence[ToTry]
    cut: Rank | None
    entitled: Sequence[tuple[GangKey, Entitlement]] = ()
    moved: bool = False


def ranked(view: View) -> Order:
    """Return the order in which gangs are tried."""
    queues, gangs = view.queues, view.registry.gangs
    shares = queues.admission.shares
    if not shares.active and shares.ranking is None:
        return Order(view.line, queues.cut)
    before = {key: rank for rank, key in view.line}
    waiting = [gang for gang in gangs.values() if waits(gang)]
    entitlements = shares.entitlements(waiting, before)
    entitled = [
        (gang.key, entitlements.get(gang.key, EQUAL))
        for gang in waiting
        if gang.entitlement != entitlements.get(gang.key, EQUAL)
    ]
    line = [ToTry(_with_entitlement(rank, entitlements.get(key, EQUAL)), key) for rank, key in view.line]
    line.sort(key=RANK)
    moved = [key for _, key in line] != [key for _, key in view.line]
    depth, cut = queues.policy.queue_depth, None
    if depth is not None and len(waiting) > depth:
        ranks = (
            _with_entitlement(before.get(gang.key) or turn(gang), entitlements.get(gang.key, EQUAL))
            for gang in waiting
        )
        cut = sorted(ranks)[depth - 1]
    return Order(line, cut, entitled, moved)


def _with_entitlement(rank: Rank, entitlement: Entitlement) -> Rank:
    """Return a rank with another entitlement."""
    return (rank[0], entitlement, *rank[2:])
