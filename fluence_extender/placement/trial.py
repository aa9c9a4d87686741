"""Plans as if some pods were gone. They are made on a copy of the capacity, so the ledger doesn't change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from fluence_extender.model.assignment import Assignment
from fluence_extender.placement.demand import Demand, SettledMember, grouped
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.ledger_port import LedgerView
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.placement.topology import Topology
from fluence_extender.room.pod_use import PodUse, RemovablePods


class Trial:
    """A copy of ``ledger``, which answers questions about one gang.

    ``topology`` follows the same nodes as ``eligibility``. ``removable`` are pods that questions may remove; other pods
    are read from the ledger when a question names them. ``devices`` says whether the gang asks for devices.
    """

    def __init__(
        self,
        ledger: LedgerView,
        eligibility: EligibilityIndex,
        topology: Topology | None = None,
        devices: bool = True,
    ) -> None:
        self._ledger = ledger
        self._copy = PlanningCopy(
            ledger,
            (ledger.free.now().copy(), ledger.whole.now()),
            {use.uid: use for use in ledger.device_holders()} if devices else {},
        )
        self._planner = Planner(self._copy, eligibility, topology)
        self.removable = RemovablePods(self._copy.free.now())
        self._removed: frozenset[str] = frozenset()
        self._read: dict[str, PodUse | None] = {}
        self._alike: tuple[Sequence[Demand], bool] | None = None

    def place(
        self,
        demands: Sequence[Demand],
        gang: object,
        settled: Sequence[SettledMember],
        without: frozenset[str],
        within: Collection[str] | None = None,
    ) -> tuple[Assignment, ...] | None:
        """Return the pods' places on nodes of ``within`` if the pods ``without`` were gone, None if there are none."""
        self._remove(without)
        self._copy.within = within
        found = self._planner.find(demands, gang, settled)
        if found is not None:
            self._copy.undo([demand.pod.uid for demand in demands])
        return found

    def fits(
        self,
        demands: Sequence[Demand],
        gang: object,
        settled: Sequence[SettledMember],
        without: frozenset[str],
    ) -> bool:
        """Return whether `place` would find places on any nodes.

        Pass the same ``demands`` object each time, because results for it are cached.
        """
        if not self._countable(demands):
            return self.place(demands, gang, settled, without) is not None
        self._remove(without)
        self._copy.within = None
        return self._planner.has_capacity(demands[0], len(demands), gang)

    def _countable(self, demands: Sequence[Demand]) -> bool:
        """Return whether the demands are equal and have no constraints. Then it is enough to count how many fit."""
        if self._alike is None or self._alike[0] is not demands:
            free = not any(one.pod.devices or one.pod.ruled or one.constraints for one in demands)
            self._alike = demands, free and len(grouped(demands)) == 1
        return self._alike[1]

    def put(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
    ) -> tuple[Assignment, ...] | None:
        """Place the pods for this question and the following ones; return their places or None."""
        return self._planner.find(demands, gang, settled)

    def _remove(self, uids: frozenset[str]) -> None:
        """Make exactly these pods the removed ones."""
        back, gone = self.removable.split(self._removed - uids), self.removable.split(uids - self._removed)
        self._copy.restore_all(back[0], self.removable)
        for use in self._uses(back[1]):
            self._copy.restore(use)
        self._copy.remove_all(gone[0], self.removable)
        for use in self._uses(gone[1]):
            self._copy.remove(use)
        self._removed = uids

    def _uses(self, uids: Collection[str]) -> Iterator[PodUse]:
        for uid in uids:
            if uid not in self._read:
                self._read[uid] = self.removable.apart.get(uid) or self._ledger.use_of(uid)
            use = self._read[uid]
            if use is not None:
                yield use
