"""Which queue is served next, and from which queue another takes back what it is guaranteed.

Queues within their guarantees come first, and then those with the smallest shares.

A branch's *share* is the largest part of any resource of the cluster that its gangs hold, divided by its weight. If the
branch has a half-life, its past use counts, too. Waiting entries are ranked as if each started in its turn: the next
entry comes from the queue with the smallest share, and within it from the user with the smallest share. The entry's
request is then added to both. So the start of an entry doesn't change the order of those behind it. The order changes
only when an entry ends or comes, or when past use decays.

Past use decays by half in each half-life. As long as the held amounts don't change, a formula gives the sum. So the
result is exact, and doesn't depend on how often it is computed.

A queue *borrows* from the owner of a guarantee if its own entries hold more than its own guarantee, and if each branch
above it that isn't also above the owner holds more than its guarantee. An entry may *reclaim* its places if its queue
stays within its guarantee with it.

Invariant: chains of taking back end. Let B be what all queues together hold beyond their own guarantees. An entry that
reclaims adds nothing to B, and each victim is taken while its queue borrows, so B falls by at least one unit. B never
falls below zero. The entry can't lose its places to the queue that they were taken from, because its own queue doesn't
borrow.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fluence_extender.model.resources import PODS
from fluence_extender.queueing.entry import Entitlement
from fluence_extender.queueing.quota import EMPTY, NONE, Amount, QuotaUse

# Past use.

LN2 = math.log(2.0)


def later(
    before: Mapping[str, float], held: Mapping[str, int], seconds: float, half_life: float
) -> dict[str, float]:
    """Return the past use, in amounts times seconds, after ``held`` has been held for some more ``seconds``."""
    left = 2.0 ** (-max(seconds, 0.0) / half_life)
    gained = half_life / LN2 * (1.0 - left)
    past = {kind: used * left for kind, used in before.items()}
    for kind, amount in held.items():
        past[kind] = past.get(kind, 0.0) + amount * gained
    return past


def average(used: Mapping[str, float], half_life: float) -> dict[str, float]:
    """Return the amounts that would give the same past use if they had always been held."""
    return {kind: amount * LN2 / half_life for kind, amount in used.items()}


# The order.

Group = tuple[str, str]
"""A queue and one of its users."""

Parts = Mapping[str, float]
"""Parts of the cluster's capacity, by resource."""

FIRST = 512
"""How many entries are ranked one by one: as many as a step starts. The others are ranked by the shares after these."""

DIGITS = 9

NO_PARTS: Parts = {}


@dataclass(frozen=True, slots=True)
class ShareEntry:
    """An entry in line. ``within`` ranks it among its user's entries. If it asks for nothing, it adds to no share."""

    key: str
    group: Group
    within: tuple[object, ...]
    asks: Amount


@dataclass(frozen=True, slots=True)
class Shares:
    """The use of branches by name and of users by group, as parts of the cluster, and the weights of queues."""

    capacity: Amount
    branches: Mapping[str, Parts]
    users: Mapping[Group, Parts]
    weights: Mapping[str, float]

    def of(self, queue: str, more: Parts = NO_PARTS) -> float:
        """Return the share of a queue if it had ``more``."""
        return dominant(self.branches.get(queue, NO_PARTS), more) / self.weights.get(queue, 1.0)

    def of_user(self, group: Group, more: Parts = NO_PARTS) -> float:
        """Return the share of a queue's user if that user had ``more``."""
        return dominant(self.users.get(group, NO_PARTS), more)


def dominant(parts: Parts, more: Parts = NO_PARTS) -> float:
    """Return the largest sum, over all resources, of both parts of one resource."""
    return max((parts.get(kind, 0.0) + more.get(kind, 0.0) for kind in {*parts, *more}), default=0.0)


def parts_of(amounts: Mapping[str, float], capacity: Amount) -> dict[str, float]:
    """Return amounts as parts of the capacity. Pod slots don't count, because entries don't compete for them."""
    return {
        kind: amount / capacity[kind]
        for kind, amount in amounts.items()
        if kind != PODS and amount > 0 and capacity.get(kind, 0)
    }


_First = tuple[tuple[int, float], tuple[object, ...], Group]
"""The tier of an entry and the share of its user, its rank within the user's entries, and its group."""


class Ranking:
    """Ranks waiting entries. ``shares`` is None if queues aren't compared by their shares."""

    def __init__(self, use: QuotaUse, shares: Shares | None) -> None:
        self._use = use
        self._shares = shares
        self._amounts: dict[str, dict[str, int]] = {}
        self._parts: dict[str | Group, dict[str, float]] = {}

    def rank(self, waiting: Iterable[ShareEntry]) -> Iterator[tuple[str, Entitlement]]:
        """Yield the key and the entitlement of each entry."""
        lines: dict[Group, list[ShareEntry]] = {}
        for entry in waiting:
            lines.setdefault(entry.group, []).append(entry)
        queues: dict[str, list[_First]] = {}
        for group, line in lines.items():
            line.sort(key=lambda one: one.within, reverse=True)
            queues.setdefault(group[0], []).append(self._first_of(line))
        for keys in queues.values():
            heapq.heapify(keys)

        def best(queue: str) -> tuple[Entitlement, tuple[object, ...], Group]:
            keys = queues[queue]
            # Entries that were ranked in the meantime may have moved the user back.
            while (fresh := self._first_of(lines[keys[0][2]])) != keys[0]:
                heapq.heapreplace(keys, fresh)
            _, within, group = keys[0]
            return self.entitlement(group, lines[group][-1].asks), within, group

        firsts = [best(queue) for queue in queues]
        heapq.heapify(firsts)
        ranked = 0
        while firsts and ranked < FIRST:
            _, _, (queue, _) = firsts[0]
            now = best(queue)
            if now != firsts[0]:
                heapq.heapreplace(firsts, now)
                continue
            entitlement, _, group = now
            first = lines[group].pop()
            yield first.key, entitlement
            ranked += 1
            self._add_to_shares(first)
            if lines[group]:
                heapq.heapreplace(queues[queue], self._first_of(lines[group]))
            else:
                heapq.heappop(queues[queue])
            if queues[queue]:
                heapq.heapreplace(firsts, best(queue))
            else:
                heapq.heappop(firsts)
        for group, line in lines.items():
            yield from ((one.key, self.entitlement(group, one.asks)) for one in line)

    def _first_of(self, line: Sequence[ShareEntry]) -> _First:
        """Return a key that orders the first entries of the users of one queue, for whom its share is the same."""
        first = line[-1]
        tier = self._use.tier(first.group[0], first.asks, self._amounts)
        return (tier, self._user_share(first.group)), first.within, first.group

    def _user_share(self, group: Group) -> float:
        if self._shares is None:
            return 0.0
        return round(self._shares.of_user(group, self._parts.get(group, NO_PARTS)), DIGITS)

    def entitlement(self, group: Group, asks: Amount) -> Entitlement:
        """Return the entitlement of a queue's user whose next entry asks for these amounts."""
        queue, _ = group
        tier = self._use.tier(queue, asks, self._amounts)
        if self._shares is None:
            return (tier, ())
        path: Sequence[str] = self._use.tree.branch(queue).path
        shares = [self._shares.of(name, self._parts.get(name, NO_PARTS)) for name in reversed(path)]
        shares.append(self._shares.of_user(group, self._parts.get(group, NO_PARTS)))
        # The same amounts in another order must not give another share.
        return (tier, tuple(round(share, DIGITS) for share in shares))

    def _add_to_shares(self, entry: ShareEntry) -> None:
        path = self._use.tree.branch(entry.group[0]).path
        for name in path:
            amounts = self._amounts.setdefault(name, {})
            for kind, amount in entry.asks.items():
                amounts[kind] = amounts.get(kind, 0) + amount
        if self._shares is None:
            return
        asked_parts = parts_of(entry.asks, self._shares.capacity)
        places: tuple[str | Group, ...] = (*path, entry.group)
        for place in places:
            parts = self._parts.setdefault(place, {})
            for kind, part in asked_parts.items():
                parts[kind] = parts.get(kind, 0.0) + part


# Taking back.

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
    """Return the entries of ``running`` that may be evicted so that the queue ``owner`` gets what it asks for.

    ``own`` is what each queue's own entries hold. The entries of ``leaving`` are gone soon. The entries of each queue
    are chosen one by one, in the order of ``running``, for as long as the queue borrows.
    """
    tree = use.tree
    above = frozenset(tree.branch(owner).path)
    gone: dict[str, dict[str, int]] = {}
    gone_inside: dict[str, dict[str, int]] = {}

    def take(entry: HeldPlaces[Key]) -> None:
        _add(gone.setdefault(entry.queue, {}), entry.amounts)
        for name in tree.branch(entry.queue).path:
            _add(gone_inside.setdefault(name, {}), entry.amounts)

    def borrows(entry: HeldPlaces[Key], kind: str) -> bool:
        def is_beyond(name: str, held: Amount, gone_amounts: Amount) -> bool:
            return held.get(kind, 0) - gone_amounts.get(kind, 0) > tree.branch(name).guaranteed.get(kind, 0)

        return is_beyond(entry.queue, own.get(entry.queue, NONE), gone.get(entry.queue, NONE)) and all(
            is_beyond(name, use.used(name), gone_inside.get(name, NONE))
            for name in tree.branch(entry.queue).path
            if name not in above
        )

    for entry in leaving:
        take(entry)
    wanted = [kind for kind, amount in asks.items() if amount > 0 and kind in tree.guaranteed]
    taken = []
    for entry in running:
        if entry.queue != owner and any(
            entry.amounts.get(kind, 0) > 0 and borrows(entry, kind) for kind in wanted
        ):
            take(entry)
            taken.append(entry)
    return taken


def _add(sums: dict[str, int], amounts: Amount) -> None:
    for kind, amount in amounts.items():
        sums[kind] = sums.get(kind, 0) + amount
