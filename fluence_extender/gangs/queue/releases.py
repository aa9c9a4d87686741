"""Which gangs that a limit or quota of their queue keeps waiting are looked at again, because there may be room.

Such a gang isn't in the line that is tried. It waits in the line of its limit, or in that of its queue's quota. When
the limit lets more gangs run, the first of the line are looked at. When a queue uses less, or quotas have changed, the
lines are walked along whose queues may gain by that: each gang is judged by what it lacked, and those that may have
room are looked at, in order. The others wait until these have been tried, because these mostly use up the room.

Invariants: a walk ends only once every gang of the line has been judged with no less room than there is then. So no
gang waits for a quota that has room for it. A step judges a bounded number of gangs, the first of each line among them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.reclaims import Reclaims
from fluence_extender.gangs.queue.turns import RANK, InLine
from fluence_extender.model.gang import GangKey
from fluence_extender.queueing.order import Rank
from fluence_extender.queueing.quota import LimitLine, QuotaLine

RELEASED_AT_ONCE = 8
"""How many gangs of a group are tried at a time once its limit lets more of them run."""

MOST_RELEASED = 64
"""How many gangs of a queue are tried at a time because its quota may have room for them."""

FIRST = 64
"""So many gangs of a line are judged in each step of a walk, whatever part of the line it has reached."""

JUDGED_AT_ONCE = 512
"""How many gangs a step judges by their quotas; that takes some two milliseconds."""


MOST_WAITED = 16
"""So many steps a line waits at most until the gangs that were released last have been tried: one may back off."""


@dataclass(slots=True)
class Walk:
    """A walk along a line: the gangs that it ``released`` last, and for how many steps it has ``waited`` for them.

    Only a quota's line is judged gang by gang. The walk has ``reached`` a rank there, and ``left`` gangs are to be
    judged, None for all.
    """

    released: Sequence[Gang] = ()
    waited: int = 0
    reached: Rank | None = None
    left: int | None = None


class QueueReleases:
    """Has gangs of ``registry`` looked at that the limits and quotas of their queues may let start."""

    def __init__(
        self, registry: Registry, admission: QueueAdmission, reclaims: Reclaims, untried: Set[GangKey]
    ) -> None:
        self._registry = registry
        self._untried = untried
        self._admission = admission
        self._quotas = admission.quotas
        self._reclaims = reclaims
        self._walks: dict[LimitLine, Walk] = {}

    @property
    def unfinished(self) -> bool:
        """Whether more gangs may have to be looked at."""
        return bool(self._walks)

    def release(self, limited: Mapping[LimitLine, Sequence[InLine]]) -> bool:
        """Have some gangs of the lines ``limited`` looked at that may start now; return whether there are any."""
        for group in self._admission.take_ended() & limited.keys():
            self._walks.setdefault(group, Walk())
        loosened = self._quotas.take_loosened()
        for line in limited if loosened else ():
            if isinstance(line, QuotaLine) and self._quotas.concerns(loosened, line.queue):
                self._walks.setdefault(line, Walk()).left = None
        judged, released = 0, False
        for line in list(self._walks):
            if judged >= JUDGED_AT_ONCE:
                break
            walk = self._walks[line]
            if line not in limited or (not isinstance(line, QuotaLine) and self._admission.is_full(line)):
                del self._walks[line]
                continue
            if any(map(self._is_untried, walk.released)) and walk.waited < MOST_WAITED:
                walk.waited += 1
                continue
            walk.released, walk.waited = (), 0
            if not isinstance(line, QuotaLine):
                walk.released = [place.gang for place in limited[line][:RELEASED_AT_ONCE]]
            else:
                # The next step begins with the lines that have waited the longest.
                self._walks[line] = self._walks.pop(line)
                judged += self._go_on(limited[line], walk, line.queue, JUDGED_AT_ONCE - judged)
                if not walk.released and walk.left == 0:
                    del self._walks[line]
            self._registry.look_at(one.key for one in walk.released)
            released = released or bool(walk.released)
        return released

    def _is_untried(self, gang: Gang) -> bool:
        return gang.key in self._registry.dirty or (gang.obstacle is None and gang.key in self._untried)

    def _go_on(self, line: Sequence[InLine], walk: Walk, queue: str, most: int) -> int:
        """Release the gangs that may have room, of the next ``most`` ones; return how many were judged."""
        if walk.left is None:
            walk.left = len(line)
        found: list[Gang] = []
        judged = 0
        with self._quotas.pretending() as take:
            for place, first in self._next(line, walk, most):
                judged += 1
                if not first:
                    walk.reached = place.rank
                    walk.left -= 1
                gang, shortage = place.gang, place.gang.shortage
                if shortage is None or gang.key in self._registry.dirty:
                    continue
                excess = self._quotas.use.excess(queue, shortage.more)
                if excess == shortage.excess and not self._reclaims.may_reclaim(gang.key, shortage.asks):
                    continue
                found.append(gang)
                if excess is None:
                    take(queue, shortage.more, 1)
                if len(found) >= MOST_RELEASED:
                    break
        walk.released = found
        if found:
            # What they don't use is there for others.
            walk.left = None
        return judged

    def _next(self, line: Sequence[InLine], walk: Walk, most: int) -> Iterator[tuple[InLine, bool]]:
        """Yield the first gangs of a line, each with True, and then those that come next in the walk."""
        yield from ((place, True) for place in line[: min(FIRST, most)])
        at = 0 if walk.reached is None else bisect_right(line, walk.reached, key=RANK)
        for number in range(min(most - FIRST, walk.left or 0, len(line))):
            yield line[(at + number) % len(line)], False
