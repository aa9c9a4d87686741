"""Why a gang has no place, if a pass knows that without planning it.

Ten thousand waiting gangs have only some hundred different demands. If a demand has no place for one gang, it has none
for the gangs behind it. Often a count is enough to tell that it has none.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.planning.demands import Demanded, Demands
from fluence_extender.gangs.planning.reservations import KeptRoom
from fluence_extender.gangs.queue.book import BLOCKED
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.shortfalls import Shortfalls
from fluence_extender.room.room import Room


class KnownReasons:
    """Remembers why demands have no place in the ``room`` of one pass, which begins ``now``.

    Equal demands have to be one object. A reason that says how many members would fit holds only until another gang is
    placed, because fewer may fit then.
    """

    def __init__(self, room: Room, shortfalls: Shortfalls, demands: Demands, now: float) -> None:
        self._room = room
        self._shortfalls = shortfalls
        self._demands = demands
        self._now = now
        self.placements = 0
        """How many gangs this pass has placed."""
        self._nowhere: dict[int, tuple[Reason, int]] = {}
        """By the id of a demand, why it has no place, and the number of placements when that was found."""
        self._behind_kept: dict[tuple[int, Hashable], tuple[Reason, float]] = {}
        """By demand and closed nodes, why it has no place beside reservations, and the shortest duration tried."""
        self._fitted: dict[int, int] = {}
        """The number of placements when a demand was last found to fit on the nodes, but not in the pool."""
        self._left: dict[object, Room] = {}
        """The room less what is kept for others, by what is kept, after ``_left_at`` placements."""
        self._left_at = 0

    def of(
        self,
        gang: Gang,
        demand: Demanded,
        members: Sequence[Member],
        kept_room: KeptRoom,
        in_full: bool = True,
    ) -> Reason | None:
        """Return why members of a gang have no place, None if that isn't known.

        Unless ``in_full``, a demand for which all nodes would have to be counted isn't counted.
        """
        short = kept_room.short
        never = short is not None and short.code is ReasonCode.UNSATISFIABLE
        fitted = self._fitted.get(id(demand)) == self.placements
        # The nodes needn't be judged if the pool's reason isn't about capacity, or if they are known to have places.
        if short is not None and ((short.code not in BLOCKED and not never) or fitted):
            return short
        reason = self._of_others(demand, kept_room)
        if reason is None and short is None:
            reason = self._by_count(gang, demand, members, kept_room, in_full)
        return reason if reason is None else reason_to_tell(reason, short)

    def note(
        self, gang: Gang, demand: Demanded, members: Sequence[Member], reason: Reason, kept_room: KeptRoom
    ) -> None:
        """Note why members that were planned have no place."""
        if reason is kept_room.short:
            # The nodes have places, while the gang waits for something else.
            self._fitted[id(demand)] = self.placements
            return
        self._note(demand, reason, kept_room)
        settled = any(one.assignment is not None for one in gang.members.values())
        if reason.code in (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE) and not settled:
            # A count decides the next time.
            demands = self._demands.of(gang, members, self._now)
            self._shortfalls.note(demand, demands, self._open_to(gang), reason)

    def _note(self, demand: Demanded, reason: Reason, kept_room: KeptRoom) -> None:
        if reason.code is not ReasonCode.BEHIND_RESERVATION:
            self._nowhere[id(demand)] = reason, self.placements
            return
        before = self._behind_kept.get((id(demand), kept_room.closing))
        if before is None or kept_room.duration < before[1]:
            self._behind_kept[id(demand), kept_room.closing] = reason, kept_room.duration

    def _of_others(self, demand: Demanded, kept_room: KeptRoom) -> Reason | None:
        """Return why gangs with that demand had no place, None if that isn't known."""
        nowhere = self._nowhere.get(id(demand))
        if nowhere is not None and (not nowhere[0].fitting or nowhere[1] == self.placements):
            return nowhere[0]
        behind = self._behind_kept.get((id(demand), kept_room.closing))
        return behind[0] if behind is not None and kept_room.duration >= behind[1] else None

    def _by_count(
        self, gang: Gang, demand: Demanded, members: Sequence[Member], kept_room: KeptRoom, in_full: bool
    ) -> Reason | None:
        """Return why a count shows that there is no place, None if it doesn't show that."""
        room = self._open_to(gang)
        reason = self._shortfalls.reason(demand, room, self.placements, in_full)
        if reason is None:
            reason = self._behind(gang, demand, members, kept_room, in_full)
        if reason is not None:
            self._note(demand, reason, kept_room)
        return reason

    def _behind(
        self, gang: Gang, demand: Demanded, members: Sequence[Member], kept_room: KeptRoom, in_full: bool
    ) -> Reason | None:
        """Return why members wait that, by a count, would fit if nothing were kept for others; else None."""
        if kept_room.free or any(one.assignment is not None for one in gang.members.values()):
            return None
        room, demands = self._open_to(gang), self._demands.of(gang, members, self._now)
        if not self._shortfalls.fits(demand, demands, room, self.placements, in_full=in_full):
            return None
        kept = id(kept_room.reserved), kept_room.closing
        if self._left_at != self.placements:
            self._left_at = self.placements
            self._left.clear()
        left = self._left.get(kept)
        if left is None:
            left = self._left[kept] = kept_room.left_of(self._room)
        left = left.open_to(gang.key, room.passing)
        fits = self._shortfalls.fits(demand, demands, left, self.placements, kept, in_full)
        return kept_room.reason if fits is False else None

    def _open_to(self, gang: Gang) -> Room:
        return self._room.open_to(gang.key, self._demands.overtaken_by(gang))


def reason_to_tell(reason: Reason, short: Reason | None) -> Reason:
    """Return the reason that the user is told, given why nodes have no place and what the gang lacks in the pool."""
    if reason.code is ReasonCode.UNSATISFIABLE or short is None:
        return reason
    # If its queue never lets the gang start, it isn't told that nodes are busy.
    return short if short.code is ReasonCode.UNSATISFIABLE else reason
