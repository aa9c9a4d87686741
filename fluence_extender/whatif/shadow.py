"""A copy of the books to plan on: the same accounts and devices, no matcher and no cluster behind it.

Copying takes references to immutable values, so it is done in milliseconds between two observations; all that follows
works on the copy alone, in another thread, and nothing of it reaches the books. Whether a gang fits is for the exact
search to say, on the same accounts as the service's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible
from fluence_extender.ledger.account_copy import AccountCopy, copied_accounts
from fluence_extender.ledger.books import Books
from fluence_extender.ledger.devices import why_not
from fluence_extender.ledger.journal import Journal
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.node import Node
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.placement.device_search import Asker, Chosen, DeviceSearch, DeviceUse
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.rooms import Rooms


class NoMatcher(MatcherError):
    """A copy has no matcher to ask; the search answers instead."""


@dataclass(frozen=True, slots=True)
class ShadowGraph:
    """The resource graph, as far as placement asks about it."""

    levels: Mapping[str, str]
    catalogue: DeviceCatalogue


@dataclass(frozen=True, slots=True)
class Use:
    """What one pod uses of one node, and its devices."""

    uid: str
    node: str
    requests: Resources
    ports: tuple[HostPort, ...] = ()
    devices: tuple[DeviceShare, ...] = ()

    @property
    def assignment(self) -> Assignment:
        """The same as a place."""
        return Assignment(self.uid, self.node, self.devices)


@dataclass(slots=True)
class Snapshot:
    """All that a copy is made of.

    ``order`` are the nodes as the policy fills them; ``uses`` what pods hold whose end is known or that have devices;
    ``rounded`` rounds requests as they are counted; ``shut`` are nodes that take nothing new.
    """

    nodes: Sequence[Node]
    accounts: dict[str, AccountCopy]
    order: tuple[str, ...]
    graph: ShadowGraph
    shares: Sequence[DeviceShare] = ()
    shut: frozenset[str] = frozenset()
    rounded: Callable[[Resources], Resources] = lambda requests: requests
    uses: Mapping[str, Use] = field(default_factory=dict)


def snapshot(books: Books, nodes: Iterable[Node], ending: Collection[str]) -> Snapshot:
    """Copy the books as they are now; ``ending`` are the uids of running pods whose end is known."""
    accounts = copied_accounts(books)
    present = list(nodes)
    uses: dict[str, Use] = {}
    for uid in ending:
        held = books.holdings.get(uid)
        node = held.assignment.node if held is not None else books.foreign.get(uid, "")
        account = books.accounts.get(node)
        if account is None or uid not in account.users:
            continue
        devices = held.assignment.devices if held is not None else ()
        ports = held.ports if held is not None else ()
        uses[uid] = Use(uid, node, account.users[uid], ports, devices)
    return Snapshot(
        present,
        accounts,
        books.in_order([node.name for node in present]),
        ShadowGraph(books.mirror.levels, books.mirror.catalogue),
        [share for held in books.holdings.values() for share in held.assignment.devices],
        frozenset(books.closed(object())),
        books.mirror.rounded,
        uses,
    )


class Shadow:
    """The copy; a `Ledger` for the planner."""

    def __init__(self, taken: Snapshot) -> None:
        self.accounts = taken.accounts
        self.journal = Journal()
        self.behind = False
        self.mirror = taken.graph
        self._held: dict[str, Use] = {}
        self._others = list(taken.shares)
        self.index = EligibilityIndex()
        for node in taken.nodes:
            self.index.put(node)
        self._taken = taken
        self._place = {name: place for place, name in enumerate(taken.order)}
        self.use = DeviceUse(taken.graph.catalogue, taken.shares)
        self.devices = ShadowDevices(self)

    @property
    def holdings(self) -> Mapping[str, Use]:
        """What was taken here, and under an empty uid the devices that others hold."""
        return {**self._held, "": Use("", "", NOTHING, (), tuple(self._others))}

    def room(self, name: str) -> Resources:
        """What is free on a node."""
        return self.accounts[name].free

    def closed(self, gang: object) -> set[str]:
        """The nodes that took nothing new when the copy was made."""
        return set(self._taken.shut)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """``names`` in the order the policy fills them."""
        if len(names) == len(self._taken.order):
            return self._taken.order
        return tuple(sorted((name for name in names if name in self._place), key=self._place.__getitem__))

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` as they are counted."""
        return self._taken.rounded(requests)

    def ask(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int]:
        """There is nobody to ask. Raises `NoMatcher`."""
        raise NoMatcher("a copy of the books has no matcher")

    def take(self, pod: Pod, assignment: Assignment, gang: object) -> None:
        """Hold a place; its devices have been drafted before."""
        use = Use(pod.uid, assignment.node, self.rounded(pod.requests), pod.host_ports, assignment.devices)
        self._held[pod.uid] = use
        self._count(use, -1)

    def undo(self, uids: Iterable[str]) -> None:
        """Give back what these pods hold, drafts included."""
        for uid in uids:
            self.devices.give_up(uid)
            use = self._held.pop(uid, None)
            if use is not None:
                self._count(use, 1)

    def end(self, use: Use, back: bool = False) -> None:
        """Let a pod that holds ``use`` end, or take that back."""
        self._count(use, -1 if back else 1)
        for share in use.devices:
            device = self.mirror.catalogue.at(share.path)
            if device is None:
                continue
            self.use.take(device, share.amount if back else -share.amount)
            if back:
                self._others.append(share)
            elif share in self._others:
                self._others.remove(share)

    def _count(self, use: Use, sign: int) -> None:
        account = self.accounts.get(use.node)
        if account is None:
            return
        (account.give_back if sign > 0 else account.take)(use.requests, use.ports)
        self.journal.note(use.node)


class ShadowDevices:
    """The devices of a copy."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._drafts: dict[str, list[tuple[Device, int]]] = {}

    @property
    def _catalogue(self) -> DeviceCatalogue:
        return self._shadow.mirror.catalogue

    def draft(
        self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()
    ) -> tuple[DeviceShare, ...] | Reason:
        """Hold what the pod asks for, or say why that can't be done."""
        nodes = set(self._shadow.index.nodes) - set(barred_nodes)
        asker = Asker(pod, nodes)
        search = DeviceSearch([asker], self._catalogue, self._shadow.use, _roomy(self._shadow, pod))
        for way, _ in search.ways():
            found = list(way[pod.uid])
            # The search takes its choices back when it goes on, which it doesn't: they are counted here instead.
            search.release()
            return self.hold(pod, found) or ()
        for kind, amount in sorted(pod.devices.items()):
            usable = [one for one in eligible(self._catalogue, kind, requires) if one.node in ("", *nodes)]
            if not any(self._shadow.use.free(one) for one in usable) or len(pod.devices) == 1:
                return why_not(self._catalogue, kind, amount, requires, usable)
        kind, amount = sorted(pod.devices.items())[0]
        return why_not(self._catalogue, kind, amount, requires, eligible(self._catalogue, kind, requires))

    def hold(
        self, pod: Pod, chosen: Iterable[Chosen | Sequence[tuple[Device, int]]]
    ) -> tuple[DeviceShare, ...] | None:
        """Hold exactly these devices."""
        shares = []
        for some in chosen:
            for device, amount in some:
                self._shadow.use.take(device, amount)
                self._drafts.setdefault(pod.uid, []).append((device, amount))
                shares.append(device.share(amount))
        return tuple(shares)

    def give_up(self, uid: str) -> None:
        """Free what a pod has drafted."""
        for device, amount in self._drafts.pop(uid, ()):
            self._shadow.use.take(device, -amount)


def _roomy(shadow: Shadow, pod: Pod) -> Rooms:
    """Rooms of the nodes that devices hang on: only those can be pinned to."""
    rooms = Rooms()
    for name in shadow.mirror.catalogue.nodes():
        account = shadow.accounts.get(name)
        if account is not None:
            rooms.put(name, account.free, account.ports)
    return rooms
