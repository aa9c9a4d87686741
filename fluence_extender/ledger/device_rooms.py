"""How many pods with claims each node hosts, in addition to allocated claims and to pods that wait for allocation.

A pod waits from its plan until kube-scheduler has allocated its claims. The counts for the most recent claims are
cached until a node changes. If pods claim devices of the network, the network has to serve them together with the pods
of all other nodes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from fluence_extender.devices import hosting
from fluence_extender.devices.hosting import Unserved, counted, unserved
from fluence_extender.devices.network import (
    Division,
    NetworkRequest,
    concerns,
    divide_claims,
    divide_pods,
    join_nodes,
    undivided,
)
from fluence_extender.ledger.capacity import Amounts
from fluence_extender.model.claims import Claims
from fluence_extender.model.node import Node

NO_NETWORK = Node("")

MOST = 128
"""The most pods with the same claims that are counted on one node."""

Placed = Mapping[str, Mapping[Claims, int]]
"""The claims of pods that are to be placed, with the number of pods, by node."""

NONE: Placed = {}

REMEMBERED = 64
"""The most different claims whose counts are cached."""


class DeviceRoom:
    """How many pods with certain claims nodes host. ``text`` describes the claims in messages."""

    def __init__(self, rooms: DeviceRooms, claims: Claims, whole: bool = False) -> None:
        self._rooms = rooms
        self._is_whole = whole
        self.claims = claims
        self.text = " and ".join(one.text for one in claims)

    def __eq__(self, other: object) -> bool:
        """Return whether both are rooms for the same claims, so that shapes can be compared."""
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
        """The same room as if no claim had any device."""
        return DeviceRoom(self._rooms, self.claims, True)

    def most(self, nodes: Sequence[str]) -> Amounts:
        """Return how many pods each of the nodes hosts, in the order of ``nodes``; treat the array as read-only."""
        return self._rooms.hosted(self.claims, self._is_whole).on_all(nodes)

    @property
    def wide(self) -> bool:
        """Whether the claims ask for devices of the network, so that nodes can't be counted one by one."""
        return self._rooms.concern_network(self.claims)

    def beside(self, node: str, others: Placed) -> int:
        """Return how many pods a node hosts in addition to ``others`` that are to be placed with them."""
        return self._rooms.count(node, self.claims, self._is_whole, others)

    def spread(self, nodes: Iterable[tuple[str, int]], wanted: int, others: Placed) -> dict[str, int]:
        """Return the nodes for up to ``wanted`` pods, with the number of pods on each.

        The first of ``nodes`` are filled first, each with at most the number of pods given with its name.
        """
        return self._rooms.spread(self.claims, self._is_whole, nodes, wanted, others)

    def serves(self, counts: Mapping[str, int]) -> bool:
        """Return whether all nodes together host the given numbers of pods."""
        if self.wide:
            return self._rooms.serve({name: {self.claims: count} for name, count in counts.items()})
        return not (self.most([*counts]) < [*counts.values()]).any()

    def serves_all(self, placed: Placed) -> bool:
        """Return whether the nodes host all of these pods together."""
        return self._rooms.serve(placed)

    def failure(self, nodes: Iterable[str]) -> str:
        """Return why the claims can't be planned on any of the nodes, "" if they can."""
        return self._rooms.failure(self.claims, nodes)


class _Hosted:
    """The cached counts for one kind of pod, of the nodes that were counted so far."""

    def __init__(self, rooms: DeviceRooms, claims: Claims, whole: bool) -> None:
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
            known = self.nodes[node] = self._rooms.count(node, self._claims, self._whole)
        return known


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A pod on ``node`` whose claims wait for allocation. kube-scheduler may allocate them once it is ungated."""

    node: str
    claims: Claims
    ungated: bool = False


class DeviceRooms:
    """Counts the pods with claims that ``nodes`` host. ``revision`` grows when a count may have changed."""

    def __init__(self, nodes: Mapping[str, Node], network: Node = NO_NETWORK) -> None:
        self.revision = 0
        self._nodes = nodes
        self._network = network
        self._request_of: dict[str, NetworkRequest] = {}
        self._network_waiters: tuple[Counter[tuple[bool, Claims]], set[str]] | None = None
        self._network_counts: dict[tuple[Division, bool], int] = {}
        self._concerned: dict[Claims, bool] = {}
        self._gone: frozenset[str] = frozenset()
        self._holding: dict[str, set[str]] | None = None
        self._waiters: dict[str, _Waiter] = {}
        self._waiting_on: dict[str, dict[str, _Waiter]] = {}
        self._shared_on: dict[str, Counter[str]] = {}
        self._hosted: OrderedDict[tuple[Claims, bool], _Hosted] = OrderedDict()

    def copy(self) -> DeviceRooms:
        """Return a copy for the present state of the nodes."""
        copied = DeviceRooms(dict(self._nodes), self._network)
        copied.without(self._gone)
        for uid, one in self._waiters.items():
            copied.put(uid, one.node, one.claims, one.ungated)
        return copied

    def without(self, gone: Set[str]) -> None:
        """Count as if exactly the pods ``gone`` had ended. Use it only on copies, whose nodes don't change."""
        changed = gone ^ self._gone
        self._gone = frozenset(gone)
        if changed and self._holding is None:
            self._holding = {}
            for node in (*self._nodes.values(), self._network):
                for uid in {uid for one in node.devices for holder in one.holders for uid in holder.pods}:
                    self._holding.setdefault(uid, set()).add(node.name)
        for uid in changed:
            waiter = self._waiters.get(uid)
            if waiter is not None:
                self._waits_changed(waiter.node, waiter.claims, 0)
            for name in (self._holding or {}).get(uid, ()):
                if name:
                    self.node_changed(name)
                else:
                    self.put_network(self._network)

    # Changes.

    def node_changed(self, name: str) -> None:
        """Forget what a node hosts."""
        self.revision += 1
        self._network_waiters = None
        self._network_counts.clear()
        self._request_of.pop(name, None)
        for one in self._hosted.values():
            one.forget(name)

    def put_network(self, network: Node) -> None:
        """Replace the devices that several nodes can use."""
        self.revision += 1
        self._network, self._network_waiters = network, None
        self._network_counts.clear()
        self._request_of.clear()
        self._concerned.clear()
        self._hosted.clear()

    def put(self, uid: str, node: str, claims: Claims, ungated: bool = False) -> None:
        """Record a pod that waits on its node for these claims. A pod that was ungated stays so."""
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
            waiters = self._waiting_on[waiter.node]
            del waiters[uid]
            if not waiters:
                del self._waiting_on[waiter.node]
            self._waits_changed(waiter.node, waiter.claims, -1)

    def ungate(self, uid: str) -> bool:
        """Return whether a pod may be ungated now; if so, it counts as ungated from then on.

        It may be ungated if all others on its node can still be served in any order. It may also be ungated if not all
        of them can be served even while it stays gated, so that kube-scheduler says what it lacks.
        """
        waiter = self._waiters.get(uid)
        present = self._nodes.get(waiter.node) if waiter is not None else None
        if waiter is None or waiter.ungated or present is None:
            return True
        now = self._waiting(waiter.node)
        later = now.beside(waiter.claims, -1).beside(waiter.claims, 1, ungated=True)
        if not self._served({waiter.node: later}) and self._served({waiter.node: now}):
            return False
        self.put(uid, waiter.node, waiter.claims, ungated=True)
        return True

    def gated_beside(self, uid: str) -> list[str]:
        """Return the uids of the gated pods that wait on the node of a pod, or for devices that it also claims."""
        waiter = self._waiters.get(uid)
        waiters = self._waiting_on.get(waiter.node, {}) if waiter is not None else {}
        if waiter is not None and self.concern_network(waiter.claims):
            waiters = self._waiters
        return [other for other, one in waiters.items() if not one.ungated and other != uid]

    def _waits_changed(self, node: str, claims: Claims, pods: int) -> None:
        """Drop the counts of a node, and on all nodes the counts for pods that share claims or the network."""
        self.node_changed(node)
        if self.concern_network(claims):
            self._hosted.clear()
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

    # Room.

    def room(self, claims: Claims) -> DeviceRoom:
        """Return the room for pods with these claims."""
        return DeviceRoom(self, claims)

    def hosted(self, claims: Claims, whole: bool) -> _Hosted:
        """Return the cached counts for these claims."""
        known = self._hosted.get((claims, whole))
        if known is None:
            known = self._hosted[claims, whole] = _Hosted(self, claims, whole)
            if len(self._hosted) > REMEMBERED:
                self._hosted.popitem(last=False)
        else:
            self._hosted.move_to_end((claims, whole))
        return known

    def count(self, node: str, claims: Claims, whole: bool, others: Placed = NONE) -> int:
        """Return how many pods with these claims a node hosts, in addition to those that wait there and ``others``."""
        part, own = self._own(node, claims, whole, others)
        if not part.network or not own:
            return own
        return min(own, self._network_hosts(node, part, whole, others))

    def spread(
        self, claims: Claims, whole: bool, nodes: Iterable[tuple[str, int]], wanted: int, others: Placed
    ) -> dict[str, int]:
        """Return where pods go; see `DeviceRoom.spread`."""
        placed: dict[str, int] = {}
        beside = {name: dict(pods) for name, pods in others.items()}
        left: dict[Claims, int] = {}
        none: set[Claims] = set()
        for name, most in nodes:
            if not wanted:
                break
            part, own = self._own(name, claims, whole, beside)
            count = min(most, own, wanted)
            if part.network and count:
                if not left.get(part.network) and part.network not in none:
                    left = {part.network: self._network_hosts(name, part, whole, beside)}
                    none |= {one for one, hosted in left.items() if not hosted}
                count = min(count, left.get(part.network, 0))
                left = {part.network: left.get(part.network, 0) - count}
            if count:
                placed[name] = count
                pods = beside.setdefault(name, {})
                pods[claims] = pods.get(claims, 0) + count
                wanted -= count
        return placed

    def serve(self, placed: Placed) -> bool:
        """Return whether the nodes can host all of these pods at the same time."""
        return self._served({name: self._beside(name, False, placed) for name in placed})

    def concern_network(self, claims: Claims) -> bool:
        """Return whether some of the claims ask for devices of the network."""
        if not self._network.devices:
            return False
        if claims not in self._concerned:
            self._concerned[claims] = concerns(self._network, claims)
        return self._concerned[claims]

    def _own(self, node: str, claims: Claims, whole: bool, others: Placed) -> tuple[Division, int]:
        """Return how the claims are divided, and how many pods the node hosts by its own part of them."""
        present = self._node(node, whole)
        places = [self._shared_on.get(one.shared) for one in claims]
        if present is None or (not whole and any(some and node not in some for some in places)):
            return Division(claims, ()), 0
        waiting = self._beside(node, whole, others)
        part = divide_claims(present, self._network, claims)
        division = divide_pods(self._network, present, waiting, part.joined)
        if division.joined:
            part = Division((), undivided(present, claims), True)
        if part.network and not part.own:
            return part, MOST
        return part, hosting.most_hosted(present, division.own, part.own, MOST)

    def _network_hosts(self, node: str, part: Division, whole: bool, others: Placed) -> int:
        """Return how many pods the network hosts that ask ``part`` of it. Nodes with equal parts get equal answers."""
        key = part, whole
        if not others and not part.joined and key in self._network_counts:
            return self._network_counts[key]
        changed = {name: self._beside(name, whole, others) for name in {node, *others}}
        network, waiting = self._on_network(changed, whole, {node} if part.joined else set())
        hosted = hosting.most_hosted(network, waiting, part.network, MOST, ungated=bool(part.own))
        if not others and not part.joined:
            self._network_counts[key] = hosted
        return hosted

    def _served(self, changed: Mapping[str, Unserved]) -> bool:
        """Return whether these nodes serve all of their waiting pods, and the network the pods of all nodes."""
        nodes = {name: self._node(name, False) for name in changed}
        divisions = {
            name: divide_pods(self._network, node, changed[name])
            for name, node in nodes.items()
            if node is not None
        }
        if not all(
            hosting.hosts(node, divisions[name].own) for name, node in nodes.items() if node is not None
        ):
            return False
        if not any(one.network.count for one in divisions.values()):
            return True
        return hosting.hosts(*self._on_network(changed, False))

    def _on_network(
        self, changed: Mapping[str, Unserved], whole: bool, joining: Set[str] = frozenset()
    ) -> tuple[Node, Unserved]:
        """Return the network with the nodes that have joined it, and the pods that wait there.

        ``changed`` replaces the waiting pods of its nodes. The nodes ``joining`` join the network in any case.
        """
        counts, names = self._waiting_for_network(whole)
        for name, waiting in changed.items():
            present = self._node(name, whole)
            if present is None:
                continue
            if name in self._request_of and not whole:
                counts.subtract(counted(self._request_of[name].network))
            division = divide_pods(self._network, present, waiting, name in joining)
            counts.update(counted(division.network))
            (names.add if division.joined else names.discard)(name)
        network = self._freed(self._network, whole)
        nodes = [node for name in sorted(names) if (node := self._node(name, whole)) is not None]
        return join_nodes(network, nodes) if nodes else network, unserved(counts)

    def _waiting_for_network(self, whole: bool) -> tuple[Counter[tuple[bool, Claims]], set[str]]:
        """Return the numbers of waiting pods by what they ask of the network, and the nodes that have joined it."""
        if whole:
            return Counter(), set()
        if self._network_waiters is None:
            counts: Counter[tuple[bool, Claims]] = Counter()
            names: set[str] = set()
            for name in self._waiting_on:
                present = self._node(name, False)
                if present is None:
                    continue
                if name not in self._request_of:
                    self._request_of[name] = divide_pods(self._network, present, self._waiting(name))
                counts.update(counted(self._request_of[name].network))
                names |= {name} if self._request_of[name].joined else set()
            self._network_waiters = counts, names
        return self._network_waiters[0].copy(), set(self._network_waiters[1])

    def _beside(self, node: str, whole: bool, others: Placed) -> Unserved:
        """Return the pods that wait on a node, and others that are to be placed there."""
        waiting = Unserved() if whole else self._waiting(node)
        for claims, count in others.get(node, {}).items():
            waiting = waiting.beside(claims, count)
        return waiting

    def _waiting(self, node: str) -> Unserved:
        waiters = self._waiting_on.get(node)
        if waiters is None:
            return Unserved()
        staying = (one for uid, one in waiters.items() if uid not in self._gone)
        return unserved(Counter((one.ungated, one.claims) for one in staying))

    def failure(self, claims: Claims, nodes: Iterable[str]) -> str:
        """Return why the claims can't be planned on any of the nodes."""
        places = (*(self._node(name, False) for name in nodes), self._network)
        found = (hosting.failure(node, claims) for node in places if node is not None)
        return next(filter(None, found), "") or next((one.problem for one in claims if one.problem), "")

    def _node(self, name: str, whole: bool) -> Node | None:
        known = self._nodes.get(name)
        return None if known is None else self._freed(known, whole)

    def _freed(self, node: Node, whole: bool) -> Node:
        if not (whole or self._gone) or not any(one.held for one in node.devices):
            return node
        devices = (one.as_if_free if whole else one.without(self._gone) for one in node.devices)
        return replace(node, devices=tuple(devices))
