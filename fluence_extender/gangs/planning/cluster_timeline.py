"""The timeline of the cluster. Its rows are the nodes and the virtual devices; pods leave at their declared ends.

A pass that needs a timeline renews that of the last pass, or builds a new one. The timeline is used to plan for later
times. Such a plan knows the amounts and host ports that are free then. All else is judged by the present state: which
nodes a pod may use, and which nodes are held for preemptors. Host ports of pods without a known end never become free.
Under a node-exclusive policy, a node is free once its gang has left.

**Devices** count in the column `DEVICES`. A device has as many units as the pools below it have together, or one if
there are no pools below it. A pod that takes units of a pool takes as many units of each device above the pool. A pod
that takes a whole device takes all units of it and of every device below. So a device with parts is entirely free
exactly if its row has all its units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from fluence_extender.gangs.planning.known_ends import LeavingPods
from fluence_extender.graph.catalogue import Device, DeviceCatalogue
from fluence_extender.graph.containment import paths_above
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.eligibility import Signature, signature
from fluence_extender.placement.plan import Planner
from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Mask, Slots, expected_end
from fluence_extender.queueing.timeline import Steps, Timeline, subtract
from fluence_extender.room.capacity import LARGEST, CapacityTable
from fluence_extender.room.devices import DeviceUse
from fluence_extender.room.holdings import Holding
from fluence_extender.room.holds import GangNodes, HeldNodes, Hold
from fluence_extender.room.room import Room

ABSENT, EXCLUSIVE, DEVICES = range(3)
"""The first columns: resources that no node has, the right to use a node alone, and units of devices."""

FIRST_RESOURCE = 3
"""The column of the first resource."""


class DeviceRows:
    """The rows of the devices of a catalogue, from ``first`` on."""

    def __init__(self, catalogue: DeviceCatalogue, first: int) -> None:
        self.catalogue = catalogue
        self._devices = catalogue.devices
        self._rows = {device.path: first + number for number, device in enumerate(self._devices)}
        self._above = {
            device.path: [path for path in paths_above(device.path) if path in self._rows]
            for device in self._devices
        }
        self._below: dict[str, list[str]] = {device.path: [] for device in self._devices}
        for path, above in self._above.items():
            for ancestor in above:
                self._below[ancestor].append(path)
        self.units = {device.path: self._count(device) for device in self._devices}

    def __len__(self) -> int:
        return len(self._devices)

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yield the row of each device and how many units it has."""
        return ((row, self.units[path]) for path, row in self._rows.items())

    def taken(self, shares: Iterable[DeviceShare]) -> dict[int, int]:
        """Return how many units these shares take of each row."""
        units_by_row: Counter[int] = Counter()
        for share in shares:
            device = self.catalogue.at(share.path)
            if device is None or device.path not in self._rows:
                continue
            units = share.amount if device.leaf else self.units[device.path]
            for path in (device.path, *self._above[device.path]):
                units_by_row[self._rows[path]] += units
            for path in self._below[device.path]:
                units_by_row[self._rows[path]] += self.units[path]
        return dict(units_by_row)

    def used(self, free: Amounts) -> list[DeviceShare]:
        """Return the shares that are in use if ``free`` is what a timeline has free."""
        shares = []
        for device in self._devices:
            units = self.units[device.path]
            used = min(units - int(free[self._rows[device.path], DEVICES]), units)
            if used > 0 and not self._below[device.path]:
                shares.append(device.share(used if device.leaf else 1))
        return shares

    def _count(self, device: Device) -> int:
        if device.leaf:
            return device.count
        return (
            sum(
                other.count
                for other in self._devices
                if other.leaf and other.path in self._below[device.path]
            )
            or 1
        )


@dataclass(frozen=True, slots=True)
class DeclaredEnds:
    """When pods that hold something end.

    ``leaving`` has the pods that had their places before this pass. ``placed`` has the uids of pods that this pass has
    placed, and when they end, in seconds since the epoch. ``own`` is what the nodes have less what foreign pods use.
    """

    leaving: LeavingPods
    own: CapacityTable
    placed: Mapping[str, float] = field(default_factory=dict)

    def of(self, uid: str) -> float:
        """Return when a pod ends, `NEVER` if that isn't known."""
        return self.placed.get(uid) or self.leaving.end(uid)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to place a gang later: the demands of its members without places, and the ``settled`` members.

    Nodes that are held for the gangs ``overtaken`` are open to it.
    """

    gang: object
    demands: tuple[Demand, ...]
    settled: tuple[SettledMember, ...] = ()
    overtaken: frozenset[object] = frozenset()


@dataclass(slots=True, eq=False)
class ClusterTimeline:
    """A timeline, with the row of each node and the column of each resource.

    It is a `queueing.timeline.PlannerPort`; ``requests`` has the request of each entry, by its key.
    """

    timeline: Timeline
    names: Sequence[str]
    rows: Mapping[str, int]
    columns: Mapping[str, int]
    devices: DeviceRows
    room: Room
    planner: Planner
    leaving_ports: Mapping[str, Sequence[tuple[float, tuple[HostPort, ...]]]]
    """By node: when pods with host ports end, and which ports they have."""

    revision: object = None
    """The revision of the state that it was made from, None once a gang has started in it."""
    requests: dict[str, Request] = field(default_factory=dict)
    _sizes: dict[Resources, Amounts] = field(default_factory=dict)
    _masks: dict[frozenset[Signature], Mask] = field(default_factory=dict)
    _kept: dict[tuple[int, int], Hold | None] = field(default_factory=dict)
    """What has to stay free, by the number of all reservations and of those that start while an entry runs."""

    def renewed(self, room: Room, now: float) -> ClusterTimeline | None:
        """Return this timeline at ``now`` in an equal room, without reservations; None if work ends by then."""
        timeline = self.timeline.renewed(now)
        return (
            None if timeline is None else replace(self, timeline=timeline, room=room, requests={}, _kept={})
        )

    # Amounts as rows.

    def size(self, requests: Resources) -> Amounts:
        """Return requests as a row; treat it as read-only. Resources that no node has stand in the first column."""
        row = self._sizes.get(requests)
        if row is None:
            row = self._sizes[requests] = _row(requests, self.columns)
        return row

    def slots(self, demands: Sequence[Demand]) -> tuple[Slots, ...]:
        """Return how many members of each size a gang has; devices don't count."""
        counts: dict[tuple[int, ...], int] = {}
        for demand in demands:
            size = tuple(self.size(demand.pod.requests).tolist())
            counts[size] = counts.get(size, 0) + 1
        return tuple(Slots(count, size) for size, count in counts.items())

    def footprint(
        self, demands: Sequence[Demand], places: Sequence[Assignment], own: Collection[str] = ()
    ) -> Footprint:
        """Return what pods take at their places; their gang uses the nodes ``own`` already."""
        taken: dict[int, Amounts] = {}
        for demand, place in zip(demands, places, strict=True):
            row, size = self.rows[place.node], self.size(demand.pod.requests)
            taken[row] = taken[row] + size if row in taken else size.copy()
        if self.room.facts.gang_nodes.exclusive:
            for row in taken:
                taken[row][EXCLUSIVE] = self.names[row] not in own
        units = self.devices.taken(share for place in places for share in place.devices)
        nodes = np.fromiter(taken, dtype=np.intp, count=len(taken))
        amounts = np.array(list(taken.values()), dtype=np.int64).reshape(-1, self.timeline.room.shape[1])
        devices = of_devices(units, self.timeline.room.shape[1])
        return Footprint(np.concatenate((nodes, devices.rows)), np.concatenate((amounts, devices.amounts)))

    # Plans for a later time.

    def usable(self, where: str) -> Mask | None:
        """Return the rows of all devices, and of the nodes that at least one member may use; treat it as read-only."""
        request = self.requests[where]
        mask = self._eligible_rows({signature(demand.pod): demand.pod for demand in request.demands})
        closed = [self.rows[name] for name in self._closed(request) if name in self.rows]
        if closed:
            mask = mask.copy()
            mask[closed] = False
        return mask

    def _eligible_rows(self, pods: Mapping[Signature, Pod]) -> Mask:
        """Return the rows that at least one of ``pods`` may use. It is cached, because most gangs have equal pods."""
        key = frozenset(pods)
        if key not in self._masks:
            names = set[str]().union(*map(self.planner.eligibility.eligible, pods.values()))
            mask = np.zeros(len(self.timeline.room), dtype=np.bool_)
            mask[[self.rows[name] for name in names if name in self.rows]] = True
            mask[len(self.names) :] = True
            self._masks[key] = mask
        return self._masks[key]

    def place(self, entry: Entry, view: Amounts, time: float) -> Footprint | None:
        """Return places for a gang that starts at a time, in what ``view`` has free; None if it doesn't fit."""
        request = self.requests[entry.where]
        own = frozenset(member.node for member in request.settled)
        closed = self._closed(request)
        if self.room.facts.gang_nodes.exclusive:
            taken = view[: len(self.names), EXCLUSIVE] < 1
            closed |= {self.names[row] for row in np.flatnonzero(taken).tolist()} - own
        room = replace(
            self.room,
            free=self._table(entry, view, own, time),
            devices=DeviceUse(self.room.devices.catalogue, self.devices.used(view)),
            facts=replace(self.room.facts, gang_nodes=GangNodes()),
            held_nodes=HeldNodes(),
            shut=closed,
            gang=request.gang,
        )
        places = self.planner.by_first_fit.find(room, request.demands, request.settled)
        return None if places is None else self.footprint(request.demands, places, own)

    def _table(self, entry: Entry, view: Amounts, own: Collection[str], time: float) -> CapacityTable:
        """Return a table of the nodes of ``view`` on which something is free, with the gang's ``own`` nodes.

        If some member asks for nothing, the table has all nodes.
        """
        now, names = self.room.free, self.names
        view = view[: len(names)]
        if all(any(slots.size) for slots in entry.slots):
            offering: Mask = np.any(view > 0, axis=1)
            offering[[self.rows[name] for name in own if name in self.rows]] = True
            view = view[offering]
            names = [names[row] for row in np.flatnonzero(offering).tolist()]
        rows = {name: row for row, name in enumerate(names)}
        taken = ((now.names[row], ports) for row, ports in now.ports.items())
        ports = {rows[name]: self._ports_at(name, ports, time) for name, ports in taken if name in rows}
        free = np.array(view, dtype=np.int64, order="C")
        return CapacityTable(rows, dict(self.columns), free, ports, list(names))

    def _ports_at(self, node: str, ports: tuple[HostPort, ...], time: float) -> tuple[HostPort, ...]:
        """Return the host ports of a node that are still in use at a later time."""
        left = Counter(ports)
        for end, freed in self.leaving_ports.get(node, ()):
            if end <= time:
                left.subtract(freed)
        return tuple((+left).elements())

    def _closed(self, request: Request) -> set[str]:
        return self.room.held_nodes.closed_to(request.gang, request.overtaken)

    # What is taken and kept.

    def start(
        self, demands: Sequence[Demand], places: Sequence[Assignment], own: Collection[str], end: float
    ) -> None:
        """Count pods that start now; their gang uses the nodes ``own`` already."""
        self.timeline.start(self.footprint(demands, places, own), end)
        self.revision = None
        self._kept.clear()

    def kept_within(self, duration: float) -> Hold | None:
        """Return what has to stay free for reservations that start within so many seconds, None for nothing."""
        starts = self.timeline.starts_within(duration)
        key = len(self.timeline.reservations), starts
        if key not in self._kept:
            self._kept[key] = self._find_kept(starts)
        return self._kept[key]

    def _find_kept(self, starts: int) -> Hold | None:
        kept = self.timeline.kept(starts)
        rows, amounts = kept.rows, kept.amounts
        if not len(rows):
            return None
        shares: list[DeviceShare] = []
        if len(self.devices):
            left = self.timeline.room.copy()
            left[rows] -= amounts
            shares = self.devices.used(left)
        on_nodes = rows < len(self.names)
        nodes, amounts = [self.names[row] for row in rows[on_nodes].tolist()], amounts[on_nodes]
        closed = frozenset(nodes[at] for at in np.flatnonzero(amounts[:, EXCLUSIVE] > 0).tolist())
        return Hold(nodes, amounts, self.columns, tuple(shares), closed)


def cluster_timeline(room: Room, ends: DeclaredEnds, planner: Planner, now: float) -> ClusterTimeline:
    """Return the timeline of a room at ``now``, in seconds since the epoch."""
    names = [name for name in room.free.names if name in room.whole.rows]
    rows = {name: row for row, name in enumerate(names)}
    kinds = sorted({*room.whole.columns, *room.free.columns})
    columns = {kind: FIRST_RESOURCE + number for number, kind in enumerate(kinds)}
    devices = DeviceRows(room.devices.catalogue, len(names))
    shape = len(names) + len(devices), FIRST_RESOURCE + len(columns)
    whole, capacity, free = (
        _amounts(table, names, columns, shape) for table in (room.whole, ends.own, room.free)
    )
    for amounts in (whole, capacity, free):
        amounts[: len(names), EXCLUSIVE] = room.facts.gang_nodes.exclusive
        for row, units in devices.rows():
            amounts[row, DEVICES] = units
    devices_and_gangs = [
        *_devices_in_use(room, ends, devices, shape[1]),
        *_gangs_on(room, ends, rows, shape[1]),
    ]
    subtract(free, [places for places, _ in devices_and_gangs])
    pods = _pods_leave(room, ends, rows, columns)
    # Foreign pods with a known end leave, so an entry may wait for what they use.
    np.add.at(capacity, pods.steps.rows[pods.foreign], pods.steps.amounts[pods.foreign])
    overdue = np.flatnonzero(pods.steps.times <= now)
    pods.steps.times[overdue] = [expected_end(end, now) for end in pods.steps.times[overdue].tolist()]
    with_ends = chain(devices_and_gangs, pods.placed)
    more_steps = [(places, expected_end(end, now)) for places, end in with_ends if end < NEVER]
    timeline = Timeline(whole, capacity, free, pods.steps.with_more(more_steps), now)
    return ClusterTimeline(
        timeline, names, rows, columns, devices, room, planner, _leaving_ports(room, ends, now)
    )


def _leaving_ports(
    room: Room, ends: DeclaredEnds, now: float
) -> Mapping[str, Sequence[tuple[float, tuple[HostPort, ...]]]]:
    """Return when pods with host ports end, and which ports they have, by node."""
    leaving: dict[str, list[tuple[float, tuple[HostPort, ...]]]] = {}
    if not room.free.ports:
        return leaving
    placed = ((uid, room.facts.holdings[uid], end) for uid, end in ends.placed.items())
    for uid, held, end in chain(ends.leaving.with_ports(), placed):
        if held.ports and uid not in room.gone:
            leaving.setdefault(held.node, []).append((expected_end(end, now), held.ports))
    return leaving


@dataclass(frozen=True, slots=True, eq=False)
class _Leaving:
    """The amounts that pods free when they end, in no order; ``foreign`` says which of them foreign pods free.

    ``placed`` has the same for the pods that this pass has placed, each with its end.
    """

    steps: Steps
    foreign: Mask
    placed: Sequence[tuple[Footprint, float]]


def _pods_leave(
    room: Room, ends: DeclaredEnds, rows: Mapping[str, int], columns: Mapping[str, int]
) -> _Leaving:
    """Return what comes back on nodes when pods end."""
    times, nodes, numbers, foreign = ends.leaving.columns(room.gone.keys())
    pod_rows = np.array([rows.get(node, -1) for node in ends.leaving.nodes], dtype=np.intp)[nodes]
    present = pod_rows >= 0
    sizes = np.zeros((len(ends.leaving.sizes), FIRST_RESOURCE + len(columns)), dtype=np.int64)
    used = np.flatnonzero(np.bincount(numbers, minlength=len(sizes)))
    all_sizes = [*ends.leaving.sizes]
    for number in used.tolist():
        sizes[number] = _row(all_sizes[number], columns)
    # Resources that no node has are counted nowhere.
    sizes[:, 0] = 0
    steps = Steps(times[present], pod_rows[present], sizes[numbers[present]])
    placed = ((room.facts.holdings[uid], end) for uid, end in ends.placed.items())
    more = [(_on_node(held, rows, columns), end) for held, end in placed if held.node in rows]
    return _Leaving(steps, foreign[present], more)


def _on_node(held: Holding, rows: Mapping[str, int], columns: Mapping[str, int]) -> Footprint:
    amounts = _row(held.requests, columns)
    amounts[0] = 0
    return Footprint(np.array([rows[held.node]], dtype=np.intp), amounts[np.newaxis])


def _devices_in_use(
    room: Room, ends: DeclaredEnds, devices: DeviceRows, columns: int
) -> Iterator[tuple[Footprint, float]]:
    """Yield what pods hold of virtual devices, and when they end."""
    for uid, held in room.facts.holdings.items() if len(devices) else ():
        units = devices.taken(held.assignment.devices) if held.assignment.devices else {}
        if units:
            yield of_devices(units, columns), ends.of(uid)


def _gangs_on(
    room: Room, ends: DeclaredEnds, rows: Mapping[str, int], columns: int
) -> Iterator[tuple[Footprint, float]]:
    """Yield the nodes that gangs use alone, and when each gang leaves its node."""
    last: dict[tuple[str, object], float] = {}
    for uid, node, gang in room.facts.gang_nodes.uses():
        end = ends.of(uid)
        last[node, gang] = max(last.get((node, gang), end), end)
    for (node, _), end in last.items():
        if node in rows:
            amounts = np.zeros((1, columns), dtype=np.int64)
            amounts[0, EXCLUSIVE] = 1
            yield Footprint(np.array([rows[node]], dtype=np.intp), amounts), end


def of_devices(units: Mapping[int, int], columns: int) -> Footprint:
    """Return units of devices, by row, as a footprint."""
    amounts = np.zeros((len(units), columns), dtype=np.int64)
    amounts[:, DEVICES] = list(units.values())
    return Footprint(np.fromiter(units, dtype=np.intp, count=len(units)), amounts)


def _amounts(
    table: CapacityTable, names: Sequence[str], columns: Mapping[str, int], shape: tuple[int, int]
) -> Amounts:
    """Return the amounts of a table, rearranged to the given rows and columns."""
    amounts = np.zeros(shape, dtype=np.int64)
    here: slice | list[int] = slice(len(names))
    there = here
    if table.names[: len(names)] != names:
        here = [row for row, name in enumerate(names) if name in table.rows]
        there = [table.rows[names[row]] for row in here]
    for kind, column in table.columns.items():
        amounts[here, columns[kind]] = table.free[there, column]
    return amounts


def _row(requests: Resources, columns: Mapping[str, int]) -> Amounts:
    """Return requests as a row; resources that no node has stand in the first column."""
    row = np.zeros(FIRST_RESOURCE + len(columns), dtype=np.int64)
    for kind, amount in requests.items():
        if amount > 0:
            row[columns.get(kind, 0)] += min(amount, LARGEST)
    return row
