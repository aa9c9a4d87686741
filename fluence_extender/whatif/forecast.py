"""When there will be capacity: running pods end at their declared ends, and what they hold is free from then on.

Free capacity only grows with time, so bisection over the ends finds the first moment at which a gang fits. The places
that are promised to an earlier gang count as taken from now on until that gang ends. So an estimate may be too late. It
is too early if a pod runs beyond its declared end, or if a more important gang comes later.
"""

from __future__ import annotations

import bisect
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.gangs.queue.ends import LATEST
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.errors import GangRefused
from fluence_extender.room.pod_use import PodUse
from fluence_extender.whatif.snapshot import LedgerCopy


class OutOfTime(Exception):
    """The computation has used up its time."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of ``use`` at a time in seconds since the epoch."""

    at: float
    use: PodUse


class Forecast:
    """Changes a copy of the ledger to its state after the first pods have ended.

    ``tick`` is called before each plan, and may raise `OutOfTime`.
    """

    def __init__(
        self,
        ledger: LedgerCopy,
        ends: Mapping[str, float],
        uses: Mapping[str, PodUse],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._tick = tick
        self._copy = ledger
        self._planner = ledger.planner
        self._ends = sorted(
            (End(ends[uid], use) for uid, use in uses.items() if uid in ends),
            key=lambda end: (end.at, end.use.uid),
        )
        self._passed = 0

    def earliest(
        self, demands: Sequence[Demand], gang: object, now: float, settled: Sequence[SettledMember] = ()
    ) -> float | None:
        """Return the first moment from ``now`` on at which the gang fits; None if the known ends aren't enough."""
        if self._fits(0, demands, gang, settled):
            return now
        steps = [number for number in range(1, len(self._ends) + 1) if self._last_of_moment(number)]
        if not steps or not self._fits(steps[-1], demands, gang, settled):
            return None
        last = len(steps) - 1
        first = bisect_left(
            steps, True, hi=last, key=lambda number: self._fits(number, demands, gang, settled)
        )
        return max(self._ends[steps[first] - 1].at, now)

    def promise(
        self,
        demands: Sequence[Demand],
        gang: object,
        at: float,
        until: float | None,
        settled: Sequence[SettledMember] = (),
    ) -> None:
        """Let the gang hold the places that it will get at the time ``at``, from now on ``until`` it ends."""
        self._pass(bisect.bisect_right(self._ends, at, key=lambda end: end.at))
        try:
            placed = self._planner.plan(demands, gang, settled)
        except GangRefused:
            return
        if until is None or until > LATEST:
            return
        held = self._copy.allocations
        for one in placed:
            end = End(until, held[one.uid])
            place = bisect.bisect_right(self._ends, end.at, key=lambda other: other.at)
            self._pass(min(self._passed, place))
            self._ends.insert(place, end)

    def rewind(self) -> None:
        """Return the copy to the present state."""
        self._pass(0)

    def _last_of_moment(self, number: int) -> bool:
        """Return whether the first ``number`` ends include all that are at the same moment as the last of them."""
        return number == len(self._ends) or self._ends[number].at > self._ends[number - 1].at

    def _fits(
        self, passed: int, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
    ) -> bool:
        self._tick()
        self._pass(passed)
        try:
            self._planner.plan(demands, gang, settled)
        except GangRefused:
            return False
        self._copy.undo([demand.pod.uid for demand in demands])
        return True

    def _pass(self, count: int) -> None:
        """Change the copy to its state after the first ``count`` ends."""
        while self._passed < count:
            self._copy.remove(self._ends[self._passed].use)
            self._passed += 1
        while self._passed > count:
            self._passed -= 1
            self._copy.restore(self._ends[self._passed].use)
