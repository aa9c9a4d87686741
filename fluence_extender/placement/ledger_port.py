"""What placement needs from a ledger. The service's ledger is one implementation, and a copy for plans is another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from fluence_extender.graph.catalogue import DeviceCatalogue
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.claims import DeviceRooms
from fluence_extender.room.devices import DeviceUse
from fluence_extender.room.holds import PreemptorHolds
from fluence_extender.room.kept_apart import KeptApart
from fluence_extender.room.pod_use import PodUse


class CapacitySource(Protocol):
    """The capacity of nodes; ``revision`` grows when it changes."""

    @property
    def revision(self) -> int:
        """How often the capacity has changed, as of the last `now`."""
        ...

    def now(self) -> CapacityTable:
        """Return the capacity as it is now; treat it as read-only."""
        ...


class GraphView(Protocol):
    """The resource graph."""

    @property
    def levels(self) -> Mapping[str, str]:
        """The topology levels, outermost first, with the node labels that name them."""
        ...

    @property
    def catalogue(self) -> DeviceCatalogue:
        """The virtual devices."""
        ...


class PlanningRules(Protocol):
    """What planning has to respect beside the capacity."""

    @property
    def graph(self) -> GraphView:
        """The resource graph."""
        ...

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that exist, in the order in which the policy fills nodes."""
        ...

    @property
    def spreads(self) -> bool:
        """Whether the policy takes the nodes with the most room first."""
        ...

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that ``gang`` may not use, if the pods ``without`` were gone."""
        ...

    @property
    def device_rooms(self) -> DeviceRooms:
        """How many pods with claims nodes host."""
        ...

    @property
    def kept_apart(self) -> KeptApart:
        """The nodes that pods must avoid because of other pods' required anti-affinity."""
        ...


class LedgerReader(PlanningRules, Protocol):
    """The part of a ledger that placement reads."""

    def device_use(self) -> DeviceUse:
        """Return how much of each virtual device is held; the caller may change it."""
        ...

    @property
    def free(self) -> CapacitySource:
        """What the nodes have left."""
        ...

    @property
    def whole(self) -> CapacitySource:
        """What the nodes have when nothing runs."""
        ...


class LedgerView(LedgerReader, Protocol):
    """The ledger, or a copy of all of it, from which planning copies are made."""

    @property
    def preemptor_holds(self) -> PreemptorHolds:
        """The nodes that are held for preemptors."""
        ...

    def use_of(self, uid: str) -> PodUse | None:
        """Return what a pod uses now; None when it isn't counted."""
        ...

    def device_holders(self) -> Iterable[PodUse]:
        """Return the use of each of our pods with virtual devices."""
        ...


class LedgerPort(LedgerReader, Protocol):
    """A ledger to plan on. Amounts are exact."""

    def take_all(self, places: Sequence[tuple[Pod, Assignment]], gang: object) -> None:
        """Allocate the places of a gang's pods. Raises `NoCapacity`; then nothing is allocated."""
        ...

    def undo(self, uids: Iterable[str]) -> None:
        """Release what these pods hold."""
        ...
