"""A copy of the books' accounts, to count on in what never happens: planning without some pods, or later."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fluence_extender.ledger.books import Books
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


def copied_accounts(books: Books) -> dict[str, AccountCopy]:
    """Every node's account as it is now; copying takes references to immutable values."""
    return {
        name: AccountCopy(name, one.allocatable, books.room(name), one.ports)
        for name, one in books.accounts.items()
    }
