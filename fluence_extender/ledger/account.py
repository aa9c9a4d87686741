"""The exact account of one node: what it has, who uses it, what is left.

Sums are kept as they change, so that asking costs nothing; amounts are those of `Resources`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import NOTHING, Resources

ANY_ADDRESS = "0.0.0.0"


def ports_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether two sets of host ports can't live on one node: same port and protocol, addresses equal or any."""
    held = tuple(taken)
    return any(
        one.port == other.port
        and one.protocol == other.protocol
        and (one.host_ip == other.host_ip or ANY_ADDRESS in (one.host_ip, other.host_ip))
        for one in wanted
        for other in held
    )


class NodeAccount:
    """One node's account. ``free`` may be negative: somebody else took more than there was.

    ``note`` is told the node's name after each change.
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
        """What each pod here uses, by uid, others' pods included."""
        return self._users

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """The host ports in use."""
        return tuple(port for ports in self._ports.values() for port in ports)

    def resize(self, allocatable: Resources) -> None:
        """Take note of a new allocatable."""
        self.free = self.free + allocatable - self.allocatable
        self.allocatable = allocatable
        self._note(self.name)

    def add(self, uid: str, requests: Resources, foreign: bool, ports: tuple[HostPort, ...] = ()) -> None:
        """Count a pod, or count it anew with other requests."""
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

    @property
    def foreign(self) -> frozenset[str]:
        """The uids of others' pods here."""
        return frozenset(self._foreign)

    def sums(self) -> tuple[Resources, Resources]:
        """What ``free`` and ``foreign_use`` have to be, added up from the start."""
        used = Resources.total(self._users.values())
        return self.allocatable - used, Resources.total(self._users[uid] for uid in self._foreign)

    def recount(self, allocatable: Resources) -> None:
        """Add everything up from the start."""
        self.allocatable = allocatable
        self.free, self.foreign_use = self.sums()

    def takes(self, requests: Resources, ports: tuple[HostPort, ...] = ()) -> bool:
        """Whether a pod fits now."""
        return requests.fits(self.free) and not (ports and ports_clash(ports, self.ports))
