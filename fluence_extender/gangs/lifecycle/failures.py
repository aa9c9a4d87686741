"""Demands that have no place now: what has failed for one gang fails for all that ask the same.

Of ten thousand gangs that wait, most ask for one of a few things. So a pass plans each of these once, and the others
are told why that has failed. Invariant: a failure counts until the ledger's version grows, because until then nothing
has room that had none before. Where its reason says that some would fit, it counts until gangs have been placed, since
fewer may fit then. After that it counts on if the demand is known to lack room still (`placement.lacks`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from fluence_extender.ledger.capacity import KeptRoom
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.reason import Reason, ReasonCode, behind_reservation
from fluence_extender.placement.lacks import Lack, Lacks

BEHIND = behind_reservation()

FEWEST_KEPT = 1000
"""So many demands are kept before those that aren't asked any more are forgotten."""


@dataclass(slots=True, eq=False)
class Asked:
    """What equal gangs ask, and what came of it.

    ``preempting`` is the priority with which they could preempt others. ``lacks`` is why they had no place at the
    version ``lacks_at``, after as many placements as ``lacks_after`` says, None for any number of them. ``kept`` is why
    they had none beside the reservations of ``kept_at``, with so many ``levels`` of them or more. ``lack`` tells
    whether that is so still, None where it doesn't, and ``fits_at`` is the state in which it didn't.
    """

    preempting: float
    lack: Lack | None = None
    lacks: Reason | None = None
    lacks_at: int = -1
    lacks_after: int | None = None
    fits_at: object = None
    kept: Reason | None = None
    kept_at: object = None
    levels: int = 0


class Failures:
    """What has no place in ``ledger``."""

    def __init__(self, ledger: Ledger, lacks: Lacks) -> None:
        self._ledger = ledger
        self._lacks = lacks
        self._placed = 0
        self._asked: dict[Hashable, Asked] = {}

    def asked(self, key: Hashable, preempting: float) -> Asked:
        """Return what stands for all that ask the same as ``key``."""
        found = self._asked.get((key, preempting))
        if found is None:
            if len(self._asked) >= FEWEST_KEPT:
                at = self._ledger.version
                self._asked = {one: it for one, it in self._asked.items() if it.lacks_at == at}
                if len(self._asked) >= FEWEST_KEPT:
                    self._asked.clear()
            found = self._asked[key, preempting] = Asked(preempting)
        return found

    @property
    def _now(self) -> tuple[int, int]:
        return self._ledger.version, self._placed

    def note(self, asked: Asked, reason: Reason, token: object = None, levels: int = 0) -> None:
        """Record why there is no place beside the reservations of ``token``, as many of them as ``levels`` says."""
        if reason.code is ReasonCode.BEHIND_RESERVATION:
            asked.kept, asked.kept_at, asked.levels = reason, (self._now, token), levels
        else:
            asked.lacks, asked.lacks_at = reason, self._ledger.version
            asked.lacks_after = None if reason.fitting == 0 else self._placed

    def why(self, asked: Asked) -> Reason | None:
        """Return why there is no place with or without reservations, None where that isn't known."""
        if asked.lacks_at == self._ledger.version and asked.lacks_after in (None, self._placed):
            return asked.lacks
        state = self._now, self._ledger.journal.now
        if asked.lack is None or asked.fits_at == state:
            return None
        reason = self._lacks.why(asked.lack)
        if reason is None:
            asked.fits_at = state
        else:
            self.note(asked, reason)
        return reason

    def why_beside(self, asked: Asked, token: object, levels: int, kept: KeptRoom | None) -> Reason | None:
        """Return why there is no place beside these reservations, for which ``kept`` stays free, None as for `why`."""
        if asked.kept_at == (self._now, token) and asked.levels <= levels:
            return asked.kept
        if asked.lack is None or kept is None:
            return None
        if self._lacks.has_room_beside(asked.lack, *kept.within(self._ledger.free.now())):
            return None
        self.note(asked, BEHIND, token, levels)
        return BEHIND

    def placed(self) -> None:
        """Record that gangs were placed."""
        self._placed += 1
