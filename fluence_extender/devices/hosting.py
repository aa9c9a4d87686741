"""How many pods with claims a node can host.

The service ungates the pods with claims of one node one after the other, in an order that serves all of them. So a
node hosts pods if one order serves all of them. The search examines a limited number of states of the node's devices.
If that isn't enough, the answer is no.

kube-scheduler's allocator gives up if an expression fails for a device that it might examine. So such a node hosts no
pod with this expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from fluence_extender.devices.allocator import (
    DeviceAllocator,
    DeviceView,
    Spent,
    State,
    choices,
    kinds_of,
    lens,
    work,
)
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node

MOST_STATES, STATES_OF_A_POD = 2_000, 64
"""The most states of devices that the search examines for one node, and how many more for each waiting pod.

However many pods wait, it examines at most twice as many as without any.
"""

REMEMBERED = 10_000
"""The most answers about different states of nodes that are cached."""


Pods = tuple[tuple[Claims, int], ...]
"""Claims, each with the number of pods that have them and wait for allocation."""

Counts = tuple[int, ...]
"""How many pods there are of each kind."""


def beside(pods: Pods, claims: Claims, count: int) -> Pods:
    """Return ``pods`` with ``count`` more that have these claims; fewer if it is negative."""
    counts = dict(pods)
    counts[claims] = counts.get(claims, 0) + count
    return tuple(one for one in counts.items() if one[1])


def most_hosted(node: Node, waiting: Pods, claims: Claims, most: int) -> int:
    """Return how many pods with ``claims`` a node takes, at most ``most``, beside pods that wait for allocation."""
    if any(one.problem for one in claims):
        return 0
    kinds = tuple(dict.fromkeys((claims, *(kind for kind, _ in waiting))))
    return _most_hosted(lens(kinds).view(node), waiting, kinds, most)


def hosts(node: Node, waiting: Pods, first: Claims = ()) -> bool:
    """Return whether some order serves all of these pods on a node; if given, a pod with the claims ``first`` first."""
    kinds = tuple(claims for claims, _ in waiting)
    orders = _Orders(kinds, lens(kinds).view(node), sum(count for _, count in waiting))
    try:
        return orders.serve(waiting, first)
    except Spent:
        return False


def failure(node: Node, claims: Claims) -> str:
    """Return why the claims can't be planned on a node, "" if they can."""
    for claim in claims:
        if node.has_by_itself(claim.extended):
            continue
        if claim.problem:
            return claim.problem
        for selectors, requires in kinds_of((claim,)):
            for device in node.devices:
                work.done += max(len(selectors), 1)
                found = selects(selectors, device)
                if isinstance(found, str):
                    return found
                if found is None:
                    return "its selectors are being evaluated"
                lacking = [f"{key}={value}" for key, value in requires if not device.has(key, value)]
                if found and lacking:
                    return f"{device.name} hasn't {lacking[0]}"
    return ""


@lru_cache(maxsize=REMEMBERED)
def _most_hosted(view: DeviceView, waiting: Pods, kinds: tuple[Claims, ...], most: int) -> int:
    """Return how many pods of the first of ``kinds`` a node takes."""
    claims, bits = kinds[0], lens(kinds).bits
    if any((view.failing | view.unfit) >> bits[choice] & 1 for choice in choices(claims)):
        return 0
    orders = _Orders(kinds, view, sum(count for _, count in waiting))
    hosted = 0
    try:
        while hosted < most and orders.serve(beside(waiting, claims, hosted + 1)):
            hosted += 1
    except Spent:
        pass
    return hosted


class _Orders:
    """The orders in which pods of some ``kinds`` may be served on a view."""

    def __init__(self, kinds: Sequence[Claims], view: DeviceView, pods: int) -> None:
        self._kinds = kinds
        self._start = view.start
        most = MOST_STATES + min(STATES_OF_A_POD * pods, MOST_STATES)
        self._allocator = DeviceAllocator(lens(tuple(kinds)), view, most)
        self._after: dict[tuple[State, int], State | None] = {}

    def serve(self, waiting: Pods, first: Claims = ()) -> bool:
        """Return whether some order serves all pods, and serves a pod with the claims ``first`` before the others.

        Raises `Spent` once the search has examined too many states.
        """
        state = self._start
        if first:
            after = self._served(state, self._kinds.index(first))
            if after is None:
                return False
            state, waiting = after, beside(waiting, first, -1)
        counts = dict(waiting)
        start = state, tuple(counts.get(claims, 0) for claims in self._kinds)
        stack, seen = [start], {start}
        while stack:
            state, left = stack.pop()
            if not any(left):
                return True
            found = [one for one in self._following(state, left) if one not in seen]
            seen.update(found)
            stack.extend(reversed(found))
        return False

    def _following(self, state: State, left: Counts) -> Iterator[tuple[State, Counts]]:
        """Yield what follows if a pod of each kind comes next."""
        for kind, count in enumerate(left):
            after = self._served(state, kind) if count else None
            if after is not None:
                yield after, (*left[:kind], count - 1, *left[kind + 1 :])

    def _served(self, state: State, kind: int) -> State | None:
        if (state, kind) not in self._after:
            self._after[state, kind] = self._allocator.after(state, self._kinds[kind])
        return self._after[state, kind]
