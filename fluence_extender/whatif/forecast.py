"""When gangs will have room: on the queue's own timeline, on which pods leave at their declared ends.

Each promise to an earlier gang counts from its start until that gang ends. An estimate is too early if a pod runs
beyond its declared end, or if a more important gang comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fluence_extender.gangs.planning.cluster_timeline import DeclaredEnds, Request, cluster_timeline
from fluence_extender.gangs.planning.known_ends import LeavingPods
from fluence_extender.gangs.queue.ends import LATEST
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.plan import Planner
from fluence_extender.queueing.earliest import earliest
from fluence_extender.queueing.entry import NEVER, Entry
from fluence_extender.queueing.reservation import Reservation
from fluence_extender.room.room import Room


class OutOfTime(Exception):
    """The computation has used up its time."""


class Forecast:
    """Finds out when gangs start in ``room``, on which pods end at the times ``ends``.

    ``tick`` is called before each search, and may raise `OutOfTime`.
    """

    def __init__(
        self,
        planner: Planner,
        room: Room,
        ends: Mapping[str, float],
        now: float,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._tick = tick
        leaving = LeavingPods.of(ends, room.facts.holdings)
        self._cluster = cluster_timeline(room, DeclaredEnds(leaving, room.whole), planner, now)
        self._number = 0

    def start(
        self,
        demands: Sequence[Demand],
        gang: object,
        settled: Sequence[SettledMember] = (),
        duration: float = NEVER,
        not_before: float = 0.0,
    ) -> float | None:
        """Return when a gang starts that runs for so many seconds, and let it hold its places from then on.

        Return None if the known ends aren't enough.
        """
        self._tick()
        cluster, timeline, key = self._cluster, self._cluster.timeline, str(self._number)
        self._number += 1
        cluster.requests[key] = Request(gang, tuple(demands), tuple(settled))
        entry = Entry(key, cluster.slots(demands), (0.0, self._number), duration, where=key)
        start, places = timeline.now, None
        if not_before <= start:
            everywhere = np.arange(len(timeline.room))
            places = cluster.place(entry, timeline.available(everywhere, start, duration), start)
        if places is None:
            found = earliest(timeline, entry, cluster, not_before=not_before)
            if found is None:
                return None
            start, places = found
        end = start + duration if start + duration <= LATEST else NEVER
        timeline.reserve(Reservation(key, places, start, end))
        return start
