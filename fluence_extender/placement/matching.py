"""Placing pods within a set of nodes: all of them get a node and devices there, or none does.

A chooser picks the nodes of equal members. `search` places members of different shapes together, and members that more
than amounts limit. `device_search` chooses the devices of all pods together. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice

from fluence_extender.graph.catalogue import choice
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.chooser import NodeChooser, most_room_first, spread_out
from fluence_extender.placement.demand import Demand, Group, ShapeKey, grouped
from fluence_extender.placement.device_search import DevicePod, DeviceSearch
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused, NoPlace
from fluence_extender.placement.pod_rules import PodRules, kept_by_ports
from fluence_extender.placement.ranks import rank_key
from fluence_extender.placement.reasons import why_no_devices
from fluence_extender.placement.ruled_search import RuledSearch, narrowed
from fluence_extender.placement.search import BUDGET, Counts, Shape, lacks_room, place
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.devices import Chosen, serve, shares_of
from fluence_extender.room.room import Room

PINNED_TRIALS = 16, 1024
"""The fewest and the most ways to pin pods to their devices' nodes that are tried with the rest of the gang."""

PINNED_CELLS = 50_000
"""The number of trials is this divided by nodes times shapes, kept within `PINNED_TRIALS`."""

MOST_RULED_KINDS = 128
"""The most kinds of members of a gang with rules about other pods. Each kind is compared with each other."""

TOO_MANY_KINDS = (
    f"its members are of more than {MOST_RULED_KINDS} kinds, and some have rules about other pods (required affinity "
    "or anti-affinity, spread): make smaller gangs, or give the members equal requests"
)

MOST_WAYS = 4096
"""The most ways to choose devices that are examined to find one that pins pods differently."""


class Matching:
    """Places pods in rooms; ``node_order`` is the key that sorts nodes before they are assigned to ranks."""

    def __init__(
        self,
        eligibility: EligibilityIndex,
        node_order: Callable[[str], tuple[object, ...]],
        chooser: NodeChooser,
    ) -> None:
        self._chooser = chooser
        self._eligibility = eligibility
        self._node_order = node_order
        self._last: tuple[tuple[Demand, ...], dict[ShapeKey, list[Pod]]] = ((), {})

    def attempt(self, room: Room, demands: Sequence[Demand], budget: int = BUDGET) -> tuple[Assignment, ...]:
        """Place every pod of ``demands``.

        Raises `GangRefused` if no device can ever serve a pod, and `NoPlace` for lack of capacity.
        """
        shares, nodes = self._devices_and_nodes(room, demands, budget)
        return tuple(
            Assignment(demand.pod.uid, nodes[demand.pod.uid], shares.get(demand.pod.uid, ()))
            for demand in demands
        )

    # Devices.

    def _devices_and_nodes(
        self, room: Room, demands: Sequence[Demand], budget: int
    ) -> tuple[Mapping[str, tuple[DeviceShare, ...]], Mapping[str, str]]:
        """Choose devices and a node for each pod, by pod uid. Raises `GangRefused`, `NoPlace`."""
        asking = [demand for demand in demands if demand.pod.devices]
        if not asking:
            groups = self.groups(room, demands)
            return {}, self._assign_nodes(room, groups, self._counts(room, groups, budget))
        device_pods = self._device_pods(room, asking)
        search = DeviceSearch(device_pods, room.devices.copy(), room.free)
        failed: set[object] = set()
        trials = self._trials(room, demands)
        for way, pins in islice(search.ways(), MOST_WAYS):
            pinned = frozenset((key, len(pods)) for key, pods in _grouped(room, asking, pins).items())
            if pinned in failed:
                continue
            groups = self.groups(room, demands, pins)
            try:
                counts = self._counts(room, groups, budget // trials if failed else budget)
                nodes = self._assign_nodes(room, groups, counts)
            except NoPlace:
                failed.add(pinned)
                if not pins or len(failed) >= trials:
                    break
                continue
            return {uid: shares_of(_by_kind(chosen)) for uid, chosen in way.items()}, nodes
        reason = None if failed else self._why_no_devices(room, device_pods)
        if reason is not None and reason.code is not ReasonCode.BUSY:
            raise GangRefused(reason)
        raise NoPlace(self.groups(room, demands), devices=reason)

    def _trials(self, room: Room, demands: Sequence[Demand]) -> int:
        """Return how many ways to pin pods to nodes are tried with the rest of the gang."""
        cells = len(self.groups(room, demands)) * len(room.free.names)
        return min(max(PINNED_CELLS // max(cells, 1), PINNED_TRIALS[0]), PINNED_TRIALS[1])

    def _why_no_devices(self, room: Room, device_pods: Sequence[DevicePod]) -> Reason | None:
        """Return why the devices don't suffice if each pod takes the first that it can get.

        Return None if they do; then the search may have spent its budget.
        """
        use = room.devices.copy()
        for asker in device_pods:
            unserved = serve(asker.pod, use, asker.nodes)
            if isinstance(unserved, str):
                return why_no_devices(use.catalogue, unserved, asker.pod, asker.nodes)
        return None

    def _device_pods(self, room: Room, asking: Sequence[Demand]) -> list[DevicePod]:
        """Return the pods that ask for devices with their nodes, those with the fewest devices to choose from first."""
        catalogue = room.devices.catalogue
        device_pods: list[DevicePod] = []
        for key, some in _grouped(room, asking).items():
            nodes = self._usable(room, key, some[0].pod)
            device_pods.extend(DevicePod(demand.pod, nodes) for demand in some)
        choices: dict[object, int] = {}

        def fewest(asker: DevicePod) -> int:
            key = tuple(asker.pod.devices), tuple(asker.pod.requires.items())
            if key not in choices:
                choices[key] = choice(catalogue, asker.pod.devices, asker.pod.requires)
            return choices[key]

        return sorted(device_pods, key=fewest)

    # Nodes.

    def groups(
        self, room: Room, demands: Sequence[Demand], pins: Mapping[str, str] | None = None
    ) -> list[Group]:
        """Return the demands as shapes, each with its pods in the order of their ranks."""
        found: list[Group] = []
        orders: dict[object, tuple[str, ...]] = {}
        for key, pods in self._by_shape(room, demands, pins).items():
            pod = pods[0]
            same_nodes = (key.signature, key.barred, key.pin)
            if same_nodes not in orders:
                order = room.in_order(self._usable(room, key, pod))
                orders[same_nodes] = most_room_first(order, room.free) if room.spreads else order
            shape = Shape(pod.requests, len(pods), orders[same_nodes], pod.host_ports, room.claim_room(pod))
            found.append((shape, pods))
        return found

    def _by_shape(
        self, room: Room, demands: Sequence[Demand], pins: Mapping[str, str] | None
    ) -> dict[ShapeKey, list[Pod]]:
        """Return equal pods by their key, in the order of their ranks.

        The last result is cached, because a search for victims passes the same tuple of demands repeatedly.
        """
        demands = _with_kept_nodes(room, demands)
        lasting = not pins and isinstance(demands, tuple)
        if lasting and self._last[0] is demands:
            return self._last[1]
        found = {
            key: sorted((demand.pod for demand in members), key=rank_key)
            for key, members in grouped(demands, pins).items()
        }
        if lasting and isinstance(demands, tuple):
            self._last = (demands, found)
        return found

    def _usable(self, room: Room, key: ShapeKey, pod: Pod) -> Set[str]:
        """Return the nodes that a shape may use: usually the index's own set, because nothing is excluded."""
        usable = room.usable(self._eligibility.eligible(pod))
        if not key.barred.isdisjoint(usable):
            usable = usable - key.barred
        return usable & {key.pin} if key.pin else usable

    def _counts(self, room: Room, groups: Sequence[Group], budget: int) -> Counts:
        """Return how many members of each shape each node gets. Raises `NoPlace`.

        The room for many equal members is counted before the chooser is asked. One member isn't worth that.
        """
        table = room.free
        shapes = [shape for shape, _ in groups]
        if any(pods[0].ruled for _, pods in groups):
            if len(groups) > MOST_RULED_KINDS:
                raise GangRefused(Reason(ReasonCode.INVALID_REQUEST, TOO_MANY_KINDS))
            kinds = [pods[0] for _, pods in groups]
            kept_apart = room.kept_apart
            rules = PodRules(kinds, table.names, self._eligibility.nodes, kept_apart)
            if not kept_by_ports(kinds, kept_apart.selects):
                return self._ruled_counts(groups, table, rules)
            shapes = [narrowed(shape, rules.allowed(at), table) for at, shape in enumerate(shapes)]
            groups = [(shape, pods) for shape, (_, pods) in zip(shapes, groups, strict=True)]
        counts: Counts | None = None
        if len(shapes) == 1 and shapes[0].free:
            (shape,) = shapes
            if shape.count > 1 and lacks_room(shape, table):
                raise NoPlace(groups)
            choose = spread_out if room.spreads else self._chooser.choose
            chosen = choose(shape.requests, shape.count, shape.nodes, table)
            counts = None if chosen is None else [chosen]
        counts = counts or place(shapes, table, budget)
        if counts is None:
            raise NoPlace(groups)
        return counts

    def _ruled_counts(self, groups: Sequence[Group], table: CapacityTable, rules: PodRules) -> Counts:
        """Return the same for members whose rules about other pods decide, too. Raises `NoPlace`."""
        search = RuledSearch([shape for shape, _ in groups], table, rules)
        counts = search.run()
        if counts is None:
            raise NoPlace(groups, ruled=search.placed)
        return counts

    def _assign_nodes(self, room: Room, groups: Sequence[Group], counts: Counts) -> dict[str, str]:
        """Assign nodes to pods: pods in the order of their ranks, nodes domain by domain in the policy's order."""
        nodes: dict[str, str] = {}
        for (_, pods), placed in zip(groups, counts, strict=True):
            waiting = iter(pods)
            for name in sorted(room.in_order(placed.keys()), key=self._node_order):
                for _ in range(placed[name]):
                    nodes[next(waiting).uid] = name
        return nodes


def _grouped(
    room: Room, demands: Sequence[Demand], pins: Mapping[str, str] | None = None
) -> dict[ShapeKey, list[Demand]]:
    """Return equal demands by key. Those that pods keep from different nodes aren't equal."""
    return grouped(_with_kept_nodes(room, demands), pins)


def _with_kept_nodes(room: Room, demands: Sequence[Demand]) -> Sequence[Demand]:
    """Return the demands with the nodes from which pods keep them barred; ``demands`` itself if there are none."""
    kept_from = [room.kept_from(demand.pod) for demand in demands] if room.keeps_apart else []
    if not any(kept_from):
        return demands
    return [
        replace(demand, barred=demand.barred | nodes)
        for demand, nodes in zip(demands, kept_from, strict=True)
    ]


def _by_kind(devices: Sequence[Chosen]) -> list[Chosen]:
    """Return a pod's devices in the order of their types, so that its record doesn't depend on the search."""
    return sorted(devices, key=lambda chosen: chosen[0][0].type)
