"""Planning as if some pods were gone: on a copy of the accounts, so that the books never notice.

A trial counts what nodes and devices would have and asks no matcher; what is found is a promise for later, not a place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluence_extender.graph.catalogue import Device
from fluence_extender.ledger.account_copy import copied_accounts
from fluence_extender.ledger.books import Books
from fluence_extender.ledger.holding import Holding
from fluence_extender.ledger.journal import Journal
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner, Refused, Settled, Wish

_SEARCHED = Reason(Why.BUSY, "busy: all devices are searched for together")


@dataclass(frozen=True, slots=True)
class Place:
    """What a pod takes in the copy."""

    assignment: Assignment
    requests: Resources
    ports: tuple[HostPort, ...]


class Trial:
    """A copy of ``books`` for one gang's questions, from which pods can be taken out and put back."""

    def __init__(self, books: Books, eligibility: EligibilityIndex) -> None:
        self._ledger = TrialLedger(books)
        self._planner = Planner(self._ledger, eligibility)

    def place(
        self,
        wishes: Sequence[Wish],
        gang: object,
        settled: Sequence[Settled],
        without: frozenset[str],
        within: Collection[str] | None = None,
    ) -> tuple[Assignment, ...] | None:
        """Where the pods would go once those of the uids ``without`` have gone, on nodes of ``within``; or None."""
        self._ledger.remove(without)
        self._ledger.within = within
        try:
            found = self._planner.plan(wishes, gang, settled)
        except Refused:
            return None
        self._ledger.undo([wish.pod.uid for wish in wishes])
        return found


class TrialLedger:
    """The copy, as placement sees books. ``within`` are the only nodes that may be used, None for all."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.accounts = copied_accounts(books)
        self._gone: frozenset[str] = frozenset()
        self._all: Mapping[str, Holding] = books.holdings
        self._with_devices = {uid: one for uid, one in books.holdings.items() if one.assignment.devices}
        self.holdings: dict[str, Any] = dict(self._with_devices)
        self.journal = Journal()
        self.behind = False
        self.mirror = books.mirror
        self.devices = TrialDevices()
        self.within: Collection[str] | None = None

    def remove(self, uids: frozenset[str]) -> None:
        """Let exactly the pods of these uids be gone."""
        for uid in uids - self._gone:
            self._count(uid, 1)
        for uid in self._gone - uids:
            self._count(uid, -1)
        self._gone = uids

    def _count(self, uid: str, sign: int) -> None:
        held = self._all.get(uid)
        if held is None:
            return
        if held.assignment.devices:
            if sign > 0:
                self.holdings.pop(uid, None)
            else:
                self.holdings[uid] = held
        self._use(held.assignment.node, self.rounded(held.requests), held.ports, sign)

    def _use(self, node: str, requests: Resources, ports: tuple[HostPort, ...], sign: int) -> None:
        account = self.accounts.get(node)
        if account is None:
            return
        (account.give_back if sign > 0 else account.take)(requests, ports)
        self.journal.note(node)

    def room(self, name: str) -> Resources:
        """What is free on a node."""
        return self.accounts[name].free

    def closed(self, gang: object) -> set[str]:
        """The nodes that ``gang`` may not use."""
        shut = self._books.closed(gang, self._gone)
        if self.within is not None:
            shut |= self.accounts.keys() - set(self.within)
        return shut

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that there are, in the order the policy fills them."""
        return self._books.in_order(names)

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` as they are counted."""
        return self._books.rounded(requests)

    def ask(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int]:
        """There is nobody to ask. Raises `MatcherError`."""
        raise MatcherError("a trial has no matcher")

    def take(self, pod: Pod, assignment: Assignment, gang: object) -> None:
        """Hold a place; its devices have been chosen before."""
        place = Place(assignment, self.rounded(pod.requests), pod.host_ports)
        self.holdings[pod.uid] = place
        self._use(assignment.node, place.requests, place.ports, -1)

    def undo(self, uids: Iterable[str]) -> None:
        """Give back what these pods were given here."""
        for uid in uids:
            place = self.holdings.get(uid)
            if isinstance(place, Place):
                del self.holdings[uid]
                self._use(place.assignment.node, place.requests, place.ports, 1)


class TrialDevices:
    """The devices of a copy: always those of all members are searched for together."""

    def draft(self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()) -> Reason:
        """Leave it to the search."""
        return _SEARCHED

    def hold(
        self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]
    ) -> tuple[DeviceShare, ...] | None:
        """What the search has chosen."""
        return tuple(device.share(amount) for some in chosen for device, amount in some)
