"""Placing pods within a set of nodes: all of them get a node and devices there, or none does.

The matcher places equal members with one request. `search` places members of different shapes together, and members
with devices on a node. Devices are first drafted pod by pod. If that leaves no place for some pod, `device_search`
chooses the devices of all pods together. A failure leaves the ledger unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import islice

from fluence_extender.graph.catalogue import choice
from fluence_extender.ledger.ledger import NoCapacity
from fluence_extender.matcher.errors import Busy
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import Demand, Group, ShapeKey, grouped
from fluence_extender.placement.device_search import Chosen, DevicePod, DeviceSearch
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused, NoPlace
from fluence_extender.placement.ledger_port import LedgerPort
from fluence_extender.placement.ranks import rank_key
from fluence_extender.placement.reasons import devices_in_use
from fluence_extender.placement.search import BUDGET, Counts, Shape, lacks_room, place

PINNED_TRIALS = 16, 1024
"""The fewest and the most ways to pin pods to their devices' nodes that are tried with the rest of the gang."""

PINNED_CELLS = 50_000
"""The number of trials is this divided by nodes times shapes, kept within `PINNED_TRIALS`."""

MOST_WAYS = 4096
"""The most ways to choose devices that are examined to find one that pins pods differently."""


class Matching:
    """Places pods on ``ledger``; ``node_order`` is the key that sorts nodes before they are assigned to ranks."""

    def __init__(
        self,
        ledger: LedgerPort,
        eligibility: EligibilityIndex,
        node_order: Callable[[str], tuple[object, ...]],
    ) -> None:
        self._ledger = ledger
        self._eligibility = eligibility
        self._node_order = node_order
        self._last: tuple[tuple[Demand, ...], dict[ShapeKey, list[Pod]]] = ((), {})

    def attempt(
        self,
        demands: Sequence[Demand],
        gang: object,
        within: Set[str] | None = None,
        budget: int = BUDGET,
    ) -> tuple[Assignment, ...]:
        """Place every pod of ``demands`` on nodes of ``within``, and hold allocations of the strength planned.

        ``gang`` is the key under which the ledger books them.

        Raises `GangRefused` if no device can ever serve a pod, and `NoPlace` for lack of capacity. In both cases
        nothing is allocated.
        """
        uids = [demand.pod.uid for demand in demands]
        try:
            shares, nodes = self._devices_and_nodes(demands, gang, within, budget)
            return self._take(demands, shares, nodes, gang)
        except NoCapacity as error:
            self._ledger.undo(uids)
            raise NoPlace(self.groups(demands, gang, within), error.reason) from error
        except Exception:
            self._ledger.undo(uids)
            raise

    def _take(
        self,
        demands: Sequence[Demand],
        shares: Mapping[str, tuple[DeviceShare, ...]],
        nodes: Mapping[str, str],
        gang: object,
    ) -> tuple[Assignment, ...]:
        assignments = tuple(
            Assignment(demand.pod.uid, nodes[demand.pod.uid], shares.get(demand.pod.uid, ()))
            for demand in demands
        )
        self._ledger.take_all(
            [(demand.pod, one) for demand, one in zip(demands, assignments, strict=True)], gang
        )
        return assignments

    # Devices.

    def _devices_and_nodes(
        self, demands: Sequence[Demand], gang: object, within: Set[str] | None, budget: int
    ) -> tuple[Mapping[str, tuple[DeviceShare, ...]], Mapping[str, str]]:
        """Choose devices and a node for each pod, by pod uid. Raises `GangRefused`, `NoPlace`."""
        asking = [demand for demand in demands if demand.pod.devices]
        if not asking:
            groups = self.groups(demands, gang, within)
            return {}, self._assign_nodes(groups, self._counts(groups, budget))
        device_pods = self._device_pods(asking, gang, within)
        try:
            shares = self._draft(device_pods)
            groups = self.groups(demands, gang, within, self._pins(shares))
            return shares, self._assign_nodes(groups, self._counts(groups, budget))
        except (GangRefused, NoPlace) as error:
            if not self._other_devices_may_help(error):
                raise
            self._ledger.undo([demand.pod.uid for demand in asking])
            found = self._together(demands, device_pods, gang, within, budget)
            if found is not None:
                return found
            devices = error.reason if isinstance(error, GangRefused) else None
            raise NoPlace(self.groups(demands, gang, within), devices=devices) from error

    def _other_devices_may_help(self, error: GangRefused | NoPlace) -> bool:
        """Return whether another choice of devices could help."""
        if isinstance(error, GangRefused):
            return error.reason.code is ReasonCode.BUSY
        return bool(self._ledger.graph.catalogue.nodes())

    def _device_pods(
        self, asking: Sequence[Demand], gang: object, within: Set[str] | None
    ) -> list[DevicePod]:
        """Return the pods that ask for devices with their nodes, those with the fewest devices to choose from first."""
        catalogue = self._ledger.graph.catalogue
        device_pods: list[DevicePod] = []
        for key, some in grouped(asking).items():
            nodes = self._usable(key, some[0].pod, gang, within)
            device_pods.extend(DevicePod(demand.pod, nodes) for demand in some)
        return sorted(device_pods, key=lambda one: choice(catalogue, one.pod.devices, one.pod.requires))

    def _draft(self, device_pods: Sequence[DevicePod]) -> dict[str, tuple[DeviceShare, ...]]:
        """Draft the devices pod by pod. Raises `GangRefused`."""
        devices = self._ledger.devices
        local = self._ledger.graph.catalogue.nodes()
        shares: dict[str, tuple[DeviceShare, ...]] = {}
        for one in device_pods:
            drafted = devices.draft(one.pod, local - one.nodes if local else ())
            if isinstance(drafted, Reason):
                raise GangRefused(drafted)
            shares[one.pod.uid] = drafted
        return shares

    def _pins(self, shares: Mapping[str, tuple[DeviceShare, ...]]) -> dict[str, str]:
        """Return the nodes to which devices tie their pods."""
        catalogue = self._ledger.graph.catalogue
        nodes = {uid: catalogue.node_of(held) for uid, held in shares.items()}
        return {uid: node for uid, node in nodes.items() if node is not None}

    def _together(
        self,
        demands: Sequence[Demand],
        device_pods: Sequence[DevicePod],
        gang: object,
        within: Set[str] | None,
        budget: int,
    ) -> tuple[Mapping[str, tuple[DeviceShare, ...]], Mapping[str, str]] | None:
        """Search for the devices of all pods at once; return None if that finds no place either."""
        search = DeviceSearch(
            device_pods, self._ledger.graph.catalogue, devices_in_use(self._ledger), self._ledger.free.now()
        )
        failed: set[object] = set()
        asking = [demand for demand in demands if demand.pod.devices]
        cells = max(len(self.groups(demands, gang, within)) * len(self._ledger.free.now().names), 1)
        trials = min(max(PINNED_CELLS // cells, PINNED_TRIALS[0]), PINNED_TRIALS[1])
        for way, pins in islice(search.ways(), MOST_WAYS):
            pinned = frozenset((key, len(pods)) for key, pods in grouped(asking, pins).items())
            if pinned in failed:
                continue
            groups = self.groups(demands, gang, within, pins)
            try:
                nodes = self._assign_nodes(groups, self._counts(groups, budget // trials))
            except NoPlace:
                failed.add(pinned)
                if len(failed) >= trials:
                    return None
                continue
            shares = self._hold(device_pods, way)
            return None if shares is None else (shares, nodes)
        return None

    def _hold(
        self, device_pods: Sequence[DevicePod], way: Mapping[str, list[Chosen]]
    ) -> dict[str, tuple[DeviceShare, ...]] | None:
        shares = {}
        for one in device_pods:
            held = self._ledger.devices.hold(one.pod, way[one.pod.uid])
            if held is None:
                return None
            shares[one.pod.uid] = held
        return shares

    # Nodes.

    def groups(
        self,
        demands: Sequence[Demand],
        gang: object,
        within: Set[str] | None = None,
        pins: Mapping[str, str] | None = None,
    ) -> list[Group]:
        """Return the demands as shapes, each with its pods in the order of their ranks."""
        found: list[Group] = []
        orders: dict[object, tuple[str, ...]] = {}
        for key, pods in self._by_shape(demands, pins).items():
            pod = pods[0]
            same_nodes = (key.signature, key.barred, key.pin)
            if same_nodes not in orders:
                orders[same_nodes] = self._ledger.in_order(self._usable(key, pod, gang, within))
            requests = self._ledger.rounded(pod.requests)
            room = self._ledger.device_rooms.room(pod.claims) if pod.claims else None
            shape = Shape(requests, len(pods), orders[same_nodes], pod.host_ports, room)
            found.append((shape, pods))
        return found

    def _by_shape(
        self, demands: Sequence[Demand], pins: Mapping[str, str] | None
    ) -> dict[ShapeKey, list[Pod]]:
        """Return equal pods by their key, in the order of their ranks.

        The last result is cached, because a search for victims passes the same tuple of demands repeatedly.
        """
        if not pins and self._last[0] is demands:
            return self._last[1]
        found = {
            key: sorted((demand.pod for demand in members), key=rank_key)
            for key, members in grouped(demands, pins).items()
        }
        if not pins and isinstance(demands, tuple):
            self._last = (demands, found)
        return found

    def _usable(self, key: ShapeKey, pod: Pod, gang: object, within: Set[str] | None) -> Set[str]:
        """Return the nodes that a shape may use: usually the index's own set, because nothing is excluded."""
        usable: Set[str] = self._eligibility.eligible(pod)
        if within is not None:
            usable = usable & within
        for closed in (key.barred, self._ledger.closed(gang)):
            if not closed.isdisjoint(usable):
                usable = usable - closed
        return usable & {key.pin} if key.pin else usable

    def _counts(self, groups: Sequence[Group], budget: int) -> Counts:
        """Return how many members of each shape each node gets. Raises `NoPlace`.

        The exact accounts of many equal members are checked first. If they lack room there is no place, because an
        answer of the matcher counts only if the accounts have room for it. One member isn't worth that.
        """
        shapes = [shape for shape, _ in groups]
        table = self._ledger.free.now()
        if len(shapes) == 1 and shapes[0].count > 1 and lacks_room(shapes[0], table):
            raise NoPlace(groups)
        try:
            counts = self._match_equal(shapes) or place(shapes, table, budget)
        except Busy:
            counts = None
        if counts is None:
            raise NoPlace(groups)
        return counts

    def _match_equal(self, shapes: Sequence[Shape]) -> Counts | None:
        """Return where the matcher puts equal members, None if its answer can't be used. Raises `Busy`.

        The matcher doesn't count host ports, so it isn't asked about members that have some. It doesn't know which
        devices of a class are claimed, so its answer counts only where nodes host as many members.
        """
        if len(shapes) != 1 or shapes[0].exclusive:
            return None
        room = shapes[0].room
        counts = self._ledger.match_equal(shapes[0].requests, shapes[0].count, shapes[0].nodes)
        if counts is None or (room is not None and not room.serves(counts)):
            return None
        return [counts]

    def _assign_nodes(self, groups: Sequence[Group], counts: Counts) -> dict[str, str]:
        """Assign nodes to pods: pods in the order of their ranks, nodes domain by domain in the policy's order."""
        nodes: dict[str, str] = {}
        for (_, pods), placed in zip(groups, counts, strict=True):
            waiting = iter(pods)
            for name in sorted(self._ledger.in_order(placed.keys()), key=self._node_order):
                for _ in range(placed[name]):
                    nodes[next(waiting).uid] = name
        return nodes
