"""What one pod uses, as the ledger counts it: for copies of the ledger, in which it may go and come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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


class Held(Protocol):
    """What one pod of ours holds."""

    @property
    def assignment(self) -> Assignment:
        """Its place."""
        ...

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """Its host ports."""
        ...


class Account(Protocol):
    """What pods use on a node."""

    @property
    def users(self) -> Mapping[str, Resources]:
        """The requests of each, as they are counted, by uid."""
        ...


class Uses(Protocol):
    """What pods use: the ledger, or a copy of them."""

    @property
    def allocations(self) -> Mapping[str, Held]:
        """What each pod of ours holds, by uid."""
        ...

    @property
    def foreign(self) -> Mapping[str, str]:
        """The nodes of others' pods, by uid."""
        ...

    @property
    def accounts(self) -> Mapping[str, Account]:
        """The account of each node."""
        ...


def use_of(ledger: Uses, uid: str) -> Use | None:
    """What a pod uses now, ours or another scheduler's; None when it isn't counted."""
    held = ledger.allocations.get(uid)
    assignment = held.assignment if held is not None else Assignment(uid, ledger.foreign.get(uid, ""))
    account = ledger.accounts.get(assignment.node)
    if account is None or uid not in account.users:
        return None
    return Use(assignment, account.users[uid], held.ports if held is not None else ())


def uses_of_devices(ledger: Uses) -> dict[str, Use]:
    """What the pods use that hold devices, by uid."""
    uses = (use_of(ledger, uid) for uid, held in ledger.allocations.items() if held.assignment.devices)
    return {use.uid: use for use in uses if use is not None}
