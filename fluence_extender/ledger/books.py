"""The books: every pod's hold and every node's account, with the matcher kept equal to them.

Invariant: for each node the matcher's bookings cover the exact use of its pods, or the node is in ``strained`` and
takes nothing new; a pod's end frees exactly its share. What the cluster says is bound is always taken into account,
whether there is room for it or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace

from fluence_extender.graph.jgf import GraphTooLarge
from fluence_extender.graph.units import Units
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.account import NodeAccount
from fluence_extender.ledger.devices import Devices
from fluence_extender.ledger.holding import Claim, Holding
from fluence_extender.ledger.journal import Journal
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.port import Jgf
from fluence_extender.model.node import Node
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import CPU, MEMORY, NOTHING, Resources

LOW_FIRST = ("lonode", "lonodex", "low")
"""Policies that fill nodes from the lowest id up; the others begin at the other end (fluxion reference 4.5)."""


FEW = 16
"""Up to one node in so many is put in order by itself, rather than picked from the order of all."""


class NoRoom(Exception):
    """The matcher has no room where the plan wanted to put a pod; ``reason`` says so in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Books:
    """See the module docstring. ``version`` grows whenever a pod that had no place might have one now."""

    def __init__(self, mirror: Mirror, policy: str = "lonode") -> None:
        self._mirror = mirror
        self._exclusive = policy.endswith("nodex")
        self._descending = policy not in LOW_FIRST
        self.journal = Journal()
        self._accounts: dict[str, NodeAccount] = {}
        self._nodes: dict[str, Node] = {}
        self._holdings: dict[str, Holding] = {}
        self._foreign: dict[str, str] = {}
        self._gangs_at: dict[str, Counter[object]] = {}
        self._gang_of: dict[str, object] = {}
        self._unbooked: dict[str, set[str]] = {}
        self._short: set[str] = set()
        self._ordered: tuple[str, ...] | None = None
        self._stale = False
        self._negative: set[str] = set()
        self.resources = VirtualResources("")
        self._devices = Devices(mirror)
        self.version = 0
        self.fault = ""

    # Reading.

    @property
    def accounts(self) -> Mapping[str, NodeAccount]:
        """The account of every node that there is or that holds something."""
        return self._accounts

    @property
    def holdings(self) -> Mapping[str, Holding]:
        """What each pod of ours holds, by uid."""
        return self._holdings

    @property
    def mirror(self) -> Mirror:
        """The matcher's side, as up to date as the accounts."""
        self._freshen()
        return self._mirror

    @property
    def devices(self) -> Devices:
        """The virtual devices, on a graph as up to date as the accounts."""
        self._freshen()
        return self._devices

    @property
    def foreign(self) -> Mapping[str, str]:
        """Others' pods that are counted, by uid, each with its node."""
        return self._foreign

    @property
    def short(self) -> Set[str]:
        """The pods of ours that hold more of their devices than there is by now."""
        return self._short

    @property
    def in_step(self) -> bool:
        """Whether the graph shows what the accounts say now; otherwise that is still to be done."""
        return not self._stale

    def awaits_room(self, uid: str) -> bool:
        """Whether a hold couldn't be booked yet because its leaves are taken."""
        held = self._holdings.get(uid)
        return held is not None and uid in self._unbooked.get(held.assignment.node, ())

    @property
    def strained(self) -> set[str]:
        """Nodes on which more is used than could be booked: nothing new lands there."""
        self._freshen()
        return self._negative | set(self._mirror.deficits) | set(self._unbooked)

    def holds(self, uid: str, node: str) -> bool:
        """Whether the pod holds its share on ``node``."""
        held = self._holdings.get(uid)
        return held is not None and held.assignment.node == node

    def closed(self, gang: object) -> set[str]:
        """The nodes that ``gang`` may not use now."""
        shut = self.strained
        if self._exclusive:
            shut |= {name for name, gangs in self._gangs_at.items() if any(one != gang for one in gangs)}
        return shut

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that are nodes of the graph, in the order the policy fills them."""
        self._freshen()
        if self._ordered is None:
            ranked = sorted(self._mirror.containment.nodes, key=self._mirror.rank, reverse=self._descending)
            self._ordered = tuple(ranked)
        if len(names) == len(self._ordered):
            return self._ordered
        if len(names) * FEW < len(self._ordered):
            present = [name for name in names if name in self._mirror.containment.nodes]
            return tuple(sorted(present, key=self._mirror.rank, reverse=self._descending))
        wanted = names if isinstance(names, Set) else set(names)
        return tuple(name for name in self._ordered if name in wanted)

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` in whole units of the graph, as the matcher will count them."""
        return round_up(requests, self._mirror.units)

    def ask(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int]:
        """Ask the matcher for the whole of a gang of equal members. Raises `MatcherError`."""
        self._freshen()
        everywhere = len(nodes) == len(self._mirror.containment.nodes)
        return self._mirror.ask(requests, count, None if everywhere else nodes)

    def document(self, expanded: bool) -> Jgf:
        """The graph as JGF in whole cores and GiB: one vertex a leaf, or one sized vertex for equal leaves."""
        return self.mirror.document(expanded)

    # Nodes and others' pods.

    def load(self, nodes: Iterable[Node], resources: VirtualResources | None = None) -> None:
        """Take a whole set of nodes, and resources if given; holds stay."""
        if resources is not None:
            self.resources = resources
        self._nodes = {node.name: node for node in nodes}
        for name, node in self._nodes.items():
            self._account(name).resize(node.allocatable)
        self._stale = True
        self.changed()

    def replace_resources(self, resources: VirtualResources) -> None:
        """Take other virtual resources; holds stay.

        Raises `MatcherError` and `GraphTooLarge` when the matcher can't take them; then everything is as before.
        """
        self._load(resources)
        self.changed()

    def put_node(self, node: Node) -> None:
        """Take note of a node that joins or has changed."""
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        self._account(node.name).resize(node.allocatable)
        self.changed()
        levels = self._mirror.level_values
        if old is None or old.allocatable != node.allocatable or levels(old) != levels(node):
            self._regraph(node.name if old is not None else None, node)

    def drop_node(self, name: str) -> None:
        """Take note of a node that has left; what pods held there stays on its account until they are gone."""
        if self._nodes.pop(name, None) is None:
            return
        self._account(name).resize(NOTHING)
        self._regraph(name, None)
        self._forget_empty(name)
        self.changed()

    def put_foreign(self, pod: Pod) -> None:
        """Count a bound pod of another scheduler."""
        account = self._account(pod.node)
        if self._foreign.get(pod.uid) == pod.node and account.users.get(pod.uid) == pod.requests:
            return
        self.drop_foreign(pod.uid)
        self._foreign[pod.uid] = pod.node
        account.add(pod.uid, pod.requests, foreign=True, ports=pod.host_ports)
        self._settle(pod.node)

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
        for uid, held in list(self._holdings.items()):
            if held.assignment.node == name and held.job is not None:
                self._mirror.cancel((held.job,))
                self._holdings[uid] = replace(held, job=None)
            if held.assignment.node == name and name in self._mirror.containment.nodes:
                self._unbooked.setdefault(name, set()).add(uid)
        self._mirror.forget_node(name)
        self._settle(name)
        self._forget_empty(name)
        self.changed()

    def changed(self) -> None:
        """Say that waiting gangs should be tried again."""
        self.version += 1

    # Our pods.

    def take(self, pod: Pod, assignment: Assignment, gang: object, claim: Claim = Claim.PLANNED) -> None:
        """Hold a planned place; the pod's drafted devices become part of it. Raises `NoRoom`."""
        self._freshen()
        requests = self.rounded(pod.requests)
        try:
            job = self._mirror.book(assignment.node, requests)
        except (MatcherError, KeyError) as error:
            self._devices.give_up(pod.uid)
            raise NoRoom(f"node {assignment.node} has no room left in whole units") from error
        self._hold(pod, assignment, gang, claim, job, requests)

    def adopt(self, pod: Pod, gang: object, claim: Claim) -> Assignment:
        """Take into account that a pod is bound, whether there is room or not; return what it holds."""
        self.release(pod.uid)
        self._freshen()
        requests = self.rounded(pod.requests)
        job: int | None = None
        if pod.node in self._mirror.containment.nodes:
            try:
                job = self._mirror.book(pod.node, requests)
            except MatcherError:
                self._unbooked.setdefault(pod.node, set()).add(pod.uid)
        shares = self._devices.redraft(pod, pod.requires) if pod.devices else ()
        assignment = Assignment(pod.uid, pod.node, shares)
        self._hold(pod, assignment, gang, claim, job, requests)
        return assignment

    def resume(self, pod: Pod, gang: object) -> Assignment | None:
        """Hold a steered pod's nominated node for it again after a start; None when there is no room."""
        self._freshen()
        if pod.nominated not in self._nodes or not self._accounts[pod.nominated].takes(
            self.rounded(pod.requests), pod.host_ports
        ):
            return None
        elsewhere = self._devices.nodes() - {pod.nominated}
        drafted = self._devices.draft(pod, pod.requires, elsewhere) if pod.devices else ()
        if not isinstance(drafted, tuple):
            return None
        assignment = Assignment(pod.uid, pod.nominated, drafted)
        try:
            self.take(pod, assignment, gang, Claim.COMMITTED)
        except NoRoom:
            return None
        return assignment

    def amend(self, pod: Pod) -> None:
        """Count a pod anew on its node when its requests have changed, as after a resize; its devices stay its own."""
        held = self._holdings.get(pod.uid)
        if held is None or held.requests == pod.requests:
            return
        self._freshen()
        node = held.assignment.node
        if held.job is not None:
            self._mirror.cancel((held.job,))
        self._holdings[pod.uid] = replace(held, requests=pod.requests, job=None)
        self._account(node).add(pod.uid, self.rounded(pod.requests), foreign=False, ports=held.ports)
        if node in self._mirror.containment.nodes:
            self._unbooked.setdefault(node, set()).add(pod.uid)
        self._settle(node)
        self.changed()

    def strengthen(self, uid: str, claim: Claim) -> None:
        """Raise a hold's claim; it never gets weaker."""
        held = self._holdings.get(uid)
        if held is not None and held.claim < claim:
            self._holdings[uid] = replace(held, claim=claim)

    def release(self, uid: str) -> None:
        """Free what a pod holds, drafts included; nothing happens when it holds nothing."""
        self._devices.give_up(uid)
        held = self._holdings.pop(uid, None)
        if held is None:
            return
        node = held.assignment.node
        self._mirror.cancel(held.jobs)
        if held.assignment.devices and self._short:
            # Others hold more of their devices than could be booked: what is free now is theirs first.
            self._stale = True
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
        self._mirror.close()

    # Inside.

    def _hold(
        self,
        pod: Pod,
        assignment: Assignment,
        gang: object,
        claim: Claim,
        job: int | None,
        requests: Resources,
    ) -> None:
        self._holdings[pod.uid] = Holding(
            pod.namespace,
            pod.name,
            assignment,
            pod.requests,
            claim,
            job,
            self._devices.jobs(pod.uid),
            pod.host_ports,
        )
        self._gang_of[pod.uid] = gang
        self._gangs_at.setdefault(assignment.node, Counter())[gang] += 1
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
            self._unbooked.pop(name, None)

    def _note_negative(self, name: str) -> None:
        account = self._accounts[name]
        over = name in self._nodes and any(amount < 0 for amount in account.free.values())
        (self._negative.add if over else self._negative.discard)(name)

    def _settle(self, name: str) -> None:
        """Book what others use of a node, and what of ours couldn't be booked before."""
        self._note_negative(name)
        if self._stale or name not in self._mirror.containment.nodes:
            return
        account = self._accounts[name]
        self._mirror.book_foreign(name, account.allocatable, account.foreign_use)
        waiting = [uid for uid in self._unbooked.pop(name, set()) if uid in self._holdings]
        self._book_again(sorted(waiting, key=lambda uid: (-self._holdings[uid].claim, uid)))

    def _book_again(self, uids: Iterable[str]) -> None:
        """Book holds that have no job on their node yet."""
        for uid in uids:
            held = self._holdings[uid]
            node = held.assignment.node
            if node not in self._mirror.containment.nodes:
                continue
            try:
                job = self._mirror.book(node, self.rounded(held.requests))
            except MatcherError:
                self._unbooked.setdefault(node, set()).add(uid)
                continue
            self._holdings[uid] = replace(held, job=job)

    def _regraph(self, old: str | None, node: Node | None) -> None:
        """Change the graph where a node has changed, or mark it for loading anew."""
        self._ordered = None
        if self._stale:
            return
        name = old if node is None else node.name
        tied = any(resource.parent == name for resource in self.resources.resources)
        if tied or (old is not None and old not in self._mirror.containment.nodes):
            # Devices hang on the node: what pods hold of them is booked again on a graph loaded anew.
            self._stale = True
            return
        here = [uid for uid, held in self._holdings.items() if held.assignment.node == name]
        if old is not None:
            self._unhook(old, here)
        if not self._mirror.replace_node(old, node):
            self._stale = True
        elif node is not None:
            self._unbooked[node.name] = set(here)
            self._settle(node.name)

    def _unhook(self, node: str, uids: Iterable[str]) -> None:
        """Take the compute jobs of a node's pods out of the matcher; the device jobs stay."""
        self._mirror.forget_node(node)
        self._unbooked.pop(node, None)
        for uid in uids:
            held = self._holdings[uid]
            if held.job is not None:
                self._mirror.cancel((held.job,))
                self._holdings[uid] = replace(held, job=None)

    def _freshen(self) -> None:
        """Load the graph anew if it is stale, and book everything on it, the strongest claims first.

        Raises what the load raises, each time until one succeeds; ``fault`` says it meanwhile.
        """
        if not self._stale:
            return
        try:
            self._load(self.resources)
        except (MatcherError, GraphTooLarge) as error:
            self.fault = f"the resource graph can't be loaded: {error}"
            raise

    def _load(self, resources: VirtualResources) -> None:
        units = self._mirror.units
        self._mirror.load(self._nodes.values(), resources)
        if self._mirror.units != units:
            self._round_anew()
        self.resources = resources
        self.fault = ""
        self._stale = False
        self._ordered = None
        self._unbooked.clear()
        self._short.clear()
        for name in self._nodes:
            self._settle(name)
        for uid, held in sorted(self._holdings.items(), key=lambda item: -item[1].claim):
            again, covered = self._devices.again(held.assignment.devices)
            if not covered:
                self._short.add(uid)
            self._holdings[uid] = replace(held, job=None, device_jobs=again)
            self._book_again((uid,))

    def _round_anew(self) -> None:
        """Count every hold in the units that the graph has now."""
        for uid, held in self._holdings.items():
            rounded = self.rounded(held.requests)
            self._account(held.assignment.node).add(uid, rounded, foreign=False, ports=held.ports)


def round_up(requests: Resources, units: Units) -> Resources:
    """``requests`` with cpu and memory rounded up to whole units."""
    if units.cpu_millicores == 1 and units.memory_bytes == 1:
        return requests
    sizes = {CPU: units.cpu_millicores, MEMORY: units.memory_bytes}
    return Resources(
        {name: -(-amount // sizes.get(name, 1)) * sizes.get(name, 1) for name, amount in requests.items()}
    )
