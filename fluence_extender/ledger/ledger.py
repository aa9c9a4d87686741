"""The ledger: every pod's hold and every node's account, exact, with the matcher's bookings kept equal to them.

Invariant: for each node the matcher's bookings cover the exact use of its pods, or the node is in ``overcommitted`` and
takes nothing new; a pod's end frees exactly its share. What the cluster says is bound is always taken into account,
whether there is room for it or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from fluence_extender.graph.containment import Containment
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.account import NodeAccount
from fluence_extender.ledger.allocation import Allocation, Strength
from fluence_extender.ledger.bookings import Bookings
from fluence_extender.ledger.capacity import LiveCapacity, NodeCapacity
from fluence_extender.ledger.devices import Devices
from fluence_extender.ledger.journal import Journal
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.ledger.preemptor_holds import PreemptorHolds
from fluence_extender.ledger.upkeep import Upkeep
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import NOTHING, Resources

LOW_FIRST = ("lonode", "lonodex", "low")
"""Policies that fill nodes from the lowest id up; the others begin at the other end (fluxion reference 4.5)."""


class NoCapacity(Exception):
    """The matcher has no room where the plan wanted to put a pod; ``reason`` says so in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Ledger:
    """See the module docstring. ``version`` grows whenever a pod that had no place might have one now.

    ``free`` is what all nodes have left, ``whole`` what they have when nothing runs; ``lacking`` are the bound pods
    that hold fewer devices than they ask for, or others than their stamps name because those aren't there. ``upkeep``
    keeps the graph equal to the nodes and the virtual resources.
    """

    def __init__(self, mirror: Mirror, policy: str = "lonode") -> None:
        self._exclusive = policy.endswith("nodex")
        self._descending = policy not in LOW_FIRST
        self.journal = Journal()
        self.preemptor_holds = PreemptorHolds()
        self._accounts: dict[str, NodeAccount] = {}
        self._nodes: dict[str, Node] = {}
        self._allocations: dict[str, Allocation] = {}
        self.upkeep = Upkeep(mirror, self._nodes, self._accounts, self._allocations, self._renewed)
        self._foreign: dict[str, str] = {}
        self._gangs_at: dict[str, Counter[object]] = {}
        self._gang_of: dict[str, object] = {}
        self._negative: set[str] = set()
        self.lacking: set[str] = set()
        self.version = 0
        self.free = LiveCapacity(
            self._accounts,
            self.journal,
            lambda account: NodeCapacity(self.free_on(account.name), account.ports),
            lambda: (self.behind, id(self.mirror)),
        )
        self.whole = LiveCapacity(
            self._accounts, self.journal, lambda account: NodeCapacity(account.allocatable)
        )

    # Reading.

    @property
    def accounts(self) -> Mapping[str, NodeAccount]:
        """The account of every node that there is or that holds something."""
        return self._accounts

    @property
    def allocations(self) -> Mapping[str, Allocation]:
        """What each pod of ours holds, by uid."""
        return self._allocations

    @property
    def bookings(self) -> Bookings:
        """The matcher's jobs that stand for the holds and for others' pods."""
        return self.upkeep.bookings

    @property
    def containment(self) -> Containment:
        """The graph as the cluster has it now, to be shown."""
        return self.upkeep.containment

    @property
    def mirror(self) -> Mirror:
        """The matcher's side."""
        return self.bookings.mirror

    @property
    def devices(self) -> Devices:
        """The virtual devices."""
        return self.bookings.devices

    def node(self, name: str) -> Node | None:
        """The node of that name as it was last taken note of."""
        return self._nodes.get(name)

    @property
    def foreign(self) -> Mapping[str, str]:
        """Others' pods that are counted, by uid, each with its node."""
        return self._foreign

    @property
    def behind(self) -> bool:
        """Whether the graph lacks changes that are in the accounts."""
        return self.upkeep.behind

    @property
    def overcommitted(self) -> set[str]:
        """Nodes on which more is used than could be booked: nothing new lands there."""
        return self._negative | self.bookings.overcommitted

    def gangs_apart(self) -> Mapping[str, object] | None:
        """The gang of each pod that holds something, where only pods of one gang share a node; else None."""
        return self._gang_of if self._exclusive else None

    def holds(self, uid: str, node: str) -> bool:
        """Whether the pod holds its share on ``node``."""
        held = self._allocations.get(uid)
        return held is not None and held.assignment.node == node

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """The nodes that ``gang`` may not use now, or wouldn't if the pods ``without`` held nothing."""
        shut = self.overcommitted | self.preemptor_holds.closed_to(gang)
        if self._exclusive:
            held = (
                (uid, self._allocations[uid].assignment.node) for uid in without if uid in self._allocations
            )
            going = Counter((node, self._gang_of[uid]) for uid, node in held)
            for name, gangs in self._gangs_at.items():
                if any(one != gang and count > going[name, one] for one, count in gangs.items()):
                    shut.add(name)
        return shut

    def apart_from(self, name: str, gang: object) -> list[str]:
        """The pods of ours on a node, by uid, for whose sake a node-exclusive policy closes it to ``gang``."""
        if not self._exclusive:
            return []
        users = self._accounts[name].users
        return [uid for uid in users if uid in self._gang_of and self._gang_of[uid] != gang]

    def free_on(self, name: str) -> Resources:
        """What is free on a node of the graph: of what the node has gained only what the graph has already."""
        account = self._accounts[name]
        if not self.behind:
            return account.free
        return account.free - self.mirror.graph.unseen(name, account.allocatable)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that are nodes of the graph, in the order the policy fills them."""
        if not self.behind and len(names) == len(self.mirror.graph.nodes):
            return self.mirror.everywhere(self._descending)
        return self.mirror.in_order(names, self._descending)

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` in whole units of the graph, as the matcher will count them."""
        return self.mirror.rounded(requests)

    def ask(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int]:
        """Ask the matcher for the whole of a gang of equal members. Raises `MatcherError`."""
        return self.mirror.ask(requests, count, nodes)

    # Nodes and others' pods.

    def load(self, nodes: Iterable[Node], resources: VirtualResources | None = None) -> None:
        """Take a whole set of nodes, and resources if given, and build the graph at once; holds stay.

        Raises `MatcherError` and `GraphTooLarge` when no graph can be built; ``upkeep.fault`` says so.
        """
        if resources is not None:
            self.upkeep.resources = resources
        self._nodes.clear()
        self._nodes.update((node.name, node) for node in nodes)
        for name, node in self._nodes.items():
            self._account(name).resize(node.allocatable)
        self.upkeep.load()

    def replace_resources(self, resources: VirtualResources) -> None:
        """Take other virtual resources; holds stay."""
        self.upkeep.follow(None, None, (NOTHING, NOTHING), resources)
        self.changed()

    def put_node(self, node: Node) -> None:
        """Take note of a node that joins or has changed."""
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        account = self._account(node.name)
        account.resize(node.allocatable)
        self.changed()
        levels = self.mirror.level_values
        if old is None or old.allocatable != node.allocatable or levels(old) != levels(node):
            leaving = node.name if old is not None else None
            self.upkeep.follow(leaving, node, (node.allocatable, account.foreign_use))
            self._settle(node.name)

    def drop_node(self, name: str) -> None:
        """Take note of a node that has left; what pods held there stays on its account until they are gone."""
        if self._nodes.pop(name, None) is None:
            return
        self._account(name).resize(NOTHING)
        self.upkeep.follow(name, None, (NOTHING, NOTHING))
        self._negative.discard(name)
        self._forget_empty(name)
        self.changed()

    def put_foreign(self, *pods: Pod) -> None:
        """Count bound pods of other schedulers."""
        touched: dict[str, None] = {}
        for pod in pods:
            known = self._accounts.get(pod.node)
            counted = known is not None and known.users.get(pod.uid) == pod.requests
            if counted and self._foreign.get(pod.uid) == pod.node:
                continue
            self.drop_foreign(pod.uid)
            self._foreign[pod.uid] = pod.node
            self._account(pod.node).add(pod.uid, pod.requests, foreign=True, ports=pod.host_ports)
            touched[pod.node] = None
        self._settle(*touched)

    def drop_foreign(self, uid: str) -> None:
        """Stop counting a pod of another scheduler."""
        node = self._foreign.pop(uid, None)
        if node is not None:
            self._account(node).remove(uid)
            self._settle(node)
            self._forget_empty(node)
            self.changed()

    def recount(self, name: str) -> None:
        """Count a node anew from its node object and its pods, and book it again."""
        node = self._nodes.get(name)
        account = self._account(name)
        account.recount(node.allocatable if node is not None else NOTHING)
        self.upkeep.unhook(name)
        self._settle(name)
        self._forget_empty(name)
        self.changed()

    def changed(self) -> None:
        """Say that waiting gangs should be tried again."""
        self.version += 1

    # Our pods.

    def take(
        self, pod: Pod, assignment: Assignment, gang: object, strength: Strength = Strength.PLANNED
    ) -> None:
        """`take_all` of one pod."""
        self.take_all(((pod, assignment),), gang, strength)

    def take_all(
        self, places: Sequence[tuple[Pod, Assignment]], gang: object, strength: Strength = Strength.PLANNED
    ) -> None:
        """Hold the planned places of a gang's pods; their drafted devices become part of them.

        Raises `NoCapacity`; then none is held, and the drafts are given up.
        """
        sizes = [self.rounded(pod.requests) for pod, _ in places]
        shares = [(pod.uid, place.node, size) for (pod, place), size in zip(places, sizes, strict=True)]
        full = self.bookings.book_all(shares)
        if full:
            for pod, _ in places:
                self.devices.give_up(pod.uid)
            raise NoCapacity(f"node {full} has no room left in whole units")
        for (pod, place), size in zip(places, sizes, strict=True):
            self._hold(pod, place, gang, strength, size)

    def adopt(self, pod: Pod, gang: object, strength: Strength) -> Assignment:
        """Take into account that a pod is bound, whether there is room or not; return what it holds."""
        return self.adopt_all(((pod, gang),), strength)[0]

    def adopt_all(self, bound: Iterable[tuple[Pod, object]], strength: Strength) -> list[Assignment]:
        """`adopt` pods, each with its gang, at once; in a conflict the earlier has the room."""
        assignments: list[Assignment] = []
        booked: list[tuple[str, str, Resources]] = []
        for pod, gang in bound:
            self.release(pod.uid)
            requests = self.rounded(pod.requests)
            shares, settled = self.devices.redraft(pod, pod.requires) if pod.devices else ((), True)
            assignment = Assignment(pod.uid, pod.node, shares)
            self._hold(pod, assignment, gang, strength, requests)
            if not settled:
                self.lacking.add(pod.uid)
            assignments.append(assignment)
            booked.append((pod.uid, pod.node, requests))
        self.bookings.book_bound(booked)
        return assignments

    def resume(self, pod: Pod, gang: object) -> Assignment | None:
        """Hold the node that a pod was steered to for it again after a start; None when there is no room."""
        node = pod.steered_to
        if node not in self._nodes or not self._accounts[node].takes(
            self.rounded(pod.requests), pod.host_ports
        ):
            return None
        elsewhere = self.mirror.catalogue.nodes() - {node}
        drafted = self.devices.draft(pod, pod.requires, elsewhere) if pod.devices else ()
        if not isinstance(drafted, tuple):
            return None
        assignment = Assignment(pod.uid, node, drafted)
        try:
            self.take(pod, assignment, gang, Strength.COMMITTED)
        except NoCapacity:
            return None
        return assignment

    def amend(self, pod: Pod) -> None:
        """Count a pod anew on its node when its requests have changed, as after a resize; its devices stay its own."""
        held = self._allocations.get(pod.uid)
        if held is None or held.requests == pod.requests:
            return
        amended = self._allocations[pod.uid] = replace(held, requests=pod.requests)
        node = held.assignment.node
        self._account(node).add(pod.uid, self.rounded(pod.requests), foreign=False, ports=held.ports)
        self.bookings.rebook(amended)
        self._settle(node)
        self.changed()

    def strengthen(self, uid: str, strength: Strength) -> None:
        """Raise a hold's strength; it never gets weaker."""
        held = self._allocations.get(uid)
        if held is not None and held.strength < strength:
            self._allocations[uid] = replace(held, strength=strength)

    def release(self, uid: str) -> None:
        """Free what a pod holds, drafts included; nothing happens when it holds nothing."""
        self.devices.give_up(uid)
        held = self._allocations.pop(uid, None)
        if held is None:
            return
        node = held.assignment.node
        self.lacking.discard(uid)
        self.bookings.release(held)
        self._account(node).remove(uid)
        gang = self._gang_of.pop(uid)
        self._gangs_at[node][gang] -= 1
        self._gangs_at[node] += Counter()
        if not self._gangs_at[node]:
            del self._gangs_at[node]
        self._settle(node)
        self._forget_empty(node)
        self.changed()

    def undo(self, uids: Iterable[str]) -> None:
        """Free what a plan that failed took. Nobody has more room than before it, so ``version`` stays."""
        version = self.version
        for uid in uids:
            self.release(uid)
        self.version = version

    def close(self) -> None:
        """Free the matcher."""
        self.bookings.close()

    # Inside.

    def _hold(
        self, pod: Pod, assignment: Assignment, gang: object, strength: Strength, requests: Resources
    ) -> None:
        held = Allocation(pod.namespace, pod.name, assignment, pod.requests, strength, pod.host_ports)
        self._allocations[pod.uid] = held
        self.bookings.keep_devices(held)
        self._gang_of[pod.uid] = gang
        gangs = self._gangs_at.get(assignment.node)
        if gangs is None:
            gangs = self._gangs_at[assignment.node] = Counter()
        gangs[gang] += 1
        self._account(assignment.node).add(pod.uid, requests, foreign=False, ports=pod.host_ports)
        self._note_negative(assignment.node)

    def _account(self, name: str) -> NodeAccount:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = NodeAccount(name, note=self.journal.note)
            self.journal.note(name)
        return account

    def _forget_empty(self, name: str) -> None:
        if name not in self._nodes and not self._accounts[name].users:
            del self._accounts[name]
            self.journal.note(name)
            self._negative.discard(name)
            self.bookings.forget(name)

    def _note_negative(self, name: str) -> None:
        account = self._accounts[name]
        over = name in self._nodes and min(account.free.values(), default=0) < 0
        (self._negative.add if over else self._negative.discard)(name)

    def _settle(self, *names: str) -> None:
        """Book what others use of nodes, and what of ours couldn't be booked there before."""
        for name in names:
            self._note_negative(name)
        present = [self._accounts[name] for name in names if name in self._nodes]
        self.bookings.settle({one.name: (one.allocatable, one.foreign_use) for one in present})

    def _renewed(self, other_units: bool) -> None:
        """Another graph is in place: every hold is counted in its units."""
        if other_units:
            for uid, held in self._allocations.items():
                rounded = self.rounded(held.requests)
                self._account(held.assignment.node).add(uid, rounded, foreign=False, ports=held.ports)
        for name in self._nodes:
            # Others see by what the graph has of a node, too.
            self.journal.note(name)
        self.changed()
