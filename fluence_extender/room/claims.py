"""How many pods with claims each node hosts, in addition to allocated claims and to pods that wait for allocation.

A pod waits from its plan until kube-scheduler has allocated its claims. The counts for the most recent claims are
cached until a node changes.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fluence_extender.devices import hosting
from fluence_extender.devices.allocator import work
from fluence_extender.devices.hosting import Pods
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node
from fluence_extender.room.capacity import Amounts

MOST = 128
"""The most pods with the same claims that are counted on one node."""

WORK_AT_ONCE = 4_000
"""The most work (`allocator.Work`) of one count before other tasks have their turn."""

WORK_OF_A_PLAN = 6_000
"""The most work of one attempt to place a gang after its claims are counted; beyond it, an uncounted node hosts
none."""

WORK_OF_A_REASON = 20_000
"""The work after which the search ends for why claims can't be planned."""

MOST_PREPARED = 256
"""For how many different claims of a gang nodes are counted before the gang is tried."""

Placed = Mapping[str, Mapping[Claims, int]]
"""The claims of pods that are to be placed, with the number of pods, by node."""

NONE: Placed = {}

REMEMBERED = 64
"""The most different claims whose counts are cached."""


class ClaimRoom:
    """How many pods with certain claims nodes host. ``text`` describes the claims in messages.

    ``rooms`` returns the counts that are to be asked.
    """

    def __init__(self, rooms: Callable[[], ClaimRooms], claims: Claims, whole: bool = False) -> None:
        self._rooms = rooms
        self._is_whole = whole
        self.claims = claims
        self.text = " and ".join(one.text for one in claims)

    def __eq__(self, other: object) -> bool:
        """Return whether both are rooms for the same claims, so that shapes can be compared."""
        if not isinstance(other, ClaimRoom):
            return NotImplemented
        return self.claims == other.claims and self._is_whole == other._is_whole

    def __hash__(self) -> int:
        return hash((self.claims, self._is_whole))

    @property
    def whole(self) -> ClaimRoom:
        """The same room as if no claim had any device."""
        return ClaimRoom(self._rooms, self.claims, True)

    def most(self, nodes: Sequence[str]) -> Amounts:
        """Return how many pods each of the nodes hosts, in the order of ``nodes``; treat the array as read-only."""
        return self._rooms().hosted(self.claims, self._is_whole).on_all(nodes)

    def beside(self, node: str, others: Placed) -> int:
        """Return how many pods a node hosts in addition to ``others`` that are to be placed with them."""
        return self._rooms().count(node, self.claims, self._is_whole, others)

    def serves(self, counts: Mapping[str, int]) -> bool:
        """Return whether all nodes together host the given numbers of pods."""
        return not (self.most([*counts]) < [*counts.values()]).any()

    def failure(self, nodes: Iterable[str]) -> str:
        """Return why the claims can't be planned on any of the nodes, "" if they can."""
        return self._rooms().failure(self.claims, nodes)


class _Hosted:
    """The cached counts for one kind of pod, of the nodes that were counted so far."""

    def __init__(self, rooms: ClaimRooms, claims: Claims, whole: bool) -> None:
        self._rooms = rooms
        self._claims = claims
        self._whole = whole
        self.nodes: dict[str, int] = {}
        self._last: tuple[Sequence[str], dict[str, int], Amounts] | None = None
        self._forgotten: set[str] = set()

    def forget(self, node: str) -> None:
        """Drop the count of a node."""
        self.nodes.pop(node, None)
        self._forgotten.add(node)

    def on_all(self, nodes: Sequence[str]) -> Amounts:
        """Return how many pods nodes host. The last array is kept, because most gangs pass the tuple of all nodes."""
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
            if self._rooms.is_spent:
                return 0
            known = self.nodes[node] = self._rooms.count(node, self._claims, self._whole)
        return known

    def fill(self, nodes: Collection[str], until: int) -> bool:
        """Count uncounted nodes until the work done reaches ``until``; return whether all are counted."""
        if len(self.nodes) >= len(nodes):
            return True
        for node in nodes:
            if node not in self.nodes:
                if work.done >= until:
                    return False
                self.on(node)
        return True


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A pod on ``node`` whose claims wait for allocation. kube-scheduler may allocate them once it is ungated."""

    node: str
    claims: Claims
    ungated: bool = False

    def needs_no_device_of(self, node: Node) -> bool:
        """Return whether a device plugin on the node serves all of them, so that kube-scheduler allocates no device."""
        return all(node.has_by_itself(claim.extended) for claim in self.claims)


class ClaimRooms:
    """Counts the pods with claims that ``nodes`` host. ``revision`` grows when a count may have changed."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.revision = 0
        self._until = math.inf
        self._nodes = nodes
        self._gone: frozenset[str] = frozenset()
        self._holding: dict[str, set[str]] | None = None
        self._waiters: dict[str, _Waiter] = {}
        self._waiting_on: dict[str, dict[str, _Waiter]] = {}
        self._shared_on: dict[str, Counter[str]] = {}
        self._hosted: OrderedDict[tuple[Claims, bool], _Hosted] = OrderedDict()

    def copy(self) -> ClaimRooms:
        """Return a copy for the present state of the nodes, with the counts made so far."""
        copied = ClaimRooms(dict(self._nodes))
        copied._until = self._until
        copied.without(self._gone)
        for uid, waiter in self._waiters.items():
            copied.put(uid, waiter.node, waiter.claims, waiter.ungated)
        for (claims, whole), hosted in self._hosted.items():
            copied.hosted(claims, whole, len(self._hosted)).nodes.update(hosted.nodes)
        return copied

    def without(self, gone: Set[str]) -> None:
        """Count as if exactly the pods ``gone`` had ended. Use it only on copies, whose nodes don't change."""
        changed = gone ^ self._gone
        self._gone = frozenset(gone)
        if changed and self._holding is None:
            self._holding = {}
            for node in self._nodes.values():
                for uid in {uid for one in node.devices for holder in one.holders for uid in holder.pods}:
                    self._holding.setdefault(uid, set()).add(node.name)
        for uid in changed:
            waiter = self._waiters.get(uid)
            if waiter is not None:
                self._waits_changed(waiter.node, waiter.claims, 0)
            for name in (self._holding or {}).get(uid, ()):
                self.node_changed(name)

    # Changes.

    def node_changed(self, name: str) -> None:
        """Forget what a node hosts."""
        self.revision += 1
        for one in self._hosted.values():
            one.forget(name)

    def count_anew(self) -> None:
        """Forget what all nodes host."""
        self.revision += 1
        self._hosted.clear()

    def put(self, uid: str, node: str, claims: Claims, ungated: bool = False) -> None:
        """Record a pod that waits on its node for these claims. A pod that was ungated stays so."""
        old = self._waiters.get(uid)
        if old is None and not claims:
            return
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
            waiters = self._waiting_on[waiter.node]
            del waiters[uid]
            if not waiters:
                del self._waiting_on[waiter.node]
            self._waits_changed(waiter.node, waiter.claims, -1)

    def ungate(self, uid: str) -> bool:
        """Return whether a pod may be ungated now; if so, it counts as ungated from then on.

        It may be ungated if no ungated pod on its node still waits, and if all others there can be served after it. It
        may also be ungated if not all of them can be served in any order, so that kube-scheduler says what it lacks.
        """
        waiter = self._waiters.get(uid)
        present = self._nodes.get(waiter.node) if waiter is not None else None
        if waiter is None or waiter.ungated or present is None or waiter.needs_no_device_of(present):
            return True
        waiting = self._waiting(waiter.node)
        if hosting.hosts(present, waiting):
            others = self._waiting_on[waiter.node].values()
            taken = any(other.ungated and not other.needs_no_device_of(present) for other in others)
            if taken or not hosting.hosts(present, waiting, waiter.claims):
                return False
        self.put(uid, waiter.node, waiter.claims, ungated=True)
        return True

    def gated_beside(self, uid: str) -> list[str]:
        """Return the uids of the gated pods that wait on the node of a pod."""
        waiter = self._waiters.get(uid)
        waiters = self._waiting_on.get(waiter.node, {}) if waiter is not None else {}
        return [other for other, one in waiters.items() if not one.ungated and other != uid]

    def _waits_changed(self, node: str, claims: Claims, pods: int) -> None:
        """Drop the counts of a node, and on all nodes the counts for pods that share claims."""
        self.node_changed(node)
        for name in {one.shared for one in claims} - {""}:
            places = self._shared_on.setdefault(name, Counter())
            places[node] += pods
            if not places[node]:
                del places[node]
            for key in [key for key in self._hosted if any(one.shared == name for one in key[0])]:
                del self._hosted[key]

    # How much is counted.

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Bound the work of one attempt to place a gang."""
        self._until = work.done + WORK_OF_A_PLAN
        try:
            yield
        finally:
            self._until = math.inf

    @property
    def is_spent(self) -> bool:
        """Whether the attempt has used up its work, so that nothing more is counted for it."""
        return work.done >= self._until

    def prepare(self, claims_of_members: Iterable[Claims]) -> bool:
        """Count what nodes host for these claims, a little at a time; return whether all is counted."""
        until = work.done + WORK_AT_ONCE
        wanted = list(islice(dict.fromkeys(filter(None, claims_of_members)), MOST_PREPARED))
        for claims in wanted:
            for whole in (False, True):
                if not self.hosted(claims, whole, 2 * len(wanted)).fill(self._nodes.keys(), until):
                    return False
        self._until += work.done - until + WORK_AT_ONCE
        return True

    # Room.

    def hosted(self, claims: Claims, whole: bool, least: int = 0) -> _Hosted:
        """Return the cached counts for these claims; those of the last ``least`` claims stay cached in any case."""
        known = self._hosted.get((claims, whole))
        if known is None:
            known = self._hosted[claims, whole] = _Hosted(self, claims, whole)
            while len(self._hosted) > max(REMEMBERED, least):
                self._hosted.popitem(last=False)
        else:
            self._hosted.move_to_end((claims, whole))
        return known

    def count(self, node: str, claims: Claims, whole: bool, others: Placed = NONE) -> int:
        """Return how many pods with these claims a node hosts, in addition to those that wait there and ``others``."""
        present = self._node(node, whole)
        places = [self._shared_on.get(one.shared) for one in claims]
        if (
            present is None
            or self.is_spent
            or (not whole and any(some and node not in some for some in places))
        ):
            return 0
        waiting = () if whole else self._waiting(node)
        for kind, count in others.get(node, {}).items():
            waiting = hosting.beside(waiting, kind, count)
        return hosting.most_hosted(present, waiting, claims, MOST)

    def _waiting(self, node: str) -> Pods:
        waiters = self._waiting_on.get(node, {})
        return tuple(Counter(one.claims for uid, one in waiters.items() if uid not in self._gone).items())

    def failure(self, claims: Claims, nodes: Iterable[str]) -> str:
        """Return why the claims can't be planned on any of the nodes."""
        until = work.done + WORK_OF_A_REASON
        for node in filter(None, (self._node(name, False) for name in nodes)):
            found = hosting.failure(node, claims)
            if found or work.done > until:
                return found
        return next((one.problem for one in claims if one.problem), "")

    def _node(self, name: str, whole: bool) -> Node | None:
        known = self._nodes.get(name)
        return None if known is None else self._freed(known, whole)

    def _freed(self, node: Node, whole: bool) -> Node:
        if not (whole or self._gone) or not any(one.held for one in node.devices):
            return node
        devices = (one.as_if_free if whole else one.without(self._gone) for one in node.devices)
        return replace(node, devices=tuple(devices))
