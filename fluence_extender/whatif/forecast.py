"""When there will be capacity: running pods end at their declared ends, and what they hold is free from then on.

Free capacity only grows with time, so bisection over the ends finds the first moment at which a gang fits. The places
that are promised to an earlier gang count as taken from now on until that gang ends. So an estimate may be too late. It
is too early if a pod runs beyond its declared end, or if a more important gang comes later.
"""

from __future__ import annotations

import bisect
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.gangs.queue.ends import LATEST
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.plan import Planner
from fluence_extender.room.room import Room


class OutOfTime(Exception):
    """The computation has used up its time."""


@dataclass(frozen=True, slots=True, order=True)
class End:
    """The end of a pod at a time in seconds since the epoch."""

    at: float
    uid: str


def ends_in_order(room: Room, ends: Mapping[str, float]) -> list[End]:
    """Return the ends of the pods that hold something in the room."""
    return sorted(End(at, uid) for uid, at in ends.items() if room.holding(uid) is not None)


class Forecast:
    """Plans gangs in ``room`` as it is once the first pods have ended.

    ``tick`` is called before each plan, and may raise `OutOfTime`.
    """

    def __init__(
        self, planner: Planner, room: Room, ends: Iterable[End], tick: Callable[[], None] = lambda: None
    ) -> None:
        self._tick = tick
        self._planner = planner
        self._room = room
        self._ends = list(ends)

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
        room = self._at(bisect.bisect_right(self._ends, at, key=lambda end: end.at)).open_to(gang)
        places = self._planner.find(room, demands, settled)
        if places is None:
            return
        self._room = room.take(zip((demand.pod for demand in demands), places, strict=True))
        if until is not None and until <= LATEST:
            for place in places:
                bisect.insort(self._ends, End(until, place.uid), key=lambda end: end.at)

    def _last_of_moment(self, number: int) -> bool:
        """Return whether the first ``number`` ends include all that are at the same moment as the last of them."""
        return number == len(self._ends) or self._ends[number].at > self._ends[number - 1].at

    def _fits(
        self, passed: int, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
    ) -> bool:
        self._tick()
        return self._planner.find(self._at(passed).open_to(gang), demands, settled) is not None

    def _at(self, passed: int) -> Room:
        """Return the room after the first ``passed`` ends."""
        self._room = self._room.without({end.uid for end in self._ends[:passed]})
        return self._room
