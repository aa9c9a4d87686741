"""What one pod uses, as the books count it: for copies of the books, in which it may go and come back."""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.ledger.books import Books
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources


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
