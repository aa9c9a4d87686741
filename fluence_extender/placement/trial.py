"""Planning as if some pods were gone: on a copy of the accounts, so that the books never notice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fluence_extender.graph.catalogue import Device
from fluence_extender.ledger.books import Books
from fluence_extender.ledger.use import Use, use_of, uses_of_devices
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner, Settled, Wish
from fluence_extender.placement.planning_copy import PlanningCopy

_SEARCHED = Reason(Why.BUSY, "busy: all devices are searched for together")


class Trial:
    """A copy of ``books`` for one gang's questions, good while the books stay as they are."""

    def __init__(self, books: Books, eligibility: EligibilityIndex) -> None:
        self._books = books
        self._copy = PlanningCopy(
            (books.free.now().copy(), books.whole.now().copy()),
            books.mirror,
            books,
            uses_of_devices(books),
            _SearchedDevices(),
        )
        self._planner = Planner(self._copy, eligibility)
        self._gone: dict[str, Use | None] = {}

    def place(
        self,
        wishes: Sequence[Wish],
        gang: object,
        settled: Sequence[Settled],
        without: frozenset[str],
        within: Collection[str] | None = None,
    ) -> tuple[Assignment, ...] | None:
        """Where the pods would go once those of the uids ``without`` have gone, on nodes of ``within``; or None."""
        self._remove(without)
        self._copy.within = within
        found = self._planner.find(wishes, gang, settled)
        if found is not None:
            self._copy.undo([wish.pod.uid for wish in wishes])
        return found

    def _remove(self, uids: frozenset[str]) -> None:
        """Let exactly the pods of these uids be gone."""
        for uid in self._gone.keys() - uids:
            use = self._gone.pop(uid)
            if use is not None:
                self._copy.bring_back(use)
        for uid in uids - self._gone.keys():
            use = self._gone[uid] = use_of(self._books, uid)
            if use is not None:
                self._copy.end(use)


class _SearchedDevices:
    """The devices of a trial: those of all members are always searched for together."""

    def draft(self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()) -> Reason:
        """Leave it to the search."""
        return _SEARCHED

    def hold(self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]) -> tuple[DeviceShare, ...]:
        """What the search has chosen."""
        return tuple(device.share(amount) for some in chosen for device, amount in some)

    def give_up(self, uid: str) -> None:
        """There are no drafts."""

    def end(self, shares: Iterable[DeviceShare], back: bool) -> None:
        """The search looks at who holds what."""
