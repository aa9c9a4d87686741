"""Why a gang has no place, if a pass knows that without planning it.

Ten thousand waiting gangs have only some hundred different demands. If a demand has no place for one gang, it has none
for the gangs behind it. Often a count is enough to tell that it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.demands import Demanded
from fluence_extender.gangs.planning.reservations import KeptRoom
from fluence_extender.gangs.queue.book import BLOCKED
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import Signature, signature
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.search import Shape
from fluence_extender.placement.shortage import Part
from fluence_extender.placement.shortfalls import Counts
from fluence_extender.room.room import Room

NO_ROOM = (*BLOCKED, ReasonCode.UNSATISFIABLE)
"""The reasons of gangs that have passed all other checks, and lack room."""


@dataclass(slots=True)
class _Known:
    """What a pass has found out about a demand.

    ``tried`` says that a gang with it has passed all checks that come before the search for room. ``nowhere`` is why it
    has no place, as found after ``nowhere_at`` placements. ``behind`` says by the operators' Reservations that close
    nodes why it has none beside what is kept, and the shortest duration for which that was found. After ``fitted_at``
    placements it was found to fit on the nodes, but not in the pool.
    """

    tried: bool = False
    nowhere: Reason | None = None
    nowhere_at: int = -1
    behind: dict[tuple[str, ...], tuple[Reason, float]] = field(default_factory=dict)
    fitted_at: int = -1


class KnownReasons:
    """Remembers why demands have no place in the ``room`` of one pass.

    A reason that says how many members would fit holds only until another gang is placed, because fewer may fit then.
    ``overtaken_by`` returns the gangs whose held nodes are open to a gang.
    """

    def __init__(
        self, room: Room, planner: Planner, overtaken_by: Callable[[Gang], frozenset[object]]
    ) -> None:
        self._room = room
        self._planner = planner
        self._overtaken_by = overtaken_by
        self.placements = 0
        """How many gangs this pass has placed."""
        self.sizes: set[Resources] = set()
        """The sizes of the members that this pass has counted."""
        self._known: dict[Demanded, _Known] = {}
        self._nodes: dict[Signature, tuple[str, ...]] = {}
        """The nodes that pods may use, by their signature."""
        self._counts = Counts(room.free)
        self._beside: dict[object, tuple[Room, Counts]] = {}
        """By what is kept for others: the room of `_counts` without that, and the counts in it."""

    def of(self, gang: Gang, demand: Demanded, kept_room: KeptRoom, in_full: bool = True) -> Reason | None:
        """Return why members of a gang have no place, None if that isn't known.

        Unless ``in_full``, members of a size that this pass hasn't counted aren't counted.
        """
        short, known = kept_room.short, self._of_demand(demand)
        never = short is not None and short.code is ReasonCode.UNSATISFIABLE
        fitted = known.fitted_at == self.placements
        # The nodes needn't be judged if the pool's reason isn't about capacity, or if they are known to have places.
        if short is not None and ((short.code not in BLOCKED and not never) or fitted):
            return short
        reason = self.of_others(demand, kept_room.duration, kept_room.closing)
        if reason is None and short is None:
            reason = self._by_count(gang, demand, kept_room, in_full)
        return reason if reason is None else reason_to_tell(reason, short)

    def of_others(self, demand: Demanded, duration: float, closing: tuple[str, ...] = ()) -> Reason | None:
        """Return why gangs with that demand had no place, None if that isn't known."""
        known = self._known.get(demand)
        if known is None:
            return None
        nowhere = known.nowhere
        if nowhere is not None and (known.nowhere_at == self.placements or not nowhere.fitting):
            return nowhere
        behind = known.behind.get(closing)
        return behind[0] if behind is not None and duration >= behind[1] else None

    def was_tried(self, demand: Demanded) -> bool:
        """Return whether a gang with that demand was tried in this pass, so that only a lack of room stops others."""
        return self._of_demand(demand).tried

    def note_tried(self, demand: Demanded) -> None:
        """Note that a gang with that demand passes all checks that come before the search for room."""
        self._of_demand(demand).tried = True

    def note(self, demand: Demanded, reason: Reason, kept_room: KeptRoom) -> None:
        """Note why members that were planned have no place."""
        known = self._of_demand(demand)
        if reason is kept_room.short:
            # The nodes have places, while the gang waits for something else.
            known.fitted_at = self.placements
        else:
            self._note(known, reason, kept_room)

    def _of_demand(self, demand: Demanded) -> _Known:
        known = self._known.get(demand)
        if known is None:
            known = self._known[demand] = _Known()
        return known

    def _note(self, known: _Known, reason: Reason, kept_room: KeptRoom) -> None:
        if reason.code is not ReasonCode.BEHIND_RESERVATION:
            known.nowhere, known.nowhere_at = reason, self.placements
            return
        before = known.behind.get(kept_room.closing)
        if before is None or kept_room.duration < before[1]:
            known.behind[kept_room.closing] = reason, kept_room.duration

    # Counts.

    def _by_count(self, gang: Gang, demand: Demanded, kept_room: KeptRoom, in_full: bool) -> Reason | None:
        """Return why a count shows that there is no place, None if it doesn't show that."""
        pods = demand.group
        if not pods or not (in_full or pods[0].requests in self.sizes):
            return None
        room = self._room.open_to(gang.key, self._overtaken_by(gang))
        if room.keeps_apart or any(one.assignment is not None for one in gang.members.values()):
            return None
        kind = signature(pods[0])
        if kind not in self._nodes:
            self._nodes[kind] = self._room.in_order(self._planner.eligibility.eligible(pods[0]))
        self.sizes.add(pods[0].requests)
        shape = Shape(pods[0].requests, len(pods), self._nodes[kind])
        reason = self._lacking(demand, shape, room, kept_room)
        if reason is None:
            return None
        self._note(self._of_demand(demand), reason, kept_room)
        return reason

    def _lacking(self, demand: Demanded, shape: Shape, room: Room, kept_room: KeptRoom) -> Reason | None:
        """Return why not all members of a shape have room by a count, None if they have."""
        if self._counts.table is not self._room.free:
            self._counts, self._beside = Counts(self._room.free), {}
        part = self._counts.part(shape, room.closed)
        if part.members < shape.count:
            state = part, room.whole.revision, self._planner.eligibility.journal.now
            if demand.told[0] != state:
                # Equal reasons are one object, which makes it fast to compare them with those of all gangs alike.
                demand.told = state, self._planner.reasons.lacking(room, (shape, demand.group), part)
            return demand.told[1]
        if kept_room.free or self._part_beside(shape, room, kept_room).members >= shape.count:
            return None
        return kept_room.reason

    def _part_beside(self, shape: Shape, room: Room, kept_room: KeptRoom) -> Part:
        """Return how many members of a shape have room beside what is kept for others."""
        kept = id(kept_room.reserved), kept_room.closing
        if kept not in self._beside:
            left = kept_room.left_of(self._room)
            self._beside[kept] = left, Counts(left.free)
        left, counts = self._beside[kept]
        return counts.part(shape, left.open_to(room.gang, room.passing).closed)


def reason_to_tell(reason: Reason, short: Reason | None) -> Reason:
    """Return the reason that the user is told, given why nodes have no place and what the gang lacks in the pool."""
    if reason.code is ReasonCode.UNSATISFIABLE or short is None:
        return reason
    # If its queue never lets the gang start, it isn't told that nodes are busy.
    return short if short.code is ReasonCode.UNSATISFIABLE else reason
