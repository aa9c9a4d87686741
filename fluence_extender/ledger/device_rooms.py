"""How many pods with claims each node hosts, beside what is allocated there and what waits for its allocation.

A pod waits from its plan until kube-scheduler has allocated its claims. What nodes host is remembered for the claims
that were asked for last, until a node changes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fluence_extender.devices import hosting
from fluence_extender.devices.hosting import Unserved
from fluence_extender.ledger.capacity import Amounts
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node

MOST = 128
"""A node is said to host at most so many pods with the same claims."""

NONE: Mapping[Claims, int] = {}

REMEMBERED = 64
"""For how many different claims it is remembered what each node hosts."""


class DeviceRoom:
    """How many pods with certain claims nodes host. ``text`` is what the claims ask for."""

    def __init__(self, rooms: DeviceRooms, claims: Claims, whole: bool = False) -> None:
        self._rooms = rooms
        self._is_whole = whole
        self.claims = claims
        self.text = " and ".join(one.text for one in claims)

    def __eq__(self, other: object) -> bool:
        """Rooms for the same claims are equal, so that shapes can be compared."""
        if not isinstance(other, DeviceRoom):
            return NotImplemented
        return self.claims == other.claims and self._is_whole == other._is_whole

    def __hash__(self) -> int:
        return hash((self.claims, self._is_whole))

    @property
    def revision(self) -> int:
        """A number that grows when nodes may host more or fewer pods."""
        return self._rooms.revision

    @property
    def whole(self) -> DeviceRoom:
        """The same if no device were held."""
        return DeviceRoom(self._rooms, self.claims, True)

    def most(self, nodes: Sequence[str]) -> Amounts:
        """Return how many pods each of the nodes hosts, in their order; treat the array as read-only."""
        return self._rooms.hosted(self.claims, self._is_whole).on_all(nodes)

    def beside(self, node: str, others: Mapping[Claims, int]) -> int:
        """Return how many pods a node hosts beside others that are to be placed there with them."""
        return self._rooms.count(node, self.claims, self._is_whole, others)

    def failure(self, nodes: Iterable[str]) -> str:
        """Return why the claims can't be planned, "" where there is no such reason."""
        return self._rooms.failure(self.claims, nodes)


class _Hosted:
    """What nodes host of one kind of pod, as far as it was asked."""

    def __init__(self, rooms: DeviceRooms, claims: Claims, whole: bool) -> None:
        self._rooms = rooms
        self._claims = claims
        self._whole = whole
        self.nodes: dict[str, int] = {}
        self._last: tuple[Sequence[str], dict[str, int], Amounts] | None = None
        self._forgotten: set[str] = set()

    def forget(self, node: str) -> None:
        """Forget what a node hosts."""
        self.nodes.pop(node, None)
        self._forgotten.add(node)

    def on_all(self, nodes: Sequence[str]) -> Amounts:
        """Return what nodes host. The last array is kept, because most gangs pass the tuple of all nodes."""
        if self._last is None or self._last[0] is not nodes:
            found = np.fromiter((self.on(name) for name in nodes), dtype=np.int64, count=len(nodes))
            if not isinstance(nodes, tuple):
                return found
            self._last = nodes, {name: at for at, name in enumerate(nodes)}, found
        _, places, amounts = self._last
        for name in self._forgotten & places.keys():
            amounts[places[name]] = self.on(name)
        self._forgotten.clear()
        return amounts

    def on(self, node: str) -> int:
        known = self.nodes.get(node)
        if known is None:
            known = self.nodes[node] = self._rooms.count(node, self._claims, self._whole)
        return known


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A pod that waits on ``node`` for what it claims; once it is ungated, kube-scheduler may allocate that."""

    node: str
    claims: Claims
    ungated: bool = False


class DeviceRooms:
    """What the nodes of ``nodes`` host; ``revision`` grows when that may have changed."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.revision = 0
        self._nodes = nodes
        self._waiters: dict[str, _Waiter] = {}
        self._waiting_on: dict[str, dict[str, _Waiter]] = {}
        self._shared_on: dict[str, Counter[str]] = {}
        self._hosted: OrderedDict[tuple[Claims, bool], _Hosted] = OrderedDict()

    def copy(self, nodes: Mapping[str, Node]) -> DeviceRooms:
        """Return a copy for nodes as they are now."""
        copied = DeviceRooms(nodes)
        for uid, one in self._waiters.items():
            copied.put(uid, one.node, one.claims, one.ungated)
        return copied

    # What changes.

    def node_changed(self, name: str) -> None:
        """Forget what a node hosts."""
        self.revision += 1
        for one in self._hosted.values():
            one.forget(name)

    def put(self, uid: str, node: str, claims: Claims, ungated: bool = False) -> None:
        """Record what a pod waits for on its node. A pod that was ungated stays so."""
        old = self._waiters.get(uid)
        same = old is not None and (old.node, old.claims) == (node, claims)
        waiter = _Waiter(node, claims, ungated or (same and old is not None and old.ungated))
        if old == waiter:
            return
        self.drop(uid)
        if claims:
            self._waiters[uid] = self._waiting_on.setdefault(node, {})[uid] = waiter
            self._waits_changed(node, claims, 1)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        waiter = self._waiters.pop(uid, None)
        if waiter is not None:
            here = self._waiting_on[waiter.node]
            del here[uid]
            if not here:
                del self._waiting_on[waiter.node]
            self._waits_changed(waiter.node, waiter.claims, -1)

    def ungate(self, uid: str) -> bool:
        """Return whether a pod may be ungated now: all others on its node are still served, whichever comes first.

        Then it counts as ungated. If not all of them are served anyway, it may be ungated as well, so that
        kube-scheduler says what it lacks.
        """
        waiter = self._waiters.get(uid)
        there = self._nodes.get(waiter.node) if waiter is not None else None
        if waiter is None or waiter.ungated or there is None:
            return True
        now = self._waiting(waiter.node)
        pods = dict(now.ungated)
        pods[waiter.claims] = pods.get(waiter.claims, 0) + 1
        later = Unserved(tuple(pods.items()), now.beside(waiter.claims, -1).gated)
        if not hosting.hosts(there, later) and hosting.hosts(there, now):
            return False
        self.put(uid, waiter.node, waiter.claims, ungated=True)
        return True

    def gated_beside(self, uid: str) -> list[str]:
        """Return the gated pods, by uid, that wait on the node of a pod."""
        waiter = self._waiters.get(uid)
        here = self._waiting_on.get(waiter.node, {}) if waiter is not None else {}
        return [other for other, one in here.items() if not one.ungated and other != uid]

    def _waits_changed(self, node: str, claims: Claims, pods: int) -> None:
        """Forget what a node hosts, and what all nodes host of pods that share one of these claims."""
        self.node_changed(node)
        for name in {one.shared for one in claims} - {""}:
            places = self._shared_on.setdefault(name, Counter())
            places[node] += pods
            if not places[node]:
                del places[node]
            for key in [key for key in self._hosted if any(one.shared == name for one in key[0])]:
                del self._hosted[key]

    def rename(self, uid: str, new: str) -> None:
        """Record a pod under its new uid."""
        waiter = self._waiters.get(uid)
        if waiter is not None:
            self.drop(uid)
            self.put(new, waiter.node, waiter.claims, waiter.ungated)

    # What fits.

    def room(self, claims: Claims) -> DeviceRoom:
        """Return what nodes host of pods with these claims."""
        return DeviceRoom(self, claims)

    def hosted(self, claims: Claims, whole: bool) -> _Hosted:
        """Return what nodes host, remembered."""
        known = self._hosted.get((claims, whole))
        if known is None:
            known = self._hosted[claims, whole] = _Hosted(self, claims, whole)
            if len(self._hosted) > REMEMBERED:
                self._hosted.popitem(last=False)
        else:
            self._hosted.move_to_end((claims, whole))
        return known

    def count(self, node: str, claims: Claims, whole: bool, others: Mapping[Claims, int] = NONE) -> int:
        """Return how many pods with these claims a node hosts, beside those that wait there and ``others``."""
        there = self._node(node, whole)
        if there is None:
            return 0
        places = [self._shared_on.get(one.shared) for one in claims]
        if not whole and any(some and node not in some for some in places):
            return 0
        waiting = Unserved() if whole else self._waiting(node)
        for other, count in others.items():
            waiting = waiting.beside(other, count)
        return hosting.most_hosted(there, waiting, claims, MOST)

    def _waiting(self, node: str) -> Unserved:
        here = self._waiting_on.get(node)
        if here is None:
            return Unserved()
        counts = Counter((one.ungated, one.claims) for one in here.values())
        gated, ungated = (
            tuple((claims, count) for (is_ungated, claims), count in counts.items() if is_ungated is which)
            for which in (False, True)
        )
        return Unserved(ungated, gated)

    def failure(self, claims: Claims, nodes: Iterable[str]) -> str:
        """Return why the claims can't be planned on any of the nodes."""
        there = (self._node(name, False) for name in nodes)
        found = (hosting.failure(node, claims) for node in there if node is not None)
        return next(filter(None, found), "") or next(
            (one.problem for one in claims if one.problem and not one.extended), ""
        )

    def _node(self, name: str, whole: bool) -> Node | None:
        known = self._nodes.get(name)
        if known is None or not whole or not any(one.held for one in known.devices):
            return known
        return replace(known, devices=tuple(one.as_if_free for one in known.devices))
