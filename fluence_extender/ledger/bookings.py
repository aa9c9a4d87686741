"""The matcher's jobs for our pods' allocations and for foreign pods, kept equal to the ledger.

Each allocation is booked on its node and on its devices. Invariant: if leaves are taken or don't exist, the rest of the
allocation is booked as soon as possible, the strongest allocation first. Until then its node is overcommitted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from fluence_extender.graph.containment import without_levels
from fluence_extender.graph.live_graph import Edit
from fluence_extender.graph.units import leaf_counts
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.accounts import Allocation
from fluence_extender.ledger.device_drafts import DeviceDrafts
from fluence_extender.ledger.graph_matcher import GraphMatcher
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.node import Node
from fluence_extender.model.resources import NOTHING, Resources


class NodeUse(NamedTuple):
    """What a node has to give, and what foreign pods use of it."""

    allocatable: Resources = NOTHING
    foreign: Resources = NOTHING


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The ledger at one moment: what a graph and its bookings have to represent."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    resources: VirtualResources = field(default_factory=lambda: VirtualResources(""))
    use: Mapping[str, NodeUse] = field(default_factory=dict)
    allocations: Mapping[str, Allocation] = field(default_factory=dict)

    def differences(self, later: LedgerState) -> int:
        """Return how many nodes and allocations have to be booked again to get from this state to ``later``."""
        return len(self.not_in(later)) + len(later.not_in(self)) + len(self.changed_use(later))

    def not_in(self, other: LedgerState) -> list[Allocation]:
        """Return the allocations that ``other`` doesn't have, or not in that place and size."""
        return [
            held
            for uid, held in self.allocations.items()
            if not _booked_alike(held, other.allocations.get(uid))
        ]

    def changed_use(self, later: LedgerState) -> list[str]:
        """Return the nodes whose offer, or whose use by foreign pods, differs in ``later``."""
        return [name for name, use in later.use.items() if not _same_use(use, self.use.get(name))]


def _booked_alike(one: Allocation, other: Allocation | None) -> bool:
    return one is other or (
        other is not None and one.assignment == other.assignment and one.requests == other.requests
    )


def _same_use(one: NodeUse, other: NodeUse | None) -> bool:
    return other is not None and ((one[0] is other[0] and one[1] is other[1]) or one == other)


class Bookings:
    """The bookings of ``allocations`` (by uid), of their devices, and of ``foreign`` pods in one matcher."""

    def __init__(self, matcher: GraphMatcher, allocations: Mapping[str, Allocation]) -> None:
        self.matcher = matcher
        self.devices = DeviceDrafts(matcher)
        self.foreign = ForeignBookings(matcher)
        self.allocations = allocations
        self._jobs: dict[str, int] = {}
        self._device_jobs: dict[str, tuple[int, ...]] = {}
        self._holders: dict[str, set[str]] = {}
        self._unbooked: dict[str, set[str]] = {}
        self._short_of_devices: set[str] = set()

    @property
    def overcommitted(self) -> set[str]:
        """The nodes on which more is used than could be booked."""
        return set(self.foreign.deficits) | self._unbooked.keys()

    @property
    def short_of_devices(self) -> Set[str]:
        """The pods that hold more units of their devices than exist now."""
        return self._short_of_devices

    def awaits_capacity(self, held: Allocation) -> bool:
        """Return whether an allocation isn't booked yet because its leaves are taken."""
        return held.uid in self._unbooked.get(held.assignment.node, ())

    def job(self, uid: str) -> int | None:
        """Return the job of a pod on its node; None while the pod takes no leaf or waits for capacity."""
        return self._jobs.get(uid)

    def device_jobs(self, uid: str) -> tuple[int, ...]:
        """Return the jobs of a pod's devices."""
        return self._device_jobs.get(uid, ())

    def owned(self) -> set[int]:
        """Return every job that belongs to an allocation or to foreign pods."""
        devices = (job for jobs in self._device_jobs.values() for job in jobs)
        return {*self._jobs.values(), *devices, *self.foreign.jobs()}

    # Allocations.

    def book_all(self, shares: Sequence[tuple[str, str, Resources]]) -> str:
        """Book pods (uid, node, requests), all or none. Return the node that is gone or full, "" on success."""
        for _, node, _ in shares:
            if node not in self.matcher.graph.nodes:
                return node
        jobs = self.matcher.hold_shares((node, requests) for _, node, requests in shares)
        booked = {uid: job for (uid, _, _), job in zip(shares, jobs, strict=True) if isinstance(job, int)}
        for (_, node, _), job in zip(shares, jobs, strict=True):
            if isinstance(job, MatcherError):
                self.matcher.cancel(booked.values())
                return node
        self._jobs |= booked
        return ""

    def book_bound(self, shares: Iterable[tuple[str, str, Resources]]) -> None:
        """Book pods (uid, node, requests) that are on their nodes already, in order. Those without capacity wait."""
        present = [one for one in shares if one[1] in self.matcher.graph.nodes]
        jobs = self.matcher.hold_shares((node, requests) for _, node, requests in present)
        for (uid, node, _), job in zip(present, jobs, strict=True):
            if isinstance(job, MatcherError):
                self._unbooked.setdefault(node, set()).add(uid)
            elif job is not None:
                self._jobs[uid] = job

    def take_drafted_devices(self, held: Allocation) -> None:
        """Make a pod's drafted devices part of its allocation."""
        jobs = self.devices.take(held.uid)
        if jobs:
            self._device_jobs[held.uid] = jobs
        self._note_holder(held)

    def _note_holder(self, held: Allocation) -> None:
        for share in held.assignment.devices:
            self._holders.setdefault(without_levels(share.path), set()).add(held.uid)

    def rebook(self, held: Allocation) -> None:
        """Free an allocation's share of its node; the next `settle` books it again in its present size."""
        self._cancel(held.uid)
        node = held.assignment.node
        if node in self.matcher.graph.nodes:
            self._unbooked.setdefault(node, set()).add(held.uid)

    def release(self, held: Allocation) -> None:
        """Free an allocation's jobs; its devices go to pods that hold more than could be booked."""
        self._cancel(held.uid)
        waiting = self._unbooked.get(held.assignment.node)
        if waiting is not None:
            waiting.discard(held.uid)
            if not waiting:
                del self._unbooked[held.assignment.node]
        if not held.assignment.devices:
            return
        self.matcher.cancel(self._device_jobs.pop(held.uid, ()))
        self._short_of_devices.discard(held.uid)
        for share in held.assignment.devices:
            place = without_levels(share.path)
            holders = self._holders.get(place, set())
            holders.discard(held.uid)
            if not holders:
                self._holders.pop(place, None)
        if self._short_of_devices:
            self._book_devices(self._short_of_devices)

    def rename(self, held: Allocation, new: str) -> None:
        """Keep what is booked for an allocation under the ``new`` uid of its pod."""
        uid = held.uid
        if uid in self._jobs:
            self._jobs[new] = self._jobs.pop(uid)
        if uid in self._device_jobs:
            self._device_jobs[new] = self._device_jobs.pop(uid)
        places = (without_levels(share.path) for share in held.assignment.devices)
        holders = (self._holders.get(place) for place in places)
        for some in (self._unbooked.get(held.assignment.node), self._short_of_devices, *holders):
            if some is not None and uid in some:
                some.remove(uid)
                some.add(new)

    def _cancel(self, uid: str) -> None:
        job = self._jobs.pop(uid, None)
        if job is not None:
            self.matcher.cancel((job,))

    def _book_devices(self, uids: Collection[str]) -> None:
        """Book the devices of some allocations again, the strongest first."""
        ordered = self._strongest_first(uids)
        for uid in ordered:
            self.matcher.cancel(self._device_jobs.pop(uid, ()))
        for uid in ordered:
            jobs, covered = self.devices.hold_again(self.allocations[uid].assignment.devices)
            if jobs:
                self._device_jobs[uid] = jobs
            (self._short_of_devices.discard if covered else self._short_of_devices.add)(uid)

    def _strongest_first(self, uids: Iterable[str]) -> list[str]:
        present = [uid for uid in uids if uid in self.allocations]
        return sorted(present, key=lambda uid: (-self.allocations[uid].strength, uid))

    # Nodes.

    def settle(self, uses: Mapping[str, NodeUse]) -> None:
        """Book what foreign pods use of some nodes, then the allocations there that wait for capacity."""
        known = self.matcher.graph.nodes
        self.foreign.book_all({node: use for node, use in uses.items() if node in known})
        for node in [one for one in uses if one in self._unbooked and one in known]:
            waiting = self._strongest_first(self._unbooked.pop(node))
            self.book_bound(self._share(self.allocations[uid]) for uid in waiting)

    def _share(self, held: Allocation) -> tuple[str, str, Resources]:
        return held.uid, held.assignment.node, self.matcher.rounded(held.requests)

    def stop_waiting(self, node: str) -> None:
        """Stop waiting for capacity on a node that has gone."""
        self._unbooked.pop(node, None)

    def cancel_node(self, node: str, uids: Iterable[str]) -> None:
        """Cancel all jobs on a node that the pods ``uids`` hold; the next `settle` books them again."""
        self.foreign.cancel(node)
        self.stop_waiting(node)
        for uid in uids:
            self.rebook(self.allocations[uid])

    def change_graph(self, edit: Edit, uids: Iterable[str], use: NodeUse) -> None:
        """Apply an edit to the graph. The pods ``uids`` hold its leaving or joining node, and ``use`` is the latter's.

        Raises `MatcherError`; then the graph must be rebuilt.
        """
        places = {without_levels(path) for path in self.matcher.graph.leaving_devices(edit)}
        for uid in self._holding(places):
            self.matcher.cancel(self._device_jobs.pop(uid, ()))
        on_node = tuple(uids)
        if edit.leaving is not None:
            self.cancel_node(edit.leaving, on_node)
            self.stop_waiting(edit.leaving)
        places.update(without_levels(path) for path in self.matcher.apply_edit(edit))
        self._book_devices(self._holding(places))
        if edit.joining is not None:
            if on_node:
                self._unbooked[edit.joining.name] = set(on_node)
            self.settle({edit.joining.name: use})

    def _holding(self, places: Iterable[str]) -> set[str]:
        return {uid for place in places for uid in self._holders.get(place, ())}

    # All at once.

    def follow(self, before: LedgerState, now: LedgerState) -> None:
        """Book what differs between two states; the graph stays as it is."""
        self.allocations = now.allocations
        for held in before.not_in(now):
            self.release(held)
        self.settle({name: now.use[name] for name in before.changed_use(now)})
        added = sorted(now.not_in(before), key=lambda one: -one.strength)
        self.book_bound(map(self._share, added))
        for held in added:
            self._note_holder(held)
            if held.assignment.devices:
                self._book_devices((held.uid,))


class ForeignBookings:
    """On each node, one job that stands for all foreign pods there.

    A node offers us its allocatable minus the exact sum of the foreign requests, rounded once. The part that can't be
    booked because leaves are taken is the node's deficit; it is booked as soon as possible. Leaves of the graph that
    the node has lost count as used by foreign pods.
    """

    def __init__(self, matcher: GraphMatcher) -> None:
        self._matcher = matcher
        self._booked: dict[str, tuple[int, dict[str, int]]] = {}
        self._deficits: dict[str, dict[str, int]] = {}

    @property
    def deficits(self) -> Mapping[str, Mapping[str, int]]:
        """The leaves by node that foreign pods use and that couldn't be booked."""
        return self._deficits

    def book_all(self, uses: Mapping[str, NodeUse]) -> None:
        """Book the foreign pods' use of nodes, as far as leaves are free."""
        wanted: dict[str, dict[str, int]] = {}
        for node, use in uses.items():
            taken = self._taken(node, use)
            held = self._booked.get(node, (0, {}))
            if held[1] == taken and node not in self._deficits:
                continue
            self.cancel(node)
            if taken:
                wanted[node] = taken
        jobs = self._matcher.hold_leaves(wanted.items())
        for (node, counts), job in zip(wanted.items(), jobs, strict=True):
            if isinstance(job, MatcherError):
                self._book_in_part(node, counts)
            else:
                self._booked[node] = (job, counts)

    def _book_in_part(self, node: str, counts: Mapping[str, int]) -> None:
        """Book as much of ``counts`` as is free, and note the rest as the deficit."""
        missing: dict[str, int] = {}
        booked = dict(counts)
        while booked:
            booked, short = self._shrunk(node, booked)
            for leaf, count in short.items():
                missing[leaf] = missing.get(leaf, 0) + count
            if not booked:
                break
            try:
                self._booked[node] = (self._matcher.hold(node, booked), booked)
            except MatcherError:
                continue
            break
        if missing:
            self._deficits[node] = missing

    def cancel(self, node: str) -> None:
        """Free the job of the foreign pods on ``node``."""
        job, counts = self._booked.pop(node, (0, {}))
        if counts:
            self._matcher.cancel((job,))
        self._deficits.pop(node, None)

    def job(self, node: str) -> int | None:
        """Return the job of the foreign pods on a node, or None when there is none."""
        job, counts = self._booked.get(node, (0, {}))
        return job if counts else None

    def jobs(self) -> list[int]:
        """Return all jobs."""
        return [job for job, counts in self._booked.values() if counts]

    def differs(self, node: str, use: NodeUse) -> bool:
        """Return whether the booking on ``node`` and its deficit together differ from what foreign pods use."""
        job, booked = self._booked.get(node, (0, {}))
        short = self._deficits.get(node, {})
        both = {leaf: booked.get(leaf, 0) + short.get(leaf, 0) for leaf in (*booked, *short)}
        if both != self._taken(node, use):
            return True
        return bool(booked) and not self._matcher.holds(job, node, booked)

    def _taken(self, node: str, use: NodeUse) -> dict[str, int]:
        """Return the leaves of a node in the graph that aren't available to us."""
        graph = self._matcher.graph
        if not use.foreign and use.allocatable is graph.built_from[node]:
            return {}
        left = {name: max(amount - use.foreign[name], 0) for name, amount in use.allocatable.items()}
        free = leaf_counts(Resources(left), graph.units)
        taken = {leaf: count - free.get(leaf, 0) for leaf, count in graph.leaves[node].items()}
        return {leaf: count for leaf, count in taken.items() if count > 0}

    def _shrunk(self, node: str, counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Return for each leaf type how much of ``counts`` is free on the node, and how much isn't."""
        fitting = {
            leaf: bisect_left(range(1, count + 1), True, key=partial(self._exceeds, node, leaf))
            for leaf, count in counts.items()
        }
        missing = {leaf: count - fitting[leaf] for leaf, count in counts.items()}
        return (
            {leaf: count for leaf, count in fitting.items() if count},
            {leaf: count for leaf, count in missing.items() if count},
        )

    def _exceeds(self, node: str, leaf: str, count: int) -> bool:
        """Return whether fewer than ``count`` leaves of this type are free on the node."""
        try:
            self._matcher.cancel((self._matcher.hold(node, {leaf: count}),))
        except MatcherError:
            return True
        return False
