"""What placement needs of the ledger: the table of nodes, the devices, and a way to take and to give back.

The ledger of the service are one such ledger, a copy to plan on is another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from fluence_extender.graph.catalogue import Device, DeviceCatalogue
from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import Resources


class CapacitySource(Protocol):
    """What nodes have, as one array; ``revision`` grows when it changes."""

    @property
    def revision(self) -> int:
        """How often it has changed, as of the last `now`."""
        ...

    def now(self) -> CapacityTable:
        """The table as they are now; read them, don't change them."""
        ...


class Graph(Protocol):
    """What placement asks of the resource graph."""

    @property
    def levels(self) -> Mapping[str, str]:
        """Topology levels, the outermost first, with the node labels that name them."""
        ...

    @property
    def catalogue(self) -> DeviceCatalogue:
        """The virtual devices."""
        ...


class Held(Protocol):
    """What one pod holds."""

    @property
    def assignment(self) -> Assignment:
        """Its place."""
        ...


class DeviceLedger(Protocol):
    """The virtual devices."""

    def draft(
        self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()
    ) -> tuple[DeviceShare, ...] | Reason:
        """Hold some that the pod asks for, or say why that can't be done."""
        ...

    def hold(
        self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]
    ) -> tuple[DeviceShare, ...] | None:
        """Hold exactly these; None when they can't be had."""
        ...


class LedgerPort(Protocol):
    """See the module docstring. Amounts are exact; `rounded` requests are what is taken."""

    @property
    def free(self) -> CapacitySource:
        """What the nodes have left."""
        ...

    @property
    def whole(self) -> CapacitySource:
        """What the nodes have when nothing runs."""
        ...

    @property
    def allocations(self) -> Mapping[str, Held]:
        """What our pods hold, by uid."""
        ...

    @property
    def graph(self) -> Graph:
        """The resource graph."""
        ...

    @property
    def devices(self) -> DeviceLedger:
        """The virtual devices."""
        ...

    def closed(self, gang: object) -> set[str]:
        """The nodes that ``gang`` may not use now."""
        ...

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that there are, in the order the policy fills them."""
        ...

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` as they are counted."""
        ...

    def match_equal(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int] | None:
        """Return where the matcher puts equal pods, None when it can't say. Raises `Busy` for lack of capacity."""
        ...

    def take_all(self, places: Sequence[tuple[Pod, Assignment]], gang: object) -> None:
        """Hold the places of a gang's pods. Raises `NoCapacity`; then none is held."""
        ...

    def undo(self, uids: Iterable[str]) -> None:
        """Give back what these pods hold."""
        ...
