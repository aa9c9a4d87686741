"""The exact accounts: what each pod holds, what each node has, and which accounts have changed.

Amounts are those of `Resources`, and nothing is rounded here. Sums are updated with each change, so reads are cheap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from enum import IntEnum
from itertools import islice

from immutables import Map
from msgspec import Struct

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.resources import NOTHING, Resources

ANY_ADDRESS = "0.0.0.0"


class Firmness(IntEnum):
    """How firmly a pod holds its place: in a conflict the stronger one keeps it."""

    PLANNED = 1
    COMMITTED = 2
    BOUND = 3


class Holding(Struct, frozen=True):
    """What one pod holds: its node and devices, its exact requests, and its host ports."""

    namespace: str
    name: str
    assignment: Assignment
    requests: Resources
    firmness: Firmness
    ports: tuple[HostPort, ...] = ()

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.assignment.uid

    @property
    def node(self) -> str:
        """The name of the pod's node."""
        return self.assignment.node


class Holdings(MutableMapping[str, Holding]):
    """What our pods hold, by uid; `frozen` returns all of it as it is now, in constant time.

    ``changed`` has the uids of the pods whose holdings have changed since `Ledger.take_changed` was last called.
    """

    def __init__(self) -> None:
        self._present: Map[str, Holding] = Map()
        self.changed: set[str] = set()

    def frozen(self) -> Map[str, Holding]:
        """Return what the pods hold now; that value stays as it is."""
        return self._present

    def __getitem__(self, uid: str) -> Holding:
        """Return what a pod holds."""
        return self._present[uid]

    def __contains__(self, uid: object) -> bool:
        """Return whether a pod holds something."""
        return uid in self._present

    def __setitem__(self, uid: str, held: Holding) -> None:
        """Record what a pod holds."""
        self._present = self._present.set(uid, held)
        self.changed.add(uid)

    def __delitem__(self, uid: str) -> None:
        """Record that a pod holds nothing any more."""
        self._present = self._present.delete(uid)
        self.changed.add(uid)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the uids of the pods that hold something."""
        return iter(self._present)

    def __len__(self) -> int:
        """Return how many pods hold something."""
        return len(self._present)


def holding_of(pod: Pod, assignment: Assignment, firmness: Firmness) -> Holding:
    """Return what a pod holds at its place ``assignment``."""
    return Holding(pod.namespace, pod.name, assignment, pod.requests, firmness, pod.host_ports)


def ports_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Return whether two sets of host ports can't share a node.

    Two ports clash when number and protocol are equal and the addresses are equal or one of them is any address.
    """
    return bool(PortIndex([(0, taken)]).clashing(wanted))


class PortIndex:
    """An index of host ports by port, protocol and address. ``held`` has the ports of each holder.

    ``beyond`` has the holders that aren't indexed. They are assumed to clash with every pod.
    """

    def __init__(self, held: Iterable[tuple[int, Iterable[HostPort]]]) -> None:
        self._holders: dict[tuple[int, str], dict[str, set[int]]] = {}
        self.beyond: set[int] = set()
        for holder, ports in held:
            for port, protocol, address in ports:
                by_address = self._holders.get((port, protocol))
                if by_address is None:
                    # Most ports have one holder, and a gang may have tens of thousands of ports.
                    self._holders[port, protocol] = {address: {holder}}
                else:
                    by_address.setdefault(address, set()).add(holder)

    def clashing(self, wanted: Iterable[HostPort]) -> set[int]:
        """Return the holders that can't share a node with a pod that takes the ports ``wanted``."""
        found = set(self.beyond)
        for one in wanted:
            by_address = self._holders.get((one.port, one.protocol))
            if by_address is None:
                continue
            if one.host_ip == ANY_ADDRESS:
                found.update(*by_address.values())
            else:
                found.update(by_address.get(one.host_ip, ()), by_address.get(ANY_ADDRESS, ()))
        return found


class NodeAccount:
    """The account of one node.

    ``free`` is negative when the pods on the node use more than it has. ``note`` is called with the node's name after
    each change.
    """

    __slots__ = ("_foreign", "_note", "_ports", "_users", "allocatable", "foreign_use", "free", "name")

    def __init__(
        self, name: str, allocatable: Resources = NOTHING, note: Callable[[str], None] = lambda _: None
    ) -> None:
        self.name = name
        self._note = note
        self.allocatable = allocatable
        self.free = allocatable
        self.foreign_use = NOTHING
        self._users: dict[str, Resources] = {}
        self._foreign: set[str] = set()
        self._ports: dict[str, tuple[HostPort, ...]] = {}

    @property
    def users(self) -> Mapping[str, Resources]:
        """What each pod on the node uses, by uid, foreign pods included."""
        return self._users

    @property
    def foreign(self) -> frozenset[str]:
        """The uids of the foreign pods on the node."""
        return frozenset(self._foreign)

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """The host ports in use."""
        return tuple(port for ports in self._ports.values() for port in ports)

    def resize(self, allocatable: Resources) -> None:
        """Record a new allocatable."""
        self.free = self.free + allocatable - self.allocatable
        self.allocatable = allocatable
        self._note(self.name)

    def add(self, uid: str, requests: Resources, foreign: bool, ports: tuple[HostPort, ...] = ()) -> None:
        """Count a pod, or count it again with other requests."""
        if uid in self._users:
            self.remove(uid)
        self._users[uid] = requests
        self.free = self.free - requests
        if foreign:
            self._foreign.add(uid)
            self.foreign_use = self.foreign_use + requests
        if ports:
            self._ports[uid] = ports
        self._note(self.name)

    def remove(self, uid: str) -> None:
        """Stop counting a pod; nothing happens when it isn't counted."""
        requests = self._users.pop(uid, None)
        if requests is None:
            return
        self.free = self.free + requests
        self._ports.pop(uid, None)
        if uid in self._foreign:
            self._foreign.discard(uid)
            self.foreign_use = self.foreign_use - requests
        self._note(self.name)

    def sums(self) -> tuple[Resources, Resources]:
        """Return what ``free`` and ``foreign_use`` have to be, added up from the pods."""
        used = Resources.total(self._users.values())
        return self.allocatable - used, Resources.total(self._users[uid] for uid in self._foreign)

    def recount(self, allocatable: Resources) -> None:
        """Add everything up again."""
        self.allocatable = allocatable
        self.free, self.foreign_use = self.sums()

    def takes(self, requests: Resources, ports: tuple[HostPort, ...] = ()) -> bool:
        """Return whether a pod fits now."""
        return requests.fits(self.free) and not (ports and ports_clash(ports, self.ports))


class Journal:
    """The names of changed nodes in order, so that whoever derives values from nodes can follow the changes.

    Only the last `MOST` names are kept. A reader that has missed some has to look at all nodes.
    """

    MOST = 20_000

    def __init__(self) -> None:
        self._names: deque[str] = deque(maxlen=self.MOST)
        self._noted = 0

    def note(self, name: str) -> None:
        """Record that a node has appeared, changed or disappeared."""
        self._names.append(name)
        self._noted += 1

    @property
    def now(self) -> int:
        """The present end of the journal, for `since`."""
        return self._noted

    def since(self, mark: int) -> set[str] | None:
        """Return the nodes noted after ``mark``, an earlier `now`; None when some of them are forgotten."""
        missed = self._noted - mark
        if missed > len(self._names):
            return None
        return set(islice(reversed(self._names), missed))
