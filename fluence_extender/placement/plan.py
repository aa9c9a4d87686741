"""Planning a gang: all of its pods get a node and devices, or none does and the reason is said.

Equal members are one question to the matcher; members of different shapes, or with devices that hang on a node, are
placed together by `search`. Either way each pod then becomes an allocation of its own in the books, so that one pod's
end frees exactly its share. A plan that fails leaves the books as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from fluence_extender.ledger.books import Books, NoRoom
from fluence_extender.matcher.errors import Busy, MatcherError
from fluence_extender.model.node import Node
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.placement.eligibility import EligibilityIndex, Signature, passes, refusal, signature
from fluence_extender.placement.explain import no_place
from fluence_extender.placement.rooms import LiveRooms, Room
from fluence_extender.placement.search import Shape, place

DEVICE_ATTEMPTS = 16
"""How many nodes with devices of their own are tried for a gang before it is called busy."""


class Refused(Exception):
    """The gang has no place; ``reason`` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod to be placed; ``barred`` are the nodes that refused it lately."""

    pod: Pod
    barred: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _ShapeKey:
    requests: object
    signature: Signature
    barred: frozenset[str]
    ports: object
    pin: str


class Planner:
    """Plans gangs against the books. The books hold the result as planned; whoever drops it releases it there."""

    def __init__(self, books: Books, eligibility: EligibilityIndex) -> None:
        self._books = books
        self._eligibility = eligibility
        self._free = LiveRooms(books.accounts, books.journal)
        self._whole = LiveRooms(books.accounts, books.journal, lambda account: Room(account.allocatable))

    def node(self, name: str) -> Node | None:
        """The node of that name as it is now."""
        return self._eligibility.nodes.get(name)

    def plan(self, wishes: Sequence[Wish], gang: object) -> tuple[Assignment, ...]:
        """Place every pod of ``wishes``, held as planned. Raises `Refused`, and then nothing is held.

        ``gang`` is any hashable identity: under a node-exclusive policy only pods of one gang share a node.
        """
        barred: frozenset[str] = frozenset()
        for _ in range(DEVICE_ATTEMPTS):
            try:
                return self._attempt(wishes, gang, barred)
            except _LocalDevicesStranded as stranded:
                barred |= stranded.nodes
                last = stranded.reason
        raise Refused(last)

    def _attempt(
        self, wishes: Sequence[Wish], gang: object, barred: frozenset[str]
    ) -> tuple[Assignment, ...]:
        drafted = [wish.pod.uid for wish in wishes]
        try:
            shares = self._devices(wishes, barred)
            nodes = self._nodes(wishes, shares, gang)
            assignments = tuple(
                Assignment(wish.pod.uid, nodes[wish.pod.uid], shares.get(wish.pod.uid, ())) for wish in wishes
            )
            for wish, assignment in zip(wishes, assignments, strict=True):
                self._books.take(wish.pod, assignment, gang)
            return assignments
        except NoRoom as error:
            self._books.undo(drafted)
            raise Refused(self._explain(self._shapes(wishes, {}, gang), error.reason)) from error
        except Exception:
            self._books.undo(drafted)
            raise

    def _devices(self, wishes: Sequence[Wish], barred: frozenset[str]) -> dict[str, tuple[DeviceShare, ...]]:
        """Draft the devices of every pod, the pods with the smallest choice first."""
        asking = [wish for wish in wishes if wish.pod.devices]
        asking.sort(key=lambda wish: self._books.devices.choice(wish.pod.devices, wish.pod.requires))
        shares: dict[str, tuple[DeviceShare, ...]] = {}
        for wish in asking:
            pod = wish.pod
            drafted = self._books.devices.draft(pod, pod.requires, barred | wish.barred)
            if isinstance(drafted, Reason):
                raise Refused(drafted)
            shares[pod.uid] = drafted
        return shares

    def _nodes(
        self, wishes: Sequence[Wish], shares: Mapping[str, tuple[DeviceShare, ...]], gang: object
    ) -> dict[str, str]:
        pins = {
            uid: node
            for uid, held in shares.items()
            if (node := self._books.devices.node_of(held)) is not None
        }
        shapes = self._shapes(wishes, pins, gang)
        try:
            counts = (self._ask_matcher(shapes) if not pins else None) or self._search(shapes)
        except Busy:
            counts = None
        if counts is None:
            reason = self._explain(shapes, None)
            if pins:
                raise _LocalDevicesStranded(frozenset(pins.values()), reason)
            raise Refused(reason)
        return self._spread(shapes, counts)

    def _shapes(
        self, wishes: Sequence[Wish], pins: Mapping[str, str], gang: object
    ) -> list[tuple[Shape, list[Pod]]]:
        groups: dict[_ShapeKey, list[Wish]] = {}
        for wish in wishes:
            pod = wish.pod
            key = _ShapeKey(pod.requests, signature(pod), wish.barred, pod.host_ports, pins.get(pod.uid, ""))
            groups.setdefault(key, []).append(wish)
        shapes = []
        for key, members in groups.items():
            pod = members[0].pod
            nodes = self._books.in_order(self._usable(pod, key, gang))
            shape = Shape(self._books.rounded(pod.requests), len(members), nodes, pod.host_ports)
            shapes.append((shape, [wish.pod for wish in members]))
        return shapes

    def _usable(self, pod: Pod, key: _ShapeKey, gang: object) -> Set[str]:
        """The nodes a shape may use; the index's own set where nothing is taken out of it, which is the rule."""
        usable: Set[str] = self._eligibility.eligible(pod)
        for shut in (key.barred, self._books.closed(gang)):
            if not shut.isdisjoint(usable):
                usable = usable - shut
        return usable & {key.pin} if key.pin else usable

    def _ask_matcher(self, shapes: Sequence[tuple[Shape, list[Pod]]]) -> list[dict[str, int]] | None:
        """The matcher's answer for equal members; None where it knows too little to be believed.

        Raises `Busy` where it has no room: what it counts is part of what the accounts count, so there is none.
        """
        if len(shapes) != 1 or shapes[0][0].exclusive:
            return None
        shape = shapes[0][0]
        try:
            counts = self._books.ask(shape.requests, shape.count, shape.nodes)
        except Busy:
            raise
        except MatcherError:
            return None
        accounts = self._books.accounts
        for name, count in counts.items():
            if not (shape.requests * count).fits(accounts[name].free):
                return None
        return [counts] if sum(counts.values()) == shape.count else None

    def _spread(
        self, shapes: Sequence[tuple[Shape, list[Pod]]], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, str]:
        """Give each pod a node: pods in the order they came, nodes in the policy's order."""
        nodes: dict[str, str] = {}
        for (_, pods), placed in zip(shapes, counts, strict=True):
            waiting = iter(pods)
            for name in self._books.in_order(placed.keys()):
                for _ in range(placed[name]):
                    nodes[next(waiting).uid] = name
        return nodes

    def _search(self, shapes: Sequence[tuple[Shape, list[Pod]]]) -> list[dict[str, int]] | None:
        return place([shape for shape, _ in shapes], self._free.now())

    def _explain(self, shapes: Sequence[tuple[Shape, list[Pod]]], fallback: str | None) -> Reason:
        nodes = self._eligibility.nodes
        possible = []
        for _, pods in shapes:
            pod = pods[0]
            names = [name for name, node in nodes.items() if passes(refusal(pod, node))]
            possible.append(self._books.in_order(names))
        refusals = self._eligibility.refusals(shapes[0][1][0])
        asked = [shape for shape, _ in shapes]
        found = no_place(asked, refusals, self._free.now(), self._whole.now(), possible)
        if fallback is not None and found.why is Why.BUSY:
            return Reason(Why.BUSY, f"busy: {fallback}")
        return found


class _LocalDevicesStranded(Exception):
    """Devices that hang on a node were drafted, but their node has no room for the pod."""

    def __init__(self, nodes: frozenset[str], reason: Reason) -> None:
        super().__init__(reason.text)
        self.nodes = nodes
        self.reason = reason
