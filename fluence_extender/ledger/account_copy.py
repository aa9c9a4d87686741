"""A copy of the books' accounts, to count on in what never happens: planning without some pods, or later."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fluence_extender.ledger.books import Books
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources


@dataclass(slots=True)
class AccountCopy:
    """One node's account in the copy; ``free`` is what is left for pods of ours."""

    name: str
    allocatable: Resources
    free: Resources
    ports: tuple[HostPort, ...] = ()

    def take(self, requests: Resources, ports: tuple[HostPort, ...]) -> None:
        """Count a pod that comes."""
        self.free = self.free - requests
        if ports:
            self.ports = (*self.ports, *ports)

    def give_back(self, requests: Resources, ports: tuple[HostPort, ...]) -> None:
        """Count a pod that goes."""
        self.free = self.free + requests
        if ports:
            left = Counter(self.ports)
            left.subtract(ports)
            self.ports = tuple((+left).elements())


@dataclass(frozen=True, slots=True)
class Use:
    """What one pod uses: its place, its requests as they are counted there, and its host ports."""

    assignment: Assignment
    requests: Resources
    ports: tuple[HostPort, ...] = ()

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.assignment.uid


def copied_accounts(books: Books) -> dict[str, AccountCopy]:
    """Every node's account as it is now; copying takes references to immutable values."""
    return {
        name: AccountCopy(name, one.allocatable, books.room(name), one.ports)
        for name, one in books.accounts.items()
    }


def use_of(books: Books, uid: str) -> Use | None:
    """What a pod uses now, ours or another scheduler's; None when it isn't counted."""
    held = books.holdings.get(uid)
    assignment = held.assignment if held is not None else Assignment(uid, books.foreign.get(uid, ""))
    account = books.accounts.get(assignment.node)
    if account is None or uid not in account.users:
        return None
    return Use(assignment, account.users[uid], held.ports if held is not None else ())


def uses_of_devices(books: Books) -> dict[str, Use]:
    """What the pods use that hold devices, by uid."""
    uses = (use_of(books, uid) for uid, held in books.holdings.items() if held.assignment.devices)
    return {use.uid: use for use in uses if use is not None}
