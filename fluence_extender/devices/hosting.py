"""How many pods with claims a node can host.

kube-scheduler serves one pod after another. The order in which it takes ungated pods isn't known, so each of them has
to find its devices in every order. Gated pods follow in an order that the service chooses: it ungates a pod only if all
others find their devices in any order (`hosts`). So a node hosts gated pods if one order serves all of them. The search
examines a limited number of states of the node's devices. If that isn't enough, the answer is no.

kube-scheduler's allocator gives up if an expression fails for a device that it might examine. So such a node hosts no
pod with this expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from fluence_extender.devices.allocator import DeviceAllocator, Spent, State, View, choices, lens
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node

MOST_STATES, STATES_OF_A_POD = 2_000, 64
"""The most states of devices that the search examines for one node, and how many more for each waiting pod."""

REMEMBERED = 10_000
"""The most answers about different states of nodes that are cached."""


Pods = tuple[tuple[Claims, int], ...]
"""Claims, each with the number of pods that have them."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """The pods of a node that wait for allocation: ``ungated`` ones, and ``gated`` ones."""

    ungated: Pods = ()
    gated: Pods = ()

    def beside(self, claims: Claims, count: int, ungated: bool = False) -> Unserved:
        """Return these pods with ``count`` more that are gated, or ``ungated``; fewer if it is negative."""
        pods = dict(self.ungated if ungated else self.gated)
        pods[claims] = pods.get(claims, 0) + count
        left = tuple(one for one in pods.items() if one[1])
        return Unserved(left, self.gated) if ungated else Unserved(self.ungated, left)

    @property
    def kinds(self) -> tuple[Claims, ...]:
        """The different claims of these pods."""
        return tuple(dict.fromkeys(claims for claims, _ in (*self.ungated, *self.gated)))

    @property
    def count(self) -> int:
        """The number of these pods."""
        return sum(count for _, count in (*self.ungated, *self.gated))


NOBODY = Unserved()


def counted(pods: Unserved) -> Counter[tuple[bool, Claims]]:
    """Return the number of pods by whether they are ungated and by their claims."""
    counts: Counter[tuple[bool, Claims]] = Counter()
    for ungated, some in ((True, pods.ungated), (False, pods.gated)):
        for claims, count in some:
            counts[ungated, claims] += count
    return counts


def unserved(counts: Mapping[tuple[bool, Claims], int]) -> Unserved:
    """Return the pods of which `counted` would return these counts."""
    ungated, gated = (
        tuple(
            (claims, count)
            for (is_ungated, claims), count in counts.items()
            if is_ungated is wanted and count
        )
        for wanted in (True, False)
    )
    return Unserved(ungated, gated)


def most_hosted(node: Node, waiting: Unserved, claims: Claims, most: int, ungated: bool = False) -> int:
    """Return how many pods with ``claims`` a node takes, at most ``most``, beside pods that wait for allocation.

    If they come ``ungated``, they have to be served in every order.
    """
    if any(one.problem for one in claims):
        return 0
    return _most_hosted(lens((claims, *waiting.kinds)).view(node), waiting, claims, most, ungated)


def hosts(node: Node, waiting: Unserved) -> bool:
    """Return whether a node serves all of these pods."""
    try:
        return _Orders(waiting.kinds, lens(waiting.kinds).view(node), waiting.count).serve(waiting)
    except Spent:
        return False


def failure(node: Node, claims: Claims) -> str:
    """Return why the claims can't be planned on a node, "" if they can."""
    for claim in claims:
        if node.has_by_itself(claim.extended):
            continue
        if claim.problem:
            return claim.problem
        for choice in choices((claim,)):
            for device in node.devices:
                found = selects(choice.selectors, device)
                if isinstance(found, str):
                    return found
                lacking = [f"{key}={value}" for key, value in choice.requires if not device.has(key, value)]
                if found and lacking:
                    return f"{device.name} hasn't {lacking[0]}"
    return ""


@lru_cache(maxsize=REMEMBERED)
def _most_hosted(view: View, waiting: Unserved, claims: Claims, most: int, ungated: bool) -> int:
    kinds = tuple(dict.fromkeys((claims, *waiting.kinds)))
    known = lens(kinds)
    if any((view.failing | view.unfit) >> known.bits[choice] & 1 for choice in choices(claims)):
        return 0
    orders = _Orders(kinds, view, waiting.count)
    hosted = 0
    try:
        while hosted < most and orders.serve(waiting.beside(claims, hosted + 1, ungated)):
            hosted += 1
    except Spent:
        pass
    return hosted


Counts = tuple[int, ...]
"""How many pods there are of each kind."""


class _Orders:
    """The orders in which pods of some ``kinds`` may be served on a view."""

    def __init__(self, kinds: Sequence[Claims], view: View, pods: int) -> None:
        self._kinds = kinds
        self._start = view.start
        self._allocator = DeviceAllocator(lens(tuple(kinds)), view, MOST_STATES + STATES_OF_A_POD * pods)
        self._after: dict[tuple[State, int], State | None] = {}

    def serve(self, waiting: Unserved) -> bool:
        """Return whether every order serves the ungated pods, and after each some order serves the gated ones.

        Raises `Spent` once the search has examined too many states.
        """
        reached = {(self._start, self._counts(waiting.ungated))}
        while any(any(left) for _, left in reached):
            following = [self._served(state, left, every=True) for state, left in reached]
            if not all(following):
                return False
            reached = set(chain.from_iterable(following))
        gated = self._counts(waiting.gated)
        return all(self._in_some_order(state, gated) for state, _ in reached)

    def _counts(self, pods: Pods) -> Counts:
        counts = dict(pods)
        return tuple(counts.get(claims, 0) for claims in self._kinds)

    def _in_some_order(self, state: State, pods: Counts) -> bool:
        stack, seen = [(state, pods)], {(state, pods)}
        while stack:
            at, left = stack.pop()
            if not any(left):
                return True
            found = [one for one in self._served(at, left, every=False) if one not in seen]
            seen.update(found)
            stack.extend(reversed(found))
        return False

    def _served(self, state: State, left: Counts, every: bool) -> list[tuple[State, Counts]]:
        """Return the states after a pod of each kind comes next; if ``every`` kind has to be served, all or none."""
        found = []
        for kind, count in enumerate(left):
            if not count:
                continue
            if (state, kind) not in self._after:
                self._after[state, kind] = self._allocator.after(state, self._kinds[kind])
            after = self._after[state, kind]
            if after is not None:
                found.append((after, (*left[:kind], count - 1, *left[kind + 1 :])))
            elif every:
                return []
        return found
