"""The ledger: what each pod holds and the account of each node, exact.

Invariant: what is free on a node is its allocatable less what its pods hold. The end of a pod frees exactly its share.
A pod that the cluster reports as bound is always counted, even if there is no capacity for it; its node is then in
``overcommitted`` and takes nothing new.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec.structs import replace

from fluence_extender.graph.containment import LEVELS
from fluence_extender.graph.current import CurrentGraph
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import NOTHING
from fluence_extender.room.capacity import LiveCapacity, NodeCapacity
from fluence_extender.room.claims import ClaimRooms
from fluence_extender.room.devices import (
    DeviceUse,
    match_request,
    serve,
    shares_of,
    shares_of_bound,
)
from fluence_extender.room.holdings import Firmness, Holding, Holdings, Journal, NodeAccount, holding_of
from fluence_extender.room.holds import GangNodes, HeldNodes
from fluence_extender.room.kept_apart import KeptApart
from fluence_extender.room.order import NodeOrder
from fluence_extender.room.room import Facts, Room

LOW_FIRST = ("lonode", "lonodex", "low", "spread")
"""Policies that fill nodes in the natural order of their names; the others begin at the other end."""


class NoCapacity(Exception):
    """A node has no capacity for a pod at its planned place, as ``reason`` explains."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Ledger:
    """The accounts of all nodes, and what all pods hold.

    ``graph`` is what the resource graph is made from. ``free`` is the capacity that nodes have left, ``whole`` the
    capacity that they have when nothing runs, and ``without_foreign`` what they have beside foreign pods.
    ``kept_apart`` says from which nodes the anti-affinity of pods keeps others. ``version`` grows whenever a pod that
    had no place might have one now. ``lacking_devices`` are the bound pods that hold fewer devices than they ask for,
    or whose stamps name devices that don't exist.
    """

    def __init__(self, policy: str = "lonode", levels: Mapping[str, str] = LEVELS) -> None:
        self.journal = Journal()
        self.held_nodes = HeldNodes()
        self.gang_nodes = GangNodes(exclusive=policy.endswith("nodex"))
        self._accounts: dict[str, NodeAccount] = {}
        self._nodes: dict[str, Node] = {}
        descending = policy not in LOW_FIRST
        self._order = NodeOrder(descending, spreads=policy == "spread")
        self._holdings = Holdings()
        self._claim_rooms = ClaimRooms(self._nodes)
        self.kept_apart = KeptApart(self._nodes)
        self.graph = CurrentGraph(self._nodes, levels, descending)
        self._foreign: dict[str, str] = {}
        self._negative: set[str] = set()
        self._device_holders: set[str] = set()
        self._device_use = DeviceUse(self.graph.catalogue)
        self.lacking_devices: set[str] = set()
        self.version = 0
        self.free = LiveCapacity(
            self._accounts,
            self.journal,
            lambda account: NodeCapacity(account.free, account.ports, account.allocatable),
        )
        self.whole = LiveCapacity(
            self._accounts, self.journal, lambda account: NodeCapacity(account.allocatable)
        )
        self.without_foreign = LiveCapacity(
            self._accounts,
            self.journal,
            lambda account: NodeCapacity(account.allocatable - account.foreign_use, (), account.allocatable),
        )

    # Reading.

    @property
    def accounts(self) -> Mapping[str, NodeAccount]:
        """The account of every node that exists or that holds something, by name."""
        return self._accounts

    @property
    def holdings(self) -> Holdings:
        """What each of our pods holds, by uid."""
        return self._holdings

    @property
    def foreign(self) -> Mapping[str, str]:
        """The node of each counted foreign pod, by uid."""
        return self._foreign

    @property
    def overcommitted(self) -> Set[str]:
        """The nodes on which pods use more than there is. Nothing new is placed there."""
        return self._negative

    def node(self, name: str) -> Node | None:
        """Return the last recorded state of a node."""
        return self._nodes.get(name)

    def room(self) -> Room:
        """Return what is free now, for as long as the ledger doesn't change."""
        # Facts cache what is derived from the present state, so each room has its own.
        facts = Facts(
            self._order, self.kept_apart, self._claim_rooms, self.gang_nodes, self._holdings.frozen()
        )
        use = self._present_device_use()
        return Room(self.free.now(), self.whole.now(), use, facts, self.held_nodes, self._negative)

    def snapshot(self) -> Room:
        """Return what is free now, for another thread."""
        facts = Facts(
            self._order.copy(),
            self.kept_apart.copy(),
            self._claim_rooms.copy(),
            self.gang_nodes.copy(),
            self._holdings.frozen(),
        )
        return Room(
            self.free.now().copy(),
            self.whole.frozen(),
            self._present_device_use().copy(),
            facts,
            self.held_nodes.copy(),
            frozenset(self._negative),
        )

    def held_by_foreign(self, uid: str) -> Holding | None:
        """Return what a foreign pod holds, None if it isn't counted."""
        placed = self.kept_apart.placed.of(uid) if uid in self._foreign else None
        if placed is None:
            return None
        pod, node = placed
        requests = self._accounts[node].users[uid]
        return Holding(
            pod.namespace, pod.name, Assignment(uid, node), requests, Firmness.BOUND, pod.host_ports
        )

    @property
    def changed_pods(self) -> frozenset[str]:
        """The pods that hold something else than when `take_changed` was called, foreign ones included."""
        return frozenset(self._holdings.changed)

    def take_changed(self) -> set[str]:
        """Return the pods that hold something else than when this was last asked, foreign ones included."""
        changed, self._holdings.changed = self._holdings.changed, set()
        return changed

    def hand_out_anew(self) -> None:
        """Have `take_changed` return all pods that hold something."""
        self._holdings.changed |= self._holdings.keys() | self._foreign.keys()

    def holds(self, uid: str, node: str) -> bool:
        """Return whether the pod holds its share on ``node``."""
        held = self._holdings.get(uid)
        return held is not None and held.assignment.node == node

    def held_shares(self) -> list[DeviceShare]:
        """Return what our pods hold of virtual devices."""
        return [share for uid in self._device_holders for share in self._holdings[uid].assignment.devices]

    def _present_device_use(self) -> DeviceUse:
        if self._device_use.catalogue is not self.graph.catalogue:
            self._device_use = DeviceUse(self.graph.catalogue, self.held_shares())
        return self._device_use

    def devices_match(self, pod: Pod, shares: Sequence[DeviceShare]) -> bool:
        """Return whether the devices that the pod holds exist in full and have what it requires.

        Of several pods that hold more of a device than there is, the strongest have it.
        """
        catalogue = self.graph.catalogue
        if not match_request(catalogue, pod, shares):
            return False
        if not self._present_device_use().over:
            return True
        use = DeviceUse(catalogue)
        for uid in sorted(self._device_holders, key=lambda uid: (-self._holdings[uid].firmness, uid)):
            if uid == pod.uid:
                break
            use.add(self._holdings[uid].assignment.devices)
        devices = ((catalogue.at(share.path), share.amount) for share in shares)
        return all(device is not None and use.free(device) >= amount for device, amount in devices)

    @property
    def claim_rooms(self) -> ClaimRooms:
        """How many pods with claims nodes host, and which pods wait for their claims."""
        return self._claim_rooms

    # Nodes and foreign pods.

    def load(self, nodes: Iterable[Node], resources: VirtualResources | None = None) -> None:
        """Replace all nodes, and the virtual resources if given; pods keep what they hold."""
        gone = set(self._nodes)
        self._nodes.clear()
        self._nodes.update((node.name, node) for node in nodes)
        for name in gone - self._nodes.keys():
            self._account(name).resize(NOTHING)
            self._negative.discard(name)
            self._forget_empty(name)
        for name, node in self._nodes.items():
            self._account(name).resize(node.allocatable)
            self._note_negative((name,))
            self._claim_rooms.node_changed(name)
        self._order.replace(self._nodes)
        self.kept_apart.nodes_changed()
        self.graph.loaded()
        if resources is not None:
            self.graph.declare(resources)
        self.changed()

    def replace_resources(self, resources: VirtualResources) -> None:
        """Replace the virtual resources; pods keep what they hold."""
        self.graph.declare(resources)
        self.changed()

    def put_node(self, node: Node) -> None:
        """Record a node that joins or has changed."""
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if old is None:
            self._order.add(node.name)
        if old is None or old.devices != node.devices:
            self._claim_rooms.node_changed(node.name)
        if old is None or old.labels != node.labels:
            self.kept_apart.nodes_changed()
        self.graph.node_changed(old, node)
        self._account(node.name).resize(node.allocatable)
        self._note_negative((node.name,))
        self.changed()

    def drop_node(self, name: str) -> None:
        """Record that a node has left. Pods stay on its account until they are gone."""
        old = self._nodes.pop(name, None)
        if old is None:
            return
        self._order.remove(name)
        self._claim_rooms.node_changed(name)
        self.kept_apart.nodes_changed()
        self.graph.node_changed(old, None)
        self._account(name).resize(NOTHING)
        self._negative.discard(name)
        self._forget_empty(name)
        self.changed()

    def put_foreign(self, *pods: Pod) -> None:
        """Count bound foreign pods."""
        touched: dict[str, None] = {}
        for pod in pods:
            known = self._accounts.get(pod.node)
            counted = known is not None and known.users.get(pod.uid) == pod.requests
            if counted and self._foreign.get(pod.uid) == pod.node:
                self._seen(pod)
                continue
            self.drop_foreign(pod.uid)
            self._foreign[pod.uid] = pod.node
            self._holdings.changed.add(pod.uid)
            if self.kept_apart.put(pod, pod.node, bound=True):
                self.changed()
            self._account(pod.node).add(pod.uid, pod.requests, foreign=True, ports=pod.host_ports)
            touched[pod.node] = None
        self._note_negative(touched)

    def drop_foreign(self, uid: str) -> None:
        """Stop counting a foreign pod."""
        node = self._foreign.pop(uid, None)
        if node is not None:
            self._holdings.changed.add(uid)
            self.kept_apart.drop(uid)
            self._account(node).remove(uid)
            self._note_negative((node,))
            self._forget_empty(node)
            self.changed()

    def recount(self, name: str) -> None:
        """Count a node again from its node object and its pods."""
        node = self._nodes.get(name)
        self._account(name).recount(node.allocatable if node is not None else NOTHING)
        self._note_negative((name,))
        self._forget_empty(name)
        self.changed()

    def changed(self) -> None:
        """Record that waiting gangs should be tried again."""
        self.version += 1

    # Our pods.

    def take_all(
        self,
        places: Sequence[tuple[Pod, Assignment]],
        gang: object,
    ) -> None:
        """Allocate the planned places of a gang's pods. Raises `NoCapacity`; then nothing is allocated."""
        touched = {place.node for _, place in places}
        closed = {name for name in touched if name not in self._nodes or name in self._negative}
        if not closed:
            for pod, place in places:
                self._allocate(pod, place, gang, Firmness.PLANNED)
            closed = self._note_negative(touched)
            if closed:
                version = self.version
                for pod, _ in places:
                    self.release(pod.uid)
                # Other pods have no more room than before.
                self.version = version
        if closed:
            name = min(closed)
            raise NoCapacity(f"node {name} {'has no room left' if name in self._nodes else 'is gone'}")

    def adopt(self, pod: Pod, gang: object, firmness: Firmness) -> Assignment:
        """Count a bound pod, even without capacity; return what it holds."""
        return self.adopt_all(((pod, gang),), firmness)[0]

    def adopt_all(self, bound: Iterable[tuple[Pod, object]], firmness: Firmness) -> list[Assignment]:
        """Count bound pods, each with its gang, as `adopt` does; the earlier pod has the first choice of devices."""
        assignments: list[Assignment] = []
        for pod, gang in bound:
            self.release(pod.uid)
            shares, final = shares_of_bound(pod, self._present_device_use()) if pod.devices else ((), True)
            assignment = Assignment(pod.uid, pod.node, shares)
            self._allocate(pod, assignment, gang, firmness)
            self._note_negative((pod.node,))
            if not final:
                self.lacking_devices.add(pod.uid)
            assignments.append(assignment)
        return assignments

    def restore(self, pod: Pod, gang: object) -> Assignment | None:
        """Allocate the node to which a pod was steered before a start; return its place, None if there is no room."""
        node = pod.nominated
        if node not in self._nodes or not self._accounts[node].takes(pod.requests, pod.host_ports):
            return None
        devices = serve(pod, self._present_device_use().copy(), {node}) if pod.devices else []
        if isinstance(devices, str):
            return None
        assignment = Assignment(pod.uid, node, shares_of(devices))
        self._allocate(pod, assignment, gang, Firmness.COMMITTED)
        return assignment

    def amend(self, pod: Pod) -> None:
        """Count a pod again when its requests have changed, as after a resize; its devices stay allocated."""
        held = self._holdings.get(pod.uid)
        if held is not None:
            self._seen(pod)
        if held is None or held.requests == pod.requests:
            return
        self._holdings[pod.uid] = replace(held, requests=pod.requests)
        node = held.assignment.node
        self._account(node).add(pod.uid, pod.requests, foreign=False, ports=held.ports)
        self._note_negative((node,))
        self.changed()

    def claims_changed(self, pod: Pod) -> list[str]:
        """Record the claims for which a placed pod still waits; return the gated pods that may have waited for it."""
        held = self._holdings.get(pod.uid)
        if held is None:
            return []
        gated = self.gated_beside(pod.uid)
        self._claim_rooms.put(pod.uid, held.assignment.node, pod.claims, GATE not in pod.gates)
        return gated

    def gated_beside(self, uid: str) -> list[str]:
        """Return the gated pods that may wait until a pod on their node has its devices, or has gone."""
        return self._claim_rooms.gated_beside(uid)

    def hand_over(self, uid: str, pod: Pod, gang: object) -> None:
        """Give ``pod`` of ``gang`` what ``uid`` holds, the uid under which the pod was expected."""
        held = self._holdings.get(uid)
        if held is None:
            return
        served = uid not in self.lacking_devices
        self._free(held)
        assignment = Assignment(pod.uid, held.node, held.assignment.devices)
        if (pod.requests, pod.host_ports) != (held.requests, held.ports):
            # There may be no room for more than is held.
            pod = dataclasses.replace(pod, requests=held.requests, host_ports=held.ports)
        self._allocate(pod, assignment, gang, held.firmness)
        if not served:
            self.lacking_devices.add(pod.uid)

    def raise_firmness(self, uid: str, firmness: Firmness) -> None:
        """Raise the firmness with which a pod holds its place; it never becomes weaker."""
        held = self._holdings.get(uid)
        if held is not None and held.firmness < firmness:
            self._holdings[uid] = replace(held, firmness=firmness)
            if firmness is Firmness.BOUND:
                self.kept_apart.has_bound(uid)
                if self.kept_apart.placed.counted(uid):
                    self.changed()

    def release(self, uid: str) -> None:
        """Free what a pod holds; nothing happens when it holds nothing."""
        held = self._holdings.get(uid)
        if held is None:
            return
        self._free(held)
        self._note_negative((held.node,))
        self._forget_empty(held.node)
        self.changed()

    # Inside.

    def _seen(self, pod: Pod) -> None:
        """Record the present labels of a pod that has its node, and whether it is being deleted."""
        if self.kept_apart.placed.put(pod, pod.node):
            self.changed()

    def _allocate(self, pod: Pod, assignment: Assignment, gang: object, firmness: Firmness) -> None:
        held = holding_of(pod, assignment, firmness)
        use = self._present_device_use() if assignment.devices else None
        self._holdings[pod.uid] = held
        self._claim_rooms.put(pod.uid, assignment.node, pod.claims, GATE not in pod.gates)
        counted = self.kept_apart.put(pod, assignment.node, firmness is Firmness.BOUND)
        if counted and firmness is Firmness.BOUND:
            self.changed()
        if use is not None:
            self._device_holders.add(pod.uid)
            use.add(assignment.devices)
        self.gang_nodes.add(pod.uid, assignment.node, gang)
        self._account(assignment.node).add(pod.uid, pod.requests, foreign=False, ports=pod.host_ports)

    def _free(self, held: Holding) -> None:
        uid = held.uid
        if held.assignment.devices:
            self._present_device_use().add(held.assignment.devices, -1)
            self._device_holders.discard(uid)
        del self._holdings[uid]
        self.lacking_devices.discard(uid)
        self._claim_rooms.drop(uid)
        self.kept_apart.drop(uid)
        self._account(held.node).remove(uid)
        self.gang_nodes.remove(uid)

    def _account(self, name: str) -> NodeAccount:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = NodeAccount(name, note=self.journal.note)
            self.journal.note(name)
        return account

    def _forget_empty(self, name: str) -> None:
        """Forget a node that has gone once no pod holds it."""
        if name not in self._nodes and not self._accounts[name].users:
            del self._accounts[name]
            self.journal.note(name)
            self._negative.discard(name)

    def _note_negative(self, names: Iterable[str]) -> set[str]:
        """Record which of the nodes ``names`` are overcommitted, and return the names of those."""
        over = {
            name
            for name in names
            if name in self._nodes and min(self._accounts[name].free.values(), default=0) < 0
        }
        self._negative.difference_update(names)
        self._negative |= over
        return over
