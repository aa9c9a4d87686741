"""The victims of a queue that takes back what it is guaranteed.

A queue *borrows* if its own entries hold more than its guarantee, and if each branch above it that isn't also above the
owner holds more than its guarantee. An entry may *reclaim* its places if its queue stays within its guarantee with it.

Invariant: chains of taking back end. Let B be what all queues together hold beyond their own guarantees. Such an entry
adds nothing to B, and each victim is taken while its queue borrows, so B falls by at least one unit. B never falls
below zero. Such an entry can't lose its places to the queue that they were taken from, because its own queue doesn't
borrow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fluence_extender.queueing.quota import EMPTY, NONE, QuotaUse
from fluence_extender.queueing.tree import Amount

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HeldPlaces(Generic[Key]):
    """What one entry of ``queue`` holds."""

    key: Key
    queue: str
    amounts: Amount


def may_reclaim(use: QuotaUse, queue: str, asks: Amount, ahead: Mapping[str, Amount] = EMPTY) -> bool:
    """Return whether a queue stays within its guarantee with ``asks``; branches get the amounts ``ahead`` first."""
    guaranteed = use.tree.branch(queue).guaranteed
    concerned = any(amount > 0 and guaranteed.get(kind, 0) for kind, amount in asks.items())
    return concerned and use.tier(queue, asks, ahead) == 0


def beyond_guarantees(
    use: QuotaUse,
    own: Mapping[str, Amount],
    owner: str,
    asks: Amount,
    leaving: Iterable[HeldPlaces[Key]],
    running: Iterable[HeldPlaces[Key]],
) -> list[HeldPlaces[Key]]:
    """Return the entries of ``running`` that may be taken so that the queue ``owner`` gets what it asks for.

    ``own`` is what each queue's own entries hold. The entries of ``leaving`` are gone soon. The entries of each queue
    are taken one by one, in the order of ``running``, for as long as the queue borrows.
    """
    tree = use.tree
    above = frozenset(tree.branch(owner).path)
    gone: dict[str, dict[str, int]] = {}
    gone_inside: dict[str, dict[str, int]] = {}

    def take(one: HeldPlaces[Key]) -> None:
        _add(gone.setdefault(one.queue, {}), one.amounts)
        for name in tree.branch(one.queue).path:
            _add(gone_inside.setdefault(name, {}), one.amounts)

    def borrows(one: HeldPlaces[Key], kind: str) -> bool:
        def over(name: str, held: Amount, less: Amount) -> bool:
            return held.get(kind, 0) - less.get(kind, 0) > tree.branch(name).guaranteed.get(kind, 0)

        return over(one.queue, own.get(one.queue, NONE), gone.get(one.queue, NONE)) and all(
            over(name, use.used(name), gone_inside.get(name, NONE))
            for name in tree.branch(one.queue).path
            if name not in above
        )

    for one in leaving:
        take(one)
    wanted = [kind for kind, amount in asks.items() if amount > 0 and kind in tree.guaranteed]
    found = []
    for one in running:
        if one.queue != owner and any(one.amounts.get(kind, 0) > 0 and borrows(one, kind) for kind in wanted):
            take(one)
            found.append(one)
    return found


def _add(sums: dict[str, int], amounts: Amount) -> None:
    for kind, amount in amounts.items():
        sums[kind] = sums.get(kind, 0) + amount
