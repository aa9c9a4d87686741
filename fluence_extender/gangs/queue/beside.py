"""A view of the ledger without the room that is kept for reservations, to plan gangs beside them.

Free amounts in the view are those of the ledger less those that have to stay free. Places are taken from the ledger
itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, behind_reservation
from fluence_extender.placement.ledger_port import CapacitySource, GraphView, LedgerPort
from fluence_extender.placement.plan import Planner
from fluence_extender.room.capacity import CapacityTable, KeptRoom
from fluence_extender.room.claims import DeviceRooms
from fluence_extender.room.devices import DeviceUse
from fluence_extender.room.kept_apart import KeptApart


@dataclass(frozen=True, slots=True)
class Beside:
    """How a gang may be placed beside reservations.

    ``planner`` plans it, None for the usual planner. The nodes ``closed`` aren't used, because the operators'
    Reservations ``closing`` close them. ``kept`` is the room that the planner leaves free, None for none. ``levels``
    is the number of reservations that start while the gang would run. ``short`` is why the gang doesn't start even if
    the nodes have room: other queues keep it for themselves (`pool`).

    Of gangs with equal demands, tokens and levels either all fit or none does. A gang that has no place has none at
    more levels.
    """

    planner: Planner | None = None
    closed: frozenset[str] = frozenset()
    token: object = None
    levels: int = 0
    kept: KeptRoom | None = None
    closing: tuple[str, ...] = ()
    short: Reason | None = None

    @property
    def reason(self) -> Reason:
        """Why a gang waits that would fit if nothing were reserved."""
        return self.short or behind_reservation(self.closing, self.kept is not None)


FREELY = Beside()
"""How a gang may be placed where nothing is reserved before it."""


class LedgerBeside:
    """A `LedgerPort` on ``ledger`` without the room that was given to `keep` last."""

    def __init__(self, ledger: LedgerPort) -> None:
        self._ledger = ledger
        self._free = _ReducedCapacity(ledger.free)
        self._shares: tuple[DeviceShare, ...] = ()
        self._closed: frozenset[str] = frozenset()

    def keep(self, kept: KeptRoom) -> None:
        """Keep this room free from now on, and no other."""
        self._free.keep(kept)
        self._shares = kept.shares
        self._closed = kept.closed

    @property
    def graph(self) -> GraphView:
        """The resource graph."""
        return self._ledger.graph

    @property
    def free(self) -> _ReducedCapacity:
        """The free amounts of nodes less the kept ones."""
        return self._free

    @property
    def whole(self) -> CapacitySource:
        """What the nodes have when nothing runs."""
        return self._ledger.whole

    def device_use(self) -> DeviceUse:
        """Return how much of each virtual device is held; kept devices count as held."""
        use = self._ledger.device_use()
        use.add(self._shares)
        return use

    @property
    def spreads(self) -> bool:
        """Whether the policy takes the nodes with the most room first."""
        return self._ledger.spreads

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that exist, in the order in which the policy fills nodes."""
        return self._ledger.in_order(names)

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that ``gang`` may not use."""
        return self._ledger.closed(gang, without) | self._closed

    @property
    def device_rooms(self) -> DeviceRooms:
        """How many pods with claims nodes host."""
        return self._ledger.device_rooms

    @property
    def kept_apart(self) -> KeptApart:
        """The nodes that pods must avoid because of other pods' required anti-affinity."""
        return self._ledger.kept_apart

    def take_all(self, places: Sequence[tuple[Pod, Assignment]], gang: object) -> None:
        """Allocate the places of a gang's pods in the ledger."""
        self._ledger.take_all(places, gang)

    def undo(self, uids: Iterable[str]) -> None:
        """Release what these pods hold in the ledger."""
        self._ledger.undo(uids)


class _ReducedCapacity:
    """The free capacity less the kept amounts."""

    def __init__(self, real: CapacitySource) -> None:
        self._real = real
        self._kept: KeptRoom | None = None
        self._shown: tuple[CapacityTable, int, CapacityTable] | None = None

    @property
    def revision(self) -> int:
        """How often the capacity has changed."""
        return self._real.revision

    def keep(self, kept: KeptRoom) -> None:
        """Keep these amounts."""
        if kept is not self._kept:
            self._kept, self._shown = kept, None

    def now(self) -> CapacityTable:
        """Return the free amounts less the kept ones."""
        real = self._real.now()
        if self._shown is not None and self._shown[0] is real and self._shown[1] == self._real.revision:
            return self._shown[2]
        found = real.having(real.free.copy(), real.ports)
        if self._kept is not None:
            rows, amounts = self._kept.within(real)
            found.free[rows] -= amounts
        self._shown = real, self._real.revision, found
        return found
