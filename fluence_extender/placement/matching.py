"""Placing pods within a set of nodes: everybody gets a node and devices there, or nobody does.

Equal members are one question to the matcher; members of different shapes, or with devices that hang on a node, are
placed together by `search`. Devices are drafted pod by pod first; where that strands somebody, those of all are
searched for together. What fails leaves the ledger as it was.
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
from fluence_extender.placement.device_search import Asker, Chosen, DeviceSearch
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused, NoPlace
from fluence_extender.placement.ledger_port import LedgerPort
from fluence_extender.placement.ranks import rank_key
from fluence_extender.placement.reasons import devices_in_use
from fluence_extender.placement.search import BUDGET, Counts, Shape, place

PINNED_TRIALS = 16, 1024
"""How many ways to pin pods to the nodes of their devices are tried with the rest of the gang: at least, at most."""

PINNED_CELLS = 50_000
"""Between the two so many that nodes times shapes times trials comes to this."""

MOST_WAYS = 4096
"""How many ways to choose devices are looked at for one that pins pods otherwise than before."""


class Matching:
    """See the module docstring. ``node_order`` is what nodes are sorted by to be given out in the order of ranks."""

    def __init__(
        self,
        ledger: LedgerPort,
        eligibility: EligibilityIndex,
        node_order: Callable[[str], tuple[object, ...]],
    ) -> None:
        self._ledger = ledger
        self._eligibility = eligibility
        self._node_order = node_order
        self._asked_last: tuple[tuple[Demand, ...], dict[ShapeKey, list[Pod]]] = ((), {})

    def attempt(
        self,
        demands: Sequence[Demand],
        gang: object,
        within: Set[str] | None = None,
        budget: int = BUDGET,
    ) -> tuple[Assignment, ...]:
        """Place every pod of ``demands`` on nodes of ``within``, held as planned.

        Raises `GangRefused` where no device will ever do and `NoPlace` for want of room; then nothing is held.
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
        asking = [demand for demand in demands if demand.pod.devices]
        if not asking:
            groups = self.groups(demands, gang, within)
            return {}, self._spread(groups, self._counts(groups, budget))
        askers = self._askers(asking, gang, within)
        try:
            shares = self._draft(askers)
            groups = self.groups(demands, gang, within, self._pins(shares))
            return shares, self._spread(groups, self._counts(groups, budget))
        except (GangRefused, NoPlace) as error:
            if not self._may_go_otherwise(error):
                raise
            self._ledger.undo([demand.pod.uid for demand in asking])
            found = self._together(demands, askers, gang, within, budget)
            if found is not None:
                return found
            devices = error.reason if isinstance(error, GangRefused) else None
            raise NoPlace(self.groups(demands, gang, within), devices=devices) from error

    def _may_go_otherwise(self, error: GangRefused | NoPlace) -> bool:
        """Whether another choice of devices could help."""
        if isinstance(error, GangRefused):
            return error.reason.code is ReasonCode.BUSY
        return bool(self._ledger.graph.catalogue.nodes())

    def _askers(self, asking: Sequence[Demand], gang: object, within: Set[str] | None) -> list[Asker]:
        """The pods that ask for devices with their nodes, those with the smallest choice first."""
        catalogue = self._ledger.graph.catalogue
        nodes = {
            key: self._usable(key, some[0].pod, gang, within) for key, some in grouped(asking, {}).items()
        }
        askers = [
            Asker(demand.pod, nodes[key]) for key, some in grouped(asking, {}).items() for demand in some
        ]
        return sorted(askers, key=lambda one: choice(catalogue, one.pod.devices, one.pod.requires))

    def _draft(self, askers: Sequence[Asker]) -> dict[str, tuple[DeviceShare, ...]]:
        """Draft the devices pod by pod. Raises `GangRefused`."""
        devices = self._ledger.devices
        local = self._ledger.graph.catalogue.nodes()
        shares: dict[str, tuple[DeviceShare, ...]] = {}
        for asker in askers:
            drafted = devices.draft(asker.pod, asker.pod.requires, local - asker.nodes if local else ())
            if isinstance(drafted, Reason):
                raise GangRefused(drafted)
            shares[asker.pod.uid] = drafted
        return shares

    def _pins(self, shares: Mapping[str, tuple[DeviceShare, ...]]) -> dict[str, str]:
        catalogue = self._ledger.graph.catalogue
        nodes = {uid: catalogue.node_of(held) for uid, held in shares.items()}
        return {uid: node for uid, node in nodes.items() if node is not None}

    def _together(
        self,
        demands: Sequence[Demand],
        askers: Sequence[Asker],
        gang: object,
        within: Set[str] | None,
        budget: int,
    ) -> tuple[Mapping[str, tuple[DeviceShare, ...]], Mapping[str, str]] | None:
        """Search for the devices of all pods at once; None when that finds no place either."""
        search = DeviceSearch(
            askers, self._ledger.graph.catalogue, devices_in_use(self._ledger), self._ledger.free.now()
        )
        vain: set[object] = set()
        asking = [demand for demand in demands if demand.pod.devices]
        cells = max(len(self.groups(demands, gang, within)) * len(self._ledger.free.now().names), 1)
        trials = min(max(PINNED_CELLS // cells, PINNED_TRIALS[0]), PINNED_TRIALS[1])
        for way, pins in islice(search.ways(), MOST_WAYS):
            asked = frozenset((key, len(pods)) for key, pods in grouped(asking, pins).items())
            if asked in vain:
                continue
            groups = self.groups(demands, gang, within, pins)
            try:
                nodes = self._spread(groups, self._counts(groups, budget // trials))
            except NoPlace:
                vain.add(asked)
                if len(vain) >= trials:
                    return None
                continue
            shares = self._hold(askers, way)
            return None if shares is None else (shares, nodes)
        return None

    def _hold(
        self, askers: Sequence[Asker], way: Mapping[str, list[Chosen]]
    ) -> dict[str, tuple[DeviceShare, ...]] | None:
        shares = {}
        for asker in askers:
            held = self._ledger.devices.hold(asker.pod, way[asker.pod.uid])
            if held is None:
                return None
            shares[asker.pod.uid] = held
        return shares

    # Nodes.

    def groups(
        self,
        demands: Sequence[Demand],
        gang: object,
        within: Set[str] | None = None,
        pins: dict[str, str] | None = None,
    ) -> list[Group]:
        """The demands as shapes with their pods, in the order of their ranks."""
        found: list[Group] = []
        orders: dict[object, tuple[str, ...]] = {}
        for key, pods in self._by_shape(demands, pins or {}).items():
            pod = pods[0]
            asked = (key.signature, key.barred, key.pin)
            if asked not in orders:
                orders[asked] = self._ledger.in_order(self._usable(key, pod, gang, within))
            shape = Shape(self._ledger.rounded(pod.requests), len(pods), orders[asked], pod.host_ports)
            found.append((shape, pods))
        return found

    def _by_shape(self, demands: Sequence[Demand], pins: dict[str, str]) -> dict[ShapeKey, list[Pod]]:
        """The pods by what makes them equal, in the order of their ranks.

        Who looks for victims asks for the same tuple of demands over and over.
        """
        if not pins and self._asked_last[0] is demands:
            return self._asked_last[1]
        found = {
            key: sorted((demand.pod for demand in members), key=rank_key)
            for key, members in grouped(demands, pins).items()
        }
        if not pins and isinstance(demands, tuple):
            self._asked_last = (demands, found)
        return found

    def _usable(self, key: ShapeKey, pod: Pod, gang: object, within: Set[str] | None) -> Set[str]:
        """The nodes a shape may use; the index's own set where nothing is taken out of it, which is the rule."""
        usable: Set[str] = self._eligibility.eligible(pod)
        if within is not None:
            usable = usable & within
        for shut in (key.barred, self._ledger.closed(gang)):
            if not shut.isdisjoint(usable):
                usable = usable - shut
        return usable & {key.pin} if key.pin else usable

    def _counts(self, groups: Sequence[Group], budget: int) -> Counts:
        """How many members of each shape each node gets. Raises `NoPlace`."""
        shapes = [shape for shape, _ in groups]
        try:
            counts = self._ask_matcher(shapes) or place(shapes, self._ledger.free.now(), budget)
        except Busy:
            counts = None
        if counts is None:
            raise NoPlace(groups)
        return counts

    def _ask_matcher(self, shapes: Sequence[Shape]) -> Counts | None:
        """The matcher's answer for equal members; None where it knows too little to be believed.

        Raises `Busy` where it has no room: what it counts is part of what the accounts count, so there is none.
        """
        if len(shapes) != 1 or shapes[0].exclusive:
            return None
        counts = self._ledger.match_equal(shapes[0].requests, shapes[0].count, shapes[0].nodes)
        return None if counts is None else [counts]

    def _spread(self, groups: Sequence[Group], counts: Counts) -> dict[str, str]:
        """Give each pod a node: pods in the order of their ranks, nodes domain by domain in the policy's order."""
        nodes: dict[str, str] = {}
        for (_, pods), placed in zip(groups, counts, strict=True):
            waiting = iter(pods)
            for name in sorted(self._ledger.in_order(placed.keys()), key=self._node_order):
                for _ in range(placed[name]):
                    nodes[next(waiting).uid] = name
        return nodes
