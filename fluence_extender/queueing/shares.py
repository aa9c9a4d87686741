"""The order in which queues are served: first those within their guarantees, then those with the smallest shares.

A branch's *share* is the largest part of any resource of the cluster that its gangs hold, divided by its weight. If the
branch has a half-life, its past use counts, too. Waiting entries are ranked as if each started in its turn: the next
entry comes from the queue with the smallest share, and within it from the user with the smallest share. The entry's
request is then added to both. So the start of an entry doesn't change the order of those behind it. The order changes
only when an entry ends or comes, or when past use decays.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.model.resources import PODS
from fluence_extender.queueing.entry import Entitlement
from fluence_extender.queueing.quota import QuotaUse
from fluence_extender.queueing.tree import Amount

Group = tuple[str, str]
"""A queue and one of its users."""

Parts = Mapping[str, float]
"""Parts of the cluster's capacity, by resource."""

FIRST = 512
"""The entries that are ranked one by one, as many as a step starts. The rest is ranked by the shares after these."""

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
    """Return amounts as parts of the capacity. Pod slots don't count, because nobody competes for them."""
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
        for one in waiting:
            lines.setdefault(one.group, []).append(one)
        queues: dict[str, list[_First]] = {}
        for group, line in lines.items():
            line.sort(key=lambda one: one.within, reverse=True)
            queues.setdefault(group[0], []).append(self._first_of(line))
        for some in queues.values():
            heapq.heapify(some)

        def best(queue: str) -> tuple[Entitlement, tuple[object, ...], Group]:
            some = queues[queue]
            # Entries that were ranked since then may count against it.
            while (fresh := self._first_of(lines[some[0][2]])) != some[0]:
                heapq.heapreplace(some, fresh)
            _, within, group = some[0]
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
            self._give(first)
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
        """Return a key that orders the first entries of the users of one queue, which all have the queue's share."""
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
        return (tier, tuple(round(one, DIGITS) for one in shares))

    def _give(self, one: ShareEntry) -> None:
        path = self._use.tree.branch(one.group[0]).path
        for name in path:
            amounts = self._amounts.setdefault(name, {})
            for kind, amount in one.asks.items():
                amounts[kind] = amounts.get(kind, 0) + amount
        if self._shares is None:
            return
        more = parts_of(one.asks, self._shares.capacity)
        places: tuple[str | Group, ...] = (*path, one.group)
        for place in places:
            parts = self._parts.setdefault(place, {})
            for kind, part in more.items():
                parts[kind] = parts.get(kind, 0.0) + part
