"""In which order queues have their turns: within what is guaranteed to them first, then who has had the least.

A branch's *share* is the largest part of any resource of the cluster that its gangs hold, divided by its weight; of
branches with a half-life it counts what they held before, too. Waiting entries are ranked as if each started in its
turn: the queue with the smallest share gives the next one, within it the user with the smallest share, and what the
entry asks for is added to both. So the start of an entry moves none behind it, and the order only changes when
something ends, comes, or decays.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.model.resources import PODS
from fluence_extender.queueing.entry import Entitlement
from fluence_extender.queueing.quota import QuotaUse
from fluence_extender.queueing.tree import Amount

Group = tuple[str, str]
"""A queue and one of its users."""

Parts = Mapping[str, float]
"""Which part of each resource of the cluster."""

FIRST = 512
"""So many entries are ranked one after the other, as many as a step starts. The rest is ranked as its queue is then."""

DIGITS = 9

NO_PARTS: Parts = {}


@dataclass(frozen=True, slots=True)
class ShareEntry:
    """An entry in line. ``within`` is its rank within its user's entries; one that asks for nothing adds nothing."""

    key: str
    group: Group
    within: tuple[object, ...]
    asks: Amount


@dataclass(frozen=True, slots=True)
class Shares:
    """What branches and users have had: parts of the cluster, by name and by group; ``weights`` are those of queues."""

    capacity: Amount
    branches: Mapping[str, Parts]
    users: Mapping[Group, Parts]
    weights: Mapping[str, float]

    def of(self, queue: str, more: Parts = NO_PARTS) -> float:
        """Return the share of a queue that has ``more`` than it has."""
        return dominant(self.branches.get(queue, NO_PARTS), more) / self.weights.get(queue, 1.0)

    def of_user(self, group: Group, more: Parts = NO_PARTS) -> float:
        """Return the share of a user of a queue who has ``more`` than he has."""
        return dominant(self.users.get(group, NO_PARTS), more)


def dominant(parts: Parts, more: Parts = NO_PARTS) -> float:
    """Return the largest of the sums of two parts of the same resource."""
    return max((parts.get(kind, 0.0) + more.get(kind, 0.0) for kind in {*parts, *more}), default=0.0)


def parts_of(amounts: Mapping[str, float], capacity: Amount) -> dict[str, float]:
    """Return which part of the cluster amounts are. Pod slots don't count, because nobody competes for them."""
    return {
        kind: amount / capacity[kind]
        for kind, amount in amounts.items()
        if kind != PODS and amount > 0 and capacity.get(kind, 0)
    }


_Head = tuple[tuple[int, float], tuple[object, ...], Group]
"""The tier of an entry and the share of its user, its rank within the user's entries, and its group."""


class Ranking:
    """Ranks what waits; ``shares`` is None where queues aren't compared by what they have had."""

    def __init__(self, use: QuotaUse, shares: Shares | None) -> None:
        self._use = use
        self._shares = shares
        self._amounts: dict[str, dict[str, int]] = {}
        self._parts: dict[str | Group, dict[str, float]] = {}

    def rank(self, waiting: Iterable[ShareEntry]) -> dict[str, Entitlement]:
        """Return what each entry is entitled to, by its key."""
        lines: dict[Group, list[ShareEntry]] = {}
        for one in waiting:
            lines.setdefault(one.group, []).append(one)
        queues: dict[str, list[_Head]] = {}
        for group, line in lines.items():
            line.sort(key=lambda one: one.within, reverse=True)
            queues.setdefault(group[0], []).append(self._head(line))
        for some in queues.values():
            heapq.heapify(some)

        def best(queue: str) -> tuple[Entitlement, tuple[object, ...], Group]:
            some = queues[queue]
            # What others were given meanwhile may count against it.
            while (fresh := self._head(lines[some[0][2]])) != some[0]:
                heapq.heapreplace(some, fresh)
            _, within, group = some[0]
            return self.entitlement(group, lines[group][-1].asks), within, group

        heads = [best(queue) for queue in queues]
        heapq.heapify(heads)
        found: dict[str, Entitlement] = {}
        while heads and len(found) < FIRST:
            _, _, (queue, _) = heads[0]
            now = best(queue)
            if now != heads[0]:
                heapq.heapreplace(heads, now)
                continue
            entitlement, _, group = now
            first = lines[group].pop()
            found[first.key] = entitlement
            self._give(first)
            if lines[group]:
                heapq.heapreplace(queues[queue], self._head(lines[group]))
            else:
                heapq.heappop(queues[queue])
            if queues[queue]:
                heapq.heapreplace(heads, best(queue))
            else:
                heapq.heappop(heads)
        for group, line in lines.items():
            found.update((one.key, self.entitlement(group, one.asks)) for one in line)
        return found

    def _head(self, line: Sequence[ShareEntry]) -> _Head:
        """Return what orders the first entry of a user among those of its queue: they have the queue's shares alike."""
        first = line[-1]
        tier = self._use.tier(first.group[0], first.asks, self._amounts)
        return (tier, self._user_share(first.group)), first.within, first.group

    def _user_share(self, group: Group) -> float:
        if self._shares is None:
            return 0.0
        return round(self._shares.of_user(group, self._parts.get(group, NO_PARTS)), DIGITS)

    def entitlement(self, group: Group, asks: Amount) -> Entitlement:
        """Return what a user of a queue is entitled to who asks for so much next."""
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
