"""The ledger: each pod's allocation and each node's account, exact, with the matcher's bookings kept equal to them.

Invariant: for each node the bookings cover the exact use of its pods, or the node is in ``overcommitted`` and takes
nothing new. The end of a pod frees exactly its share. A pod that the cluster reports as bound is always counted, even
if there is no capacity for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.accounts import Allocation, Journal, NodeAccount, Strength
from fluence_extender.ledger.bookings import Bookings, NodeUse
from fluence_extender.ledger.capacity import LiveCapacity, NodeCapacity
from fluence_extender.ledger.closed_nodes import GangNodes, PreemptorHolds
from fluence_extender.ledger.device_drafts import DeviceDrafts
from fluence_extender.ledger.device_rooms import DeviceRooms
from fluence_extender.ledger.graph_matcher import MatcherSetup
from fluence_extender.ledger.kept_apart import KeptApart
from fluence_extender.ledger.pod_use import PodUse
from fluence_extender.ledger.synced_graph import SyncedGraph
from fluence_extender.matcher.errors import Busy, MatcherError
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import NOTHING, Resources

LOW_FIRST = ("lonode", "lonodex", "low")
"""Policies that fill nodes from the lowest id up; the others begin at the other end."""


class NoCapacity(Exception):
    """The matcher has no capacity for a pod at its planned place, as ``reason`` explains."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Ledger:
    """The accounts and allocations of the whole cluster.

    ``graph`` is the resource graph. ``free`` is the capacity that nodes have left, ``whole`` the capacity that they
    have when nothing runs. ``kept_apart`` says from which nodes the anti-affinity of pods keeps others. ``version``
    grows whenever a pod that had no place might have one now. ``lacking_devices`` are the bound pods that hold fewer
    devices than they ask for, or whose stamps name devices that don't exist.
    """

    def __init__(self, setup: MatcherSetup, policy: str = "lonode") -> None:
        self._descending = policy not in LOW_FIRST
        self.journal = Journal()
        self.preemptor_holds = PreemptorHolds()
        self.gang_nodes = GangNodes(exclusive=policy.endswith("nodex"))
        self._accounts: dict[str, NodeAccount] = {}
        self._nodes: dict[str, Node] = {}
        self._allocations: dict[str, Allocation] = {}
        self._rooms = DeviceRooms(self._nodes)
        self.kept_apart = KeptApart(self._nodes)
        self.graph = SyncedGraph(setup, self._nodes, self._accounts, self._allocations, self._renewed)
        self._foreign: dict[str, str] = {}
        self._negative: set[str] = set()
        self.lacking_devices: set[str] = set()
        self.version = 0
        self.free = LiveCapacity(
            self._accounts,
            self.journal,
            lambda account: NodeCapacity(self.free_on(account.name), account.ports, account.allocatable),
            lambda: (self.graph.behind, id(self.bookings)),
        )
        self.whole = LiveCapacity(
            self._accounts, self.journal, lambda account: NodeCapacity(account.allocatable)
        )

    # Reading.

    @property
    def accounts(self) -> Mapping[str, NodeAccount]:
        """The account of every node that exists or that holds something, by name."""
        return self._accounts

    @property
    def allocations(self) -> Mapping[str, Allocation]:
        """What each of our pods holds, by uid."""
        return self._allocations

    @property
    def foreign(self) -> Mapping[str, str]:
        """The node of each counted foreign pod, by uid."""
        return self._foreign

    @property
    def bookings(self) -> Bookings:
        """The matcher's jobs; a rebuild of the graph replaces them."""
        return self.graph.bookings

    @property
    def devices(self) -> DeviceDrafts:
        """The virtual devices of pods that have no allocation yet."""
        return self.graph.bookings.devices

    @property
    def overcommitted(self) -> set[str]:
        """The nodes on which more is used than could be booked. Nothing new is placed there."""
        return self._negative | self.bookings.overcommitted

    def node(self, name: str) -> Node | None:
        """Return the last recorded state of a node."""
        return self._nodes.get(name)

    def use_of(self, uid: str) -> PodUse | None:
        """Return what a pod, ours or foreign, uses now; None if no account counts it."""
        held = self._allocations.get(uid)
        assignment = held.assignment if held is not None else Assignment(uid, self._foreign.get(uid, ""))
        account = self._accounts.get(assignment.node)
        if account is None or uid not in account.users:
            return None
        return PodUse(assignment, account.users[uid], held.ports if held is not None else ())

    def holds(self, uid: str, node: str) -> bool:
        """Return whether the pod holds its share on ``node``."""
        held = self._allocations.get(uid)
        return held is not None and held.assignment.node == node

    def devices_match(self, pod: Pod, shares: Sequence[DeviceShare]) -> bool:
        """Return whether the devices that the pod holds exist in full and have what it requires."""
        return pod.uid not in self.bookings.short_of_devices and self.devices.match_request(pod, shares)

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that ``gang`` couldn't use if the pods ``without`` were gone."""
        return (
            self.overcommitted
            | self.preemptor_holds.closed_to(gang)
            | self.gang_nodes.closed_to(gang, without)
        )

    def free_on(self, name: str) -> Resources:
        """Return what is free on a node. Gained capacity counts only once the matcher's graph has it."""
        account = self._accounts[name]
        if not self.graph.behind:
            return account.free
        return account.free - self.graph.matched.lacking(name, account.allocatable)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that are in the matcher's graph, in the order in which the policy fills nodes."""
        graph = self.graph.matched
        if not self.graph.behind and len(names) == len(graph.nodes):
            return graph.all_in_order(self._descending)
        return graph.in_order(names, self._descending)

    def rounded(self, requests: Resources) -> Resources:
        """Return ``requests`` in whole units of the graph, as the matcher counts them."""
        return self.bookings.matcher.rounded(requests)

    def match_equal(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int] | None:
        """Return the number of pods by node with which the matcher places ``count`` equal pods on ``nodes``.

        None means that its answer can't be used: it counts none of these requests, or only some of them, so that it has
        chosen a node whose account is too small. Raises `Busy` if there is no capacity. Then the exact accounts have
        none either, because the matcher counts a part of what they count.
        """
        try:
            placed = self.bookings.matcher.match_equal(requests, count, nodes)
        except Busy:
            raise
        except MatcherError:
            return None
        takes = self.free.now().takes(placed, requests)
        return placed if takes and sum(placed.values()) == count else None

    @property
    def device_rooms(self) -> DeviceRooms:
        """How many pods with claims nodes host, and which pods wait for their claims."""
        return self._rooms

    # Nodes and foreign pods.

    def load(self, nodes: Iterable[Node], resources: VirtualResources | None = None) -> None:
        """Replace all nodes, and the virtual resources if given, and build the graph at once; allocations stay.

        Raises `MatcherError` when no graph can be built; ``graph.fault`` says so then.
        """
        if resources is not None:
            self.graph.resources = resources
        self._nodes.clear()
        self._nodes.update((node.name, node) for node in nodes)
        for name, node in self._nodes.items():
            self._account(name).resize(node.allocatable)
            self._rooms.node_changed(name)
        self.kept_apart.nodes_changed()
        self.graph.load()

    def replace_resources(self, resources: VirtualResources) -> None:
        """Replace the virtual resources; allocations stay."""
        self.graph.follow(None, None, NodeUse(), resources)
        self.changed()

    def put_node(self, node: Node) -> None:
        """Record a node that joins or has changed."""
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if old is None or old.devices != node.devices:
            self._rooms.node_changed(node.name)
        if old is None or old.labels != node.labels:
            self.kept_apart.nodes_changed()
        account = self._account(node.name)
        account.resize(node.allocatable)
        self.changed()
        levels = self.graph.matched.level_values
        if old is None or old.allocatable != node.allocatable or levels(old) != levels(node):
            leaving = node.name if old is not None else None
            self.graph.follow(leaving, node, NodeUse(node.allocatable, account.foreign_use))
            self._settle(node.name)

    def drop_node(self, name: str) -> None:
        """Record that a node has left. Pods stay on its account until they are gone."""
        if self._nodes.pop(name, None) is None:
            return
        self._rooms.node_changed(name)
        self.kept_apart.nodes_changed()
        self._account(name).resize(NOTHING)
        self.graph.follow(name, None, NodeUse())
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
                continue
            self.drop_foreign(pod.uid)
            self._foreign[pod.uid] = pod.node
            self.kept_apart.put(pod, pod.node, bound=True)
            self._account(pod.node).add(pod.uid, pod.requests, foreign=True, ports=pod.host_ports)
            touched[pod.node] = None
        self._settle(*touched)

    def drop_foreign(self, uid: str) -> None:
        """Stop counting a foreign pod."""
        node = self._foreign.pop(uid, None)
        if node is not None:
            self.kept_apart.drop(uid)
            self._account(node).remove(uid)
            self._settle(node)
            self._forget_empty(node)
            self.changed()

    def recount(self, name: str) -> None:
        """Count a node again from its node object and its pods, and book it again."""
        node = self._nodes.get(name)
        self._account(name).recount(node.allocatable if node is not None else NOTHING)
        self.graph.cancel_node(name)
        self._settle(name)
        self._forget_empty(name)
        self.changed()

    def cancel_orphan(self, job: int) -> None:
        """Cancel a job of the matcher that belongs to no allocation and no foreign pod."""
        self.bookings.matcher.cancel((job,))

    def changed(self) -> None:
        """Record that waiting gangs should be tried again."""
        self.version += 1

    # Our pods.

    def take(
        self, pod: Pod, assignment: Assignment, gang: object, strength: Strength = Strength.PLANNED
    ) -> None:
        """Allocate the planned place of one pod. Raises as `take_all`."""
        self.take_all(((pod, assignment),), gang, strength)

    def take_all(
        self,
        places: Sequence[tuple[Pod, Assignment]],
        gang: object,
        strength: Strength = Strength.PLANNED,
    ) -> None:
        """Allocate the planned places of a gang's pods, with their drafted devices.

        Raises `NoCapacity`; then nothing is allocated, and the drafts are given up.
        """
        sizes = [self.rounded(pod.requests) for pod, _ in places]
        shares = [(pod.uid, place.node, size) for (pod, place), size in zip(places, sizes, strict=True)]
        full = self.bookings.book_all(shares)
        if full:
            for pod, _ in places:
                self.devices.give_up(pod.uid)
            raise NoCapacity(f"node {full} has no room left in whole units")
        for (pod, place), size in zip(places, sizes, strict=True):
            self._allocate(pod, place, gang, strength, size)

    def adopt(self, pod: Pod, gang: object, strength: Strength) -> Assignment:
        """Count a bound pod, even without capacity; return what it holds."""
        return self.adopt_all(((pod, gang),), strength)[0]

    def adopt_all(self, bound: Iterable[tuple[Pod, object]], strength: Strength) -> list[Assignment]:
        """Count bound pods, each with its gang, as `adopt` does; in a conflict the earlier pod is booked."""
        assignments: list[Assignment] = []
        booked: list[tuple[str, str, Resources]] = []
        for pod, gang in bound:
            self.release(pod.uid)
            requests = self.rounded(pod.requests)
            shares, final = self.devices.redraft(pod) if pod.devices else ((), True)
            assignment = Assignment(pod.uid, pod.node, shares)
            self._allocate(pod, assignment, gang, strength, requests)
            if not final:
                self.lacking_devices.add(pod.uid)
            assignments.append(assignment)
            booked.append((pod.uid, pod.node, requests))
        self.bookings.book_bound(booked)
        return assignments

    def resume(self, pod: Pod, gang: object) -> Assignment | None:
        """After a start, allocate the node that a pod was steered to; None when there is no capacity."""
        node = pod.nominated
        if node not in self._nodes or not self._accounts[node].takes(
            self.rounded(pod.requests), pod.host_ports
        ):
            return None
        elsewhere = self.graph.catalogue.nodes() - {node}
        drafted = self.devices.draft(pod, elsewhere) if pod.devices else ()
        if not isinstance(drafted, tuple):
            return None
        assignment = Assignment(pod.uid, node, drafted)
        try:
            self.take(pod, assignment, gang, Strength.COMMITTED)
        except NoCapacity:
            return None
        return assignment

    def amend(self, pod: Pod) -> None:
        """Count a pod again when its requests have changed, as after a resize; its devices stay allocated."""
        held = self._allocations.get(pod.uid)
        if held is None or held.requests == pod.requests:
            return
        amended = self._allocations[pod.uid] = replace(held, requests=pod.requests)
        node = held.assignment.node
        self._account(node).add(pod.uid, self.rounded(pod.requests), foreign=False, ports=held.ports)
        self.bookings.rebook(amended)
        self._settle(node)
        self.changed()

    def claims_changed(self, pod: Pod) -> list[str]:
        """Record the claims for which a placed pod still waits; return the gated pods that may have waited for it."""
        held = self._allocations.get(pod.uid)
        if held is None:
            return []
        gated = self.gated_beside(pod.uid)
        self._rooms.put(pod.uid, held.assignment.node, pod.claims, GATE not in pod.gates)
        return gated

    def gated_beside(self, uid: str) -> list[str]:
        """Return the gated pods that may wait until a pod on their node has its devices, or has gone."""
        return self._rooms.gated_beside(uid)

    def rename(self, uid: str, pod: Pod, gang: object) -> None:
        """Give ``pod`` of ``gang`` the allocation of ``uid``, the uid under which the pod was foreseen."""
        held = self._allocations.pop(uid, None)
        if held is None:
            return
        assignment = replace(held.assignment, uid=pod.uid)
        self._allocations[pod.uid] = replace(held, name=pod.name, assignment=assignment)
        self.bookings.rename(held, pod.uid)
        self._rooms.rename(uid, pod.uid)
        self.kept_apart.rename(uid, pod.uid, pod.name)
        self.gang_nodes.remove(uid)
        self.gang_nodes.add(pod.uid, assignment.node, gang)
        self._account(assignment.node).rename(uid, pod.uid)
        if uid in self.lacking_devices:
            self.lacking_devices.remove(uid)
            self.lacking_devices.add(pod.uid)

    def strengthen(self, uid: str, strength: Strength) -> None:
        """Raise the strength of an allocation; it never becomes weaker."""
        held = self._allocations.get(uid)
        if held is not None and held.strength < strength:
            self._allocations[uid] = replace(held, strength=strength)
            if strength is Strength.BOUND:
                self.kept_apart.has_bound(uid)

    def release(self, uid: str) -> None:
        """Free what a pod holds, drafts included; nothing happens when it holds nothing."""
        self.devices.give_up(uid)
        held = self._allocations.pop(uid, None)
        if held is None:
            return
        node = held.assignment.node
        self.lacking_devices.discard(uid)
        self._rooms.drop(uid)
        self.kept_apart.drop(uid)
        self.bookings.release(held)
        self._account(node).remove(uid)
        self.gang_nodes.remove(uid)
        self._settle(node)
        self._forget_empty(node)
        self.changed()

    def undo(self, uids: Iterable[str]) -> None:
        """Free what a failed plan took. ``version`` stays, because other pods have no more capacity than before."""
        version = self.version
        for uid in uids:
            self.release(uid)
        self.version = version

    def close(self) -> None:
        """Free the matcher."""
        self.bookings.matcher.close()

    # Inside.

    def _allocate(
        self, pod: Pod, assignment: Assignment, gang: object, strength: Strength, requests: Resources
    ) -> None:
        held = Allocation(pod.namespace, pod.name, assignment, pod.requests, strength, pod.host_ports)
        self._allocations[pod.uid] = held
        self._rooms.put(pod.uid, assignment.node, pod.claims, GATE not in pod.gates)
        self.kept_apart.put(pod, assignment.node, strength is Strength.BOUND)
        self.bookings.take_drafted_devices(held)
        self.gang_nodes.add(pod.uid, assignment.node, gang)
        self._account(assignment.node).add(pod.uid, requests, foreign=False, ports=pod.host_ports)
        self._note_negative(assignment.node)

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
            self.bookings.stop_waiting(name)

    def _note_negative(self, name: str) -> None:
        account = self._accounts[name]
        over = name in self._nodes and min(account.free.values(), default=0) < 0
        (self._negative.add if over else self._negative.discard)(name)

    def _settle(self, *names: str) -> None:
        """Book what foreign pods use of nodes, and the allocations there that wait for capacity."""
        for name in names:
            self._note_negative(name)
        present = [self._accounts[name] for name in names if name in self._nodes]
        self.bookings.settle({one.name: NodeUse(one.allocatable, one.foreign_use) for one in present})

    def _renewed(self, other_units: bool) -> None:
        """Count every allocation in the units of the graph that is now in use."""
        if other_units:
            for uid, held in self._allocations.items():
                rounded = self.rounded(held.requests)
                self._account(held.assignment.node).add(uid, rounded, foreign=False, ports=held.ports)
        for name in self._nodes:
            # Free amounts also depend on the leaves of a node in the graph.
            self.journal.note(name)
        self.changed()
