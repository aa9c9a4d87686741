"""How many pods with claims a node can host.

kube-scheduler serves one pod after another, in an order that isn't known beforehand. So a node hosts some pods only
where each of them finds its devices in whatever order they come. Pods with equal claims are served one by one. Others
are tried in every order, up to `MOST_STATES`; beyond that the answer is no.

An expression that fails for a device that the allocator might look at ends its attempt, so such a node hosts no pod
that asks by this expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fluence_extender.devices.allocator import Allocator, Lens, Spent, State, View, choices, lens
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node

MOST_STATES = 2_000
"""How many states of its devices the search looks at for one node."""

REMEMBERED = 10_000
"""For so many different states of nodes it is remembered how many pods they host."""


Pods = tuple[tuple[Claims, int], ...]
"""How many pods there are with which claims."""


def most_hosted(node: Node, waiting: Sequence[Claims], claims: Claims, most: int) -> int:
    """Return how many pods with ``claims`` a node takes, at most ``most``, beside the pods that wait for allocation."""
    if any(one.problem for one in claims):
        return 0
    others = _pods(Counter(waiting))
    return _most_hosted(lens((claims, *(one for one, _ in others))).view(node), others, claims, most)


def hosts(node: Node, pods: Mapping[Claims, int]) -> bool:
    """Return whether a node takes all of these pods, whichever is served first."""
    if any(one.problem for claims in pods for one in claims):
        return False
    some = _pods(pods)
    return _hosts(lens(tuple(one for one, _ in some)).view(node), some)


def failure(node: Node, claims: Claims) -> str:
    """Return why the claims can't be planned on a node, "" where they can."""
    for claim in claims:
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


def _pods(pods: Mapping[Claims, int]) -> Pods:
    return tuple(sorted(pods.items(), key=lambda one: hash(one[0])))


@lru_cache(maxsize=REMEMBERED)
def _most_hosted(view: View, others: Pods, claims: Claims, most: int) -> int:
    known = lens((claims, *(one for one, _ in others)))
    if _is_excluded(known, view, claims):
        return 0
    pods = dict(others)
    pods.setdefault(claims, 0)
    orders = _Orders(Allocator(known, view, MOST_STATES), tuple(pods))
    hosted = 0
    try:
        while hosted < most:
            pods[claims] += 1
            if not orders.all(view.start, tuple(pods.values())):
                break
            hosted += 1
    except Spent:
        pass
    return hosted


@lru_cache(maxsize=REMEMBERED)
def _hosts(view: View, pods: Pods) -> bool:
    known = lens(tuple(one for one, _ in pods))
    if any(_is_excluded(known, view, claims) for claims, _ in pods):
        return False
    orders = _Orders(Allocator(known, view, MOST_STATES), tuple(claims for claims, _ in pods))
    try:
        return orders.all(view.start, tuple(count for _, count in pods))
    except Spent:
        return False


def _is_excluded(known: Lens, view: View, claims: Claims) -> bool:
    """Return whether an expression of the claims fails on the node, or a device there hasn't what is required."""
    return any((view.failing | view.unfit) >> known.bits[choice] & 1 for choice in choices(claims))


class _Orders:
    """The orders in which pods of some ``kinds`` may be served."""

    def __init__(self, allocator: Allocator, kinds: Sequence[Claims]) -> None:
        self._allocator = allocator
        self._kinds = kinds
        self._known: dict[tuple[State, tuple[int, ...]], bool] = {}
        self._after: dict[tuple[State, int], State | None] = {}

    def all(self, state: State, left: tuple[int, ...]) -> bool:
        """Return whether the pods ``left`` find their devices in every order. Raises `Spent`."""
        if not any(left):
            return True
        known = self._known.get((state, left))
        if known is None:
            known = self._known[state, left] = all(
                self._all_after(state, left, at) for at, count in enumerate(left) if count
            )
        return known

    def _all_after(self, state: State, left: tuple[int, ...], at: int) -> bool:
        if (state, at) not in self._after:
            self._after[state, at] = self._allocator.after(state, self._kinds[at])
        after = self._after[state, at]
        return after is not None and self.all(after, (*left[:at], left[at] - 1, *left[at + 1 :]))
