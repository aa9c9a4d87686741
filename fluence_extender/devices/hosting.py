"""How many pods with claims a node can host.

kube-scheduler serves one pod after another. Pods that are ungated come in an order that isn't known, so each of them
has to find its devices in every order. Pods that are still gated follow in an order that the service chooses: it
ungates a pod only where all others find their devices whichever comes first (`hosts`). So a node hosts them if there is
one order in which all are served. Both are tried with up to `MOST_STATES` states of its devices; beyond that the answer
is no.

An expression that fails for a device that the allocator might look at ends its attempt, so such a node hosts no pod
that asks by this expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fluence_extender.devices.allocator import DeviceAllocator, Spent, State, View, choices, lens
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node

MOST_STATES = 2_000
"""How many states of its devices the search looks at for one node."""

REMEMBERED = 10_000
"""For so many different states of nodes it is remembered how many pods they host."""


Pods = tuple[tuple[Claims, int], ...]
"""How many pods there are with which claims."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """The pods of a node that wait for allocation: ``ungated`` ones, and ``gated`` ones."""

    ungated: Pods = ()
    gated: Pods = ()

    def beside(self, claims: Claims, count: int) -> Unserved:
        """Return these pods with ``count`` more that are gated; fewer where it is negative."""
        pods = dict(self.gated)
        pods[claims] = pods.get(claims, 0) + count
        return Unserved(self.ungated, tuple(one for one in pods.items() if one[1]))

    @property
    def kinds(self) -> tuple[Claims, ...]:
        """What any of them claims."""
        return tuple(dict.fromkeys(claims for claims, _ in (*self.ungated, *self.gated)))


def most_hosted(node: Node, waiting: Unserved, claims: Claims, most: int) -> int:
    """Return how many pods with ``claims`` a node takes, at most ``most``, beside the pods that wait for allocation."""
    if any(one.problem and not node.has_by_itself(one.extended) for one in claims):
        return 0
    return _most_hosted(lens((claims, *waiting.kinds)).view(node), waiting, claims, most)


def hosts(node: Node, waiting: Unserved) -> bool:
    """Return whether a node serves all of these pods."""
    try:
        return _Orders(waiting.kinds, lens(waiting.kinds).view(node)).serve(waiting)
    except Spent:
        return False


def failure(node: Node, claims: Claims) -> str:
    """Return why the claims can't be planned on a node, "" where they can."""
    for claim in claims:
        if node.has_by_itself(claim.extended):
            continue
        if claim.problem:
            return "" if claim.extended else claim.problem
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
def _most_hosted(view: View, waiting: Unserved, claims: Claims, most: int) -> int:
    kinds = tuple(dict.fromkeys((claims, *waiting.kinds)))
    known = lens(kinds)
    if any((view.failing | view.unfit) >> known.bits[choice] & 1 for choice in choices(claims)):
        return 0
    orders = _Orders(kinds, view)
    hosted = 0
    try:
        while hosted < most and orders.serve(waiting.beside(claims, hosted + 1)):
            hosted += 1
    except Spent:
        pass
    return hosted


Counts = tuple[int, ...]
"""How many pods there are of each kind."""


class _Orders:
    """The orders in which pods of some ``kinds`` may be served on a view."""

    def __init__(self, kinds: Sequence[Claims], view: View) -> None:
        self._kinds = kinds
        self._start = view.start
        self._allocator = DeviceAllocator(lens(tuple(kinds)), view, MOST_STATES)
        self._known: dict[tuple[State, Counts, Counts], bool] = {}
        self._after: dict[tuple[State, int], State | None] = {}

    def serve(self, waiting: Unserved) -> bool:
        """Return whether the ungated pods are served in every order, and then the gated in some. Raises `Spent`."""
        ungated, gated = dict(waiting.ungated), dict(waiting.gated)
        counts = (tuple(pods.get(claims, 0) for claims in self._kinds) for pods in (ungated, gated))
        return self._from(self._start, *counts)

    def _from(self, state: State, ungated: Counts, gated: Counts) -> bool:
        key = state, ungated, gated
        known = self._known.get(key)
        if known is None:
            if any(ungated):
                known = all(self._next(key, kind, ungated) for kind, count in enumerate(ungated) if count)
            else:
                known = not any(gated) or any(
                    self._next(key, kind, gated) for kind, count in enumerate(gated) if count
                )
            self._known[key] = known
        return known

    def _next(self, key: tuple[State, Counts, Counts], kind: int, pods: Counts) -> bool:
        """Return whether all are served if one of ``pods``, of this kind, comes next."""
        state, ungated, gated = key
        if (state, kind) not in self._after:
            self._after[state, kind] = self._allocator.after(state, self._kinds[kind])
        after = self._after[state, kind]
        if after is None:
            return False
        rest = (*pods[:kind], pods[kind] - 1, *pods[kind + 1 :])
        return self._from(after, rest, gated) if pods is ungated else self._from(after, ungated, rest)
