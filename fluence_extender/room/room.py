"""What is free: the value by which a plan finds whether and where a gang fits, and why it doesn't.

A `Room` has the free amounts and host ports of the nodes, the units of virtual devices in use, and what else decides:
the rules of placed pods, the claims that wait, the nodes that are held. Invariant: a plan changes no room. `take`,
`without`, `less` and the others return another room, which shares with the first whatever is equal. So a plan that
fails leaves nothing behind.

What `Ledger.room` returns shares the ledger's state, so ask for it again when the ledger has changed. A question that
is asked over several steps needs a `copy`, and one that is asked in another thread `Ledger.snapshot`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, TypeVar

from immutables import Map

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.claims import ClaimRoom, ClaimRooms
from fluence_extender.room.devices import DeviceUse
from fluence_extender.room.holdings import Firmness, Holding, holding_of
from fluence_extender.room.holds import GangNodes, HeldNodes, Hold
from fluence_extender.room.kept_apart import NO_NODES, KeptApart
from fluence_extender.room.order import NodeOrder


@dataclass(frozen=True, slots=True)
class TakenPlace:
    """A pod that has a place in a room but not in the ledger, and its gang."""

    pod: Pod
    gang: object
    holding: Holding


Placements = Mapping[str, TakenPlace]
"""Pods that have a place in a room but not in the ledger, by uid."""

Gone = Mapping[str, Holding]
"""What the pods held that are gone in a room, by uid."""

NOTHING_PLACED: Placements = MappingProxyType({})
NOTHING_GONE: Gone = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Facts:
    """What decides, in addition to amounts, where pods may go.

    ``order`` are the nodes in the order of the policy. ``kept_apart`` has the rules of pods about others, ``claims``
    the pods that wait for claims, ``gang_nodes`` the gangs on each node. ``holdings`` is what our pods hold.

    Rooms that differ in some pods share one copy of ``kept_apart`` and one of ``claims``. A copy is made when it is
    needed and brought up to date for the room that asks.
    """

    order: NodeOrder
    kept_apart: KeptApart
    claims: ClaimRooms
    gang_nodes: GangNodes
    holdings: Map[str, Holding]
    _kept_from: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _kept_apart: _Copy[KeptApart] | None = field(default=None, init=False)
    _claims: _Copy[ClaimRooms] | None = field(default=None, init=False)

    def kept_from(self, pod: Pod) -> frozenset[str]:
        """Return the nodes from which pods in the ledger keep the pod; cached, because plans ask for it repeatedly."""
        nodes = self._kept_from.get(pod.uid)
        if nodes is None:
            nodes = self._kept_from[pod.uid] = self.kept_apart.nodes(pod)
        return nodes

    def kept_apart_with(self, placed: Placements, gone: Gone) -> KeptApart:
        """Return the rules about other pods with the pods ``placed`` and without those ``gone``."""
        if not placed and not gone:
            return self.kept_apart
        if self._kept_apart is None:
            self._kept_apart = _Copy(self.kept_apart.copy())
        return self._kept_apart.brought_to(placed, gone, _put_apart)

    def claims_with(self, placed: Placements, gone: Gone) -> ClaimRooms:
        """Return the pods that wait for claims with the pods ``placed`` and without those ``gone``."""
        if not placed and not gone:
            return self.claims
        if self._claims is None:
            self._claims = _Copy(self.claims.copy())
        return self._claims.brought_to(placed, gone, _put_claims)


def _put_apart(rules: KeptApart, pod: Pod, node: str) -> None:
    rules.put(pod, node, bound=False)


def _put_claims(claims: ClaimRooms, pod: Pod, node: str) -> None:
    if pod.claims:
        claims.put(pod.uid, node, pod.claims)


Copied = TypeVar("Copied", KeptApart, ClaimRooms)


class _Copy(Generic[Copied]):
    """A copy that is brought to the state of one room after another by what differs."""

    def __init__(self, copied: Copied) -> None:
        self._copied: Copied = copied
        self._at: tuple[Placements, Gone] = NOTHING_PLACED, NOTHING_GONE
        self._present: dict[str, TakenPlace] = {}

    def brought_to(self, placed: Placements, gone: Gone, put: Callable[[Copied, Pod, str], None]) -> Copied:
        """Return the copy with the pods ``placed`` and without those ``gone``."""
        if self._at[0] is placed and self._at[1] is gone:
            return self._copied
        present = {uid: pod for uid, pod in placed.items() if uid not in gone}
        for uid in [uid for uid, pod in self._present.items() if present.get(uid) is not pod]:
            self._copied.drop(uid)
        for uid, pod in present.items():
            if self._present.get(uid) is not pod:
                put(self._copied, pod.pod, pod.holding.node)
        self._copied.without(gone.keys() - placed.keys())
        self._at, self._present = (placed, gone), present
        return self._copied


@dataclass(slots=True, eq=False)
class Room:
    """What is free for a gang.

    ``free`` is what the nodes have left, ``whole`` what they have when nothing runs, and ``devices`` the units of
    devices in use; treat all three as read-only. The nodes ``shut`` take nothing new, and ``held_nodes`` are held for
    gangs.

    ``gang`` is the gang that it is for, and nodes held for the gangs ``overtaken`` are open to it, too. Only the nodes
    ``inside`` are used, all if it is None. ``placed`` are pods that have a place in this room but not in the ledger,
    and ``gone`` are pods that don't count any more.
    """

    free: CapacityTable
    whole: CapacityTable
    devices: DeviceUse
    facts: Facts
    held_nodes: HeldNodes
    shut: Set[str]
    gang: object = None
    overtaken: frozenset[object] = frozenset()
    inside: Set[str] | None = None
    placed: Placements = field(default_factory=lambda: NOTHING_PLACED)
    gone: Gone = field(default_factory=lambda: NOTHING_GONE)
    _closed: Set[str] | None = field(default=None, init=False)

    # Other rooms.

    def copy(self) -> Room:
        """Return a room whose amounts stay as they are when the ledger changes."""
        return replace(self, free=self.free.copy(), devices=self.devices.copy(), facts=replace(self.facts))

    def open_to(self, gang: object, overtaken: Collection[object] = ()) -> Room:
        """Return the room as it is for ``gang``, to which the nodes held for the gangs ``overtaken`` are open, too."""
        return replace(self, gang=gang, overtaken=frozenset(overtaken))

    def within(self, nodes: Set[str] | None) -> Room:
        """Return the room on these nodes only; None changes nothing."""
        if nodes is None:
            return self
        return replace(self, inside=nodes if self.inside is None else self.inside & nodes)

    def less(self, hold: Hold) -> Room:
        """Return the room that is left if everything of ``hold`` stays free."""
        room = replace(self, shut=self.shut | hold.closed) if hold.closed else self
        if hold.amounts is not None and len(hold.amounts):
            free = self.free.having(self.free.free.copy(), self.free.ports)
            rows, amounts = hold.rows(free)
            free.free[rows] -= amounts
            room = replace(room, free=free)
        if hold.shares:
            room = replace(room, devices=self.devices.with_shares(hold.shares))
        return room

    def take(self, places: Iterable[tuple[Pod, Assignment]]) -> Room:
        """Return the room that is left once pods of the gang have these places."""
        new = {
            pod.uid: TakenPlace(pod, self.gang, holding_of(pod, place, Firmness.PLANNED))
            for pod, place in places
        }
        room = self._counted([placed.holding for placed in new.values()], [])
        return replace(room, placed={**self.placed, **new})

    def occupy(self, places: Iterable[tuple[Pod, Assignment]], gang: object) -> None:
        """Count places of a gang as taken in this room itself, which must be `Ledger.snapshot`'s own.

        Rooms that were made of it before don't change.
        """
        facts = self.facts
        taken = [(pod, holding_of(pod, place, Firmness.PLANNED)) for pod, place in places]
        for pod, held in taken:
            facts.kept_apart.put(pod, held.node, bound=False)
            _put_claims(facts.claims, pod, held.node)
            facts.gang_nodes.add(pod.uid, held.node, gang)
        room = self._counted([held for _, held in taken], [])
        self.free, self.devices, self._closed = room.free, room.devices, None
        self.facts = replace(facts, holdings=facts.holdings.update((pod.uid, held) for pod, held in taken))

    def without(self, uids: Collection[str]) -> Room:
        """Return the room as if exactly these pods were gone; pods that hold nothing here don't count."""
        if self.gone.keys() == uids:
            return self
        gone = {uid: held for uid in uids if (held := self.gone.get(uid) or self.holding(uid)) is not None}
        back = [held for uid, held in self.gone.items() if uid not in gone]
        room = self._counted(back, [held for uid, held in gone.items() if uid not in self.gone])
        return replace(room, gone=gone)

    def _counted(self, taken: Sequence[Holding], given: Sequence[Holding]) -> Room:
        """Return the room once some pods have taken what they hold, and others have given it back."""
        free = self.free.changed(
            [(held.node, held.requests, held.ports) for held in taken],
            [(held.node, held.requests, held.ports) for held in given],
        )
        devices = self.devices
        for holdings, sign in ((taken, 1), (given, -1)):
            shares = [share for held in holdings for share in held.assignment.devices]
            devices = devices.with_shares(shares, sign) if shares else devices
        return replace(self, free=free, devices=devices)

    # Answers.

    def holding(self, uid: str) -> Holding | None:
        """Return what one of our pods holds, None if it holds nothing."""
        placed = self.placed.get(uid)
        return placed.holding if placed is not None else self.facts.holdings.get(uid)

    @property
    def closed(self) -> Set[str]:
        """The nodes that the gang may not use although they have room."""
        if self._closed is None:
            gang_nodes = self.facts.gang_nodes
            self._closed = (
                self.held_nodes.closed_to(self.gang, self.overtaken)
                | self.shut
                | gang_nodes.closed_to(self.gang, self.gone)
            )
            if gang_nodes.exclusive:
                placed = (pod for uid, pod in self.placed.items() if uid not in self.gone)
                self._closed |= {pod.holding.node for pod in placed if pod.gang != self.gang}
        return self._closed

    def usable(self, nodes: Set[str]) -> Set[str]:
        """Return those of ``nodes`` that the gang may use; usually ``nodes`` itself."""
        if self.inside is not None:
            nodes = nodes & self.inside
        return nodes if self.closed.isdisjoint(nodes) else nodes - self.closed

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that the room has, in the order in which the policy fills nodes."""
        rows = self.free.rows
        if len(rows) < len(names):
            return self.facts.order.sorted([name for name in rows if name in names])
        ordered = self.facts.order.sorted(names)
        # A plan made over several steps may name nodes that have joined since.
        return ordered if self.free.has(ordered) else tuple(filter(rows.__contains__, ordered))

    @property
    def spreads(self) -> bool:
        """Whether the policy takes the nodes with the most room first."""
        return self.facts.order.spreads

    @property
    def kept_apart(self) -> KeptApart:
        """The rules of pods about others. Other rooms change it, so don't keep it."""
        return self.facts.kept_apart_with(self.placed, self.gone)

    @property
    def claims(self) -> ClaimRooms:
        """The pods that wait for claims. Other rooms change it, so don't keep it."""
        return self.facts.claims_with(self.placed, self.gone)

    @property
    def keeps_apart(self) -> bool:
        """Whether a pod with a place may keep others from nodes."""
        return self.facts.kept_apart.has_terms or any(place.pod.apart for place in self.placed.values())

    def kept_from(self, pod: Pod) -> frozenset[str]:
        """Return the nodes from which the required anti-affinity of pods with places keeps the pod."""
        if not self.placed and not self.facts.kept_from(pod):
            # Fewer pods keep it from no more nodes.
            return NO_NODES
        return self.kept_apart.nodes(pod)

    def keeps_any(self, pods: Iterable[Pod]) -> bool:
        """Return whether pods with places keep any of ``pods`` from some node."""
        return self.keeps_apart and any(map(self.kept_from, pods))

    def claim_room(self, pod: Pod) -> ClaimRoom | None:
        """Return how many pods with the claims of ``pod`` nodes host, None for a pod without claims."""
        return ClaimRoom(lambda: self.claims, pod.claims) if pod.claims else None
