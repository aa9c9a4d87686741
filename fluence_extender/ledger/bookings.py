"""The bookings: the matcher's jobs that stand for holds and for others' pods, made equal to the ledger.

A hold is booked on its node and on its devices. Invariant: what can't be booked, because somebody else has it or it
isn't there, is remembered and booked as soon as it can be, the strongest first; until then the node is strained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from fluence_extender.graph.containment import without_levels
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.allocation import Allocation
from fluence_extender.ledger.devices import Devices
from fluence_extender.ledger.graph import Edit
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.ledger.others import OthersUse
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources

NodeUse = tuple[Resources, Resources]
"""What a node has to give, and what of it others use."""


@dataclass(frozen=True, slots=True)
class Position:
    """What the ledger said at one moment: what graph and bookings are to stand for."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    resources: VirtualResources = field(default_factory=lambda: VirtualResources(""))
    use: Mapping[str, NodeUse] = field(default_factory=dict)
    allocations: Mapping[str, Allocation] = field(default_factory=dict)

    def differences(self, later: Position) -> int:
        """How many nodes and holds are to be booked anew to come from here to ``later``."""
        return len(self.released(later)) + len(later.released(self)) + len(self.used_otherwise(later))

    def released(self, later: Position) -> list[Allocation]:
        """The holds that aren't there ``later``, or not in the same place and size."""
        return [held for uid, held in self.allocations.items() if not _same(held, later.allocations.get(uid))]

    def used_otherwise(self, later: Position) -> list[str]:
        """The nodes that give or others use another amount ``later``."""
        return [name for name, use in later.use.items() if not _equal(use, self.use.get(name))]


def _same(one: Allocation, other: Allocation | None) -> bool:
    return one is other or (
        other is not None and one.assignment == other.assignment and one.requests == other.requests
    )


def _equal(one: NodeUse, other: NodeUse | None) -> bool:
    return other is not None and ((one[0] is other[0] and one[1] is other[1]) or one == other)


class Bookings:
    """See the module docstring. ``allocations`` are the holds that there are, by uid; ``others`` counts everybody
    else."""

    def __init__(self, mirror: Mirror, allocations: Mapping[str, Allocation]) -> None:
        self.mirror = mirror
        self.devices = Devices(mirror)
        self.allocations = allocations
        self.others = OthersUse(mirror)
        self._jobs: dict[str, int] = {}
        self._device_jobs: dict[str, tuple[int, ...]] = {}
        self._holders: dict[str, set[str]] = {}
        self._unbooked: dict[str, set[str]] = {}
        self._short: set[str] = set()

    @property
    def overcommitted(self) -> set[str]:
        """Nodes on which more is used than could be booked."""
        return set(self.others.deficits) | self._unbooked.keys()

    @property
    def short(self) -> Set[str]:
        """The pods that hold more of their devices than there is by now."""
        return self._short

    def awaits_capacity(self, held: Allocation) -> bool:
        """Whether a hold couldn't be booked yet because its leaves are taken."""
        return held.uid in self._unbooked.get(held.assignment.node, ())

    def job(self, uid: str) -> int | None:
        """The job that stands for a pod on its node; None while it takes no leaf or has no room."""
        return self._jobs.get(uid)

    def device_jobs(self, uid: str) -> tuple[int, ...]:
        """The jobs that stand for a pod's devices."""
        return self._device_jobs.get(uid, ())

    def owned(self) -> set[int]:
        """Every job that stands for something."""
        devices = (job for jobs in self._device_jobs.values() for job in jobs)
        return {*self._jobs.values(), *devices, *self.others.jobs()}

    # Holds.

    def book_all(self, shares: Sequence[tuple[str, str, Resources]]) -> str:
        """Book pods (uid, node, requests), all or none: the node that was gone or had no room, "" where each had."""
        for _, node, _ in shares:
            if node not in self.mirror.graph.nodes:
                return node
        jobs = self.mirror.book_all((node, requests) for _, node, requests in shares)
        booked = {uid: job for (uid, _, _), job in zip(shares, jobs, strict=True) if isinstance(job, int)}
        for (_, node, _), job in zip(shares, jobs, strict=True):
            if isinstance(job, MatcherError):
                self.mirror.cancel(booked.values())
                return node
        self._jobs |= booked
        return ""

    def book_bound(self, shares: Iterable[tuple[str, str, Resources]]) -> None:
        """Book pods (uid, node, requests) that are on their nodes already, the first first; or when there is room."""
        present = [one for one in shares if one[1] in self.mirror.graph.nodes]
        jobs = self.mirror.book_all((node, requests) for _, node, requests in present)
        for (uid, node, _), job in zip(present, jobs, strict=True):
            if isinstance(job, MatcherError):
                self._unbooked.setdefault(node, set()).add(uid)
            elif job is not None:
                self._jobs[uid] = job

    def keep_devices(self, held: Allocation) -> None:
        """Let a pod's drafted devices be those of its hold."""
        jobs = self.devices.jobs(held.uid)
        if jobs:
            self._device_jobs[held.uid] = jobs
        for share in held.assignment.devices:
            self._holders.setdefault(without_levels(share.path), set()).add(held.uid)

    def rebook(self, held: Allocation) -> None:
        """Book a hold on its node in another size; to be settled after."""
        self._cancel(held.uid)
        node = held.assignment.node
        if node in self.mirror.graph.nodes:
            self._unbooked.setdefault(node, set()).add(held.uid)

    def release(self, held: Allocation) -> None:
        """Free a hold's jobs; what is free now of its devices is theirs who hold more than could be booked."""
        self._cancel(held.uid)
        waiting = self._unbooked.get(held.assignment.node)
        if waiting is not None:
            waiting.discard(held.uid)
            if not waiting:
                del self._unbooked[held.assignment.node]
        if not held.assignment.devices:
            return
        self.mirror.cancel(self._device_jobs.pop(held.uid, ()))
        self._short.discard(held.uid)
        for share in held.assignment.devices:
            place = without_levels(share.path)
            holders = self._holders.get(place, set())
            holders.discard(held.uid)
            if not holders:
                self._holders.pop(place, None)
        if self._short:
            self._book_devices(self._short)

    def _cancel(self, uid: str) -> None:
        job = self._jobs.pop(uid, None)
        if job is not None:
            self.mirror.cancel((job,))

    def _book_devices(self, uids: Collection[str]) -> None:
        """Book the devices of some holds anew, the strongest first."""
        ordered = self._strongest_first(uids)
        for uid in ordered:
            self.mirror.cancel(self._device_jobs.pop(uid, ()))
        for uid in ordered:
            jobs, covered = self.devices.again(self.allocations[uid].assignment.devices)
            if jobs:
                self._device_jobs[uid] = jobs
            (self._short.discard if covered else self._short.add)(uid)

    def _strongest_first(self, uids: Iterable[str]) -> list[str]:
        present = [uid for uid in uids if uid in self.allocations]
        return sorted(present, key=lambda uid: (-self.allocations[uid].strength, uid))

    # Nodes.

    def settle(self, uses: Mapping[str, NodeUse]) -> None:
        """Book what others use of nodes, and what of ours couldn't be booked there before."""
        known = self.mirror.graph.nodes
        self.others.book_all({node: use for node, use in uses.items() if node in known})
        for node in [one for one in uses if one in self._unbooked and one in known]:
            waiting = self._strongest_first(self._unbooked.pop(node))
            self.book_bound(self._share(self.allocations[uid]) for uid in waiting)

    def _share(self, held: Allocation) -> tuple[str, str, Resources]:
        return held.uid, held.assignment.node, self.mirror.rounded(held.requests)

    def forget(self, node: str) -> None:
        """Wait no longer for room on a node that has gone."""
        self._unbooked.pop(node, None)

    def unhook(self, node: str, uids: Iterable[str]) -> None:
        """Cancel all that stands on a node, ``uids`` being the holds there; to be settled after."""
        self.others.forget(node)
        self.forget(node)
        for uid in uids:
            self.rebook(self.allocations[uid])

    def change(self, edit: Edit, here: Iterable[str], use: NodeUse) -> None:
        """Change the graph in place; ``here`` are the holds on the node that leaves or joins, ``use`` is its own.

        Raises `MatcherError`; then the graph has to be built anew.
        """
        places = {without_levels(path) for path in self.mirror.graph.leaving_devices(edit)}
        for uid in self._holding(places):
            self.mirror.cancel(self._device_jobs.pop(uid, ()))
        on_node = tuple(here)
        if edit.leaving is not None:
            self.unhook(edit.leaving, on_node)
            self.forget(edit.leaving)
        places.update(without_levels(path) for path in self.mirror.carry_out(edit))
        self._book_devices(self._holding(places))
        if edit.joining is not None:
            if on_node:
                self._unbooked[edit.joining.name] = set(on_node)
            self.settle({edit.joining.name: use})

    def _holding(self, places: Iterable[str]) -> set[str]:
        return {uid for place in places for uid in self._holders.get(place, ())}

    # All at once.

    def follow(self, before: Position, now: Position) -> None:
        """Book what has changed between two positions; the graph stays as it is."""
        self.allocations = now.allocations
        for held in before.released(now):
            self.release(held)
        self.settle({name: now.use[name] for name in before.used_otherwise(now)})
        come = sorted(now.released(before), key=lambda one: -one.strength)
        self.book_bound(map(self._share, come))
        for held in come:
            for share in held.assignment.devices:
                self._holders.setdefault(without_levels(share.path), set()).add(held.uid)
            if held.assignment.devices:
                self._book_devices((held.uid,))

    def close(self) -> None:
        """Free the matcher."""
        self.mirror.close()
