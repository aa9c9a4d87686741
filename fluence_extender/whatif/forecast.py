"""When there is room: running pods end when they say they do, and what they held is free from then on.

Free room only grows with time, so the first moment at which a gang fits is found by bisection over the ends. Room that
was promised to an earlier gang counts as taken from now on, until that gang has ended: an estimate may be too late by
that, and is too early where somebody runs on beyond what he said or a gang that comes later is more important.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.ledger.pod_use import PodUse
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job
from fluence_extender.placement.plan import Demand, GangRefused, Planner, SettledMember
from fluence_extender.placement.planning_copy import PlanningCopy


@dataclass(frozen=True, slots=True)
class End:
    """From ``at`` (seconds since the epoch) on nobody has ``use`` any more."""

    at: float
    use: PodUse


def end_of(pod: Pod, job: Job | None) -> float | None:
    """When a running pod ends at the latest, seconds since the epoch; None where that isn't said."""
    ends = [job.ends] if job is not None and job.ends is not None else []
    if pod.duration is not None and pod.started:
        ends.append(pod.started + pod.duration)
    return min(ends, default=None)


class Forecast:
    """A copy of the ledger that can be looked at as it will be once certain pods have ended.

    ``tick`` is called before each plan, and may raise to put an end to it.
    """

    def __init__(
        self,
        copy: PlanningCopy,
        planner: Planner,
        ends: Mapping[str, float],
        uses: Mapping[str, PodUse],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._tick = tick
        self._copy = copy
        self._planner = planner
        self._ends = sorted(
            (End(ends[uid], use) for uid, use in uses.items() if uid in ends),
            key=lambda end: (end.at, end.use.uid),
        )
        self._passed = 0

    def earliest(
        self, demands: Sequence[Demand], gang: object, now: float, settled: Sequence[SettledMember] = ()
    ) -> float | None:
        """The first moment at which the gang fits, ``now`` at the earliest; None where the known ends don't suffice."""
        if self._fits(0, demands, gang, settled):
            return now
        steps = [number for number in range(1, len(self._ends) + 1) if self._last_at(number)]
        if not steps or not self._fits(steps[-1], demands, gang, settled):
            return None
        low, high = 0, len(steps) - 1
        while low < high:
            middle = (low + high) // 2
            if self._fits(steps[middle], demands, gang, settled):
                high = middle
            else:
                low = middle + 1
        return max(self._ends[steps[low] - 1].at, now)

    def promise(
        self,
        demands: Sequence[Demand],
        gang: object,
        at: float,
        until: float | None,
        settled: Sequence[SettledMember] = (),
    ) -> None:
        """Let the gang hold from now on what it gets ``at`` that time, and ``until`` it has ended."""
        self._go(bisect.bisect_right(self._ends, at, key=lambda end: end.at))
        try:
            placed = self._planner.plan(demands, gang, settled)
        except GangRefused:
            return
        if until is None:
            return
        held = self._copy.allocations
        for one in placed:
            end = End(until, held[one.uid])
            place = bisect.bisect_right(self._ends, end.at, key=lambda other: other.at)
            self._go(min(self._passed, place))
            self._ends.insert(place, end)

    def rewind(self) -> None:
        """Show the ledger as it is now."""
        self._go(0)

    def _last_at(self, number: int) -> bool:
        """Whether the ends before ``number`` are all up to their moment: the next is later."""
        return number == len(self._ends) or self._ends[number].at > self._ends[number - 1].at

    def _fits(
        self, passed: int, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
    ) -> bool:
        self._tick()
        self._go(passed)
        try:
            self._planner.plan(demands, gang, settled)
        except GangRefused:
            return False
        self._copy.undo([demand.pod.uid for demand in demands])
        return True

    def _go(self, passed: int) -> None:
        """Show the ledger as it is after the first ``passed`` ends."""
        while self._passed < passed:
            self._copy.end(self._ends[self._passed].use)
            self._passed += 1
        while self._passed > passed:
            self._passed -= 1
            self._copy.bring_back(self._ends[self._passed].use)
