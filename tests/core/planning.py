"""Plans on a ledger: in its room as it is, and with the places taken, as the service makes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.placement.chooser import NodeChooser
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.topology import Topology
from fluence_extender.room.ledger import Ledger


def planner_for(ledger: Ledger, index: EligibilityIndex, chooser: NodeChooser | None = None) -> Planner:
    """Make a planner with the topology levels of the ledger."""
    return Planner(index, Topology(index, ledger.graph.levels), chooser)


class LedgerPlanner:
    """Plans gangs on ``ledger``, which then holds their places."""

    def __init__(self, ledger: Ledger, index: EligibilityIndex, chooser: NodeChooser | None = None) -> None:
        self.ledger = ledger
        self.planner = planner_for(ledger, index, chooser)

    def plan(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...]:
        """Place a gang, or raise `GangRefused` and take nothing."""
        places = self.planner.plan(self.ledger.room().open_to(gang), demands, settled)
        self._take(demands, places, gang)
        return places

    def find(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...] | None:
        """Place a gang, or return None and take nothing."""
        places = self.planner.find(self.ledger.room().open_to(gang), demands, settled)
        if places is not None:
            self._take(demands, places, gang)
        return places

    def never(self, pods: Sequence[Pod], size: int) -> Reason | None:
        """Return why a gang could never be placed."""
        return self.planner.never(self.ledger.room(), pods, size)

    def release(self, uids: Iterable[str]) -> None:
        """Give back what pods hold."""
        for uid in uids:
            self.ledger.release(uid)

    def _take(self, demands: Sequence[Demand], places: Sequence[Assignment], gang: object) -> None:
        pods = (demand.pod for demand in demands)
        self.ledger.take_all([*zip(pods, places, strict=True)], gang)
