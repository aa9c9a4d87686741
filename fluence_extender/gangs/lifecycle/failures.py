"""Demands that have no place now: what has failed for one gang fails for all that ask the same.

Ten thousand waiting gangs have only a few different demands. So a pass plans each demand once, and all other gangs with
this demand get the reason of its failure. Invariant: a failure counts until the ledger's version grows, because
until then no room is freed. If its reason says that some members would fit, it counts only until gangs are placed,
because fewer may fit then. After that it counts for as long as `placement.lacks` finds that the demand still lacks
room.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from fluence_extender.model.reason import Reason, ReasonCode, behind_reservation
from fluence_extender.placement.lacks import Lack, Lacks
from fluence_extender.room.holds import Hold
from fluence_extender.room.ledger import Ledger

BEHIND = behind_reservation()

MOST_RECORDS = 1000
"""The most records that are kept. Beyond that, records of older versions of the ledger are forgotten."""


@dataclass(slots=True, eq=False)
class FailureRecord:
    """Why gangs with one demand had no place, empty before the first failure.

    ``preempting`` is the priority with which the gangs could preempt others. ``reason`` counts at the ledger's version
    ``version`` after ``placements`` placements, None if it counts after any number of them. ``reason_beside`` is why
    they had no place beside the reservations that ``beside`` stands for, ``levels`` of them or more. ``lack`` tells
    whether they still lack room, None if nothing but a plan can tell. ``fits_at`` is the last state in which it found
    room. ``fitted`` is the last state in which it had places on the nodes, while its gang waited for something else.
    """

    preempting: float
    lack: Lack | None = None
    reason: Reason | None = None
    version: int = -1
    placements: int | None = None
    fits_at: object = None
    fitted: object = None
    reason_beside: Reason | None = None
    beside: object = None
    levels: int = 0


class Failures:
    """Records which demands have no place in ``ledger``, and why."""

    def __init__(self, ledger: Ledger, lacks: Lacks) -> None:
        self._ledger = ledger
        self._lacks = lacks
        self._placements = 0
        self._records: dict[Hashable, FailureRecord] = {}

    def record(self, key: Hashable, preempting: float) -> FailureRecord:
        """Return the record of all gangs with the demand ``key`` that could preempt with this priority."""
        found = self._records.get((key, preempting))
        if found is None:
            if len(self._records) >= MOST_RECORDS:
                now = self._ledger.version
                self._records = {
                    one: record for one, record in self._records.items() if record.version == now
                }
                if len(self._records) >= MOST_RECORDS:
                    self._records.clear()
            found = self._records[key, preempting] = FailureRecord(preempting)
        return found

    @property
    def _now(self) -> tuple[int, int]:
        return self._ledger.version, self._placements

    def note(self, record: FailureRecord, reason: Reason, token: object = None, levels: int = 0) -> None:
        """Record why there is no place beside the reservations of ``token``, ``levels`` of them.

        A reason that is the same as before stays the same object, so that gangs that have it needn't be told again.
        """
        if reason.code is ReasonCode.BEHIND_RESERVATION:
            record.reason_beside, record.beside, record.levels = reason, (self._now, token), levels
        else:
            record.reason = record.reason if record.reason == reason else reason
            record.version = self._ledger.version
            record.placements = None if reason.fitting == 0 else self._placements

    def reason(self, record: FailureRecord) -> Reason | None:
        """Return why there is no place, whatever is reserved; None if that isn't known."""
        if record.version == self._ledger.version and record.placements in (None, self._placements):
            return record.reason
        state = self._now, self._ledger.journal.now
        if record.lack is None or record.fits_at == state:
            return None
        reason = self._lacks.reason(record.lack)
        if reason is None:
            record.fits_at = state
            return None
        self.note(record, reason)
        return record.reason

    def reason_beside(
        self, record: FailureRecord, token: object, levels: int, kept: Hold | None
    ) -> Reason | None:
        """Return why there is no place beside reservations for which ``kept`` stays free; None if it isn't known.

        ``token`` and ``levels`` say which reservations these are, as in `note`.
        """
        if record.beside == (self._now, token) and record.levels <= levels:
            return record.reason_beside
        if record.lack is None or kept is None:
            return None
        if self._lacks.has_room_beside(record.lack, *kept.rows(self._ledger.free.now())):
            return None
        self.note(record, BEHIND, token, levels)
        return BEHIND

    def note_fit(self, record: FailureRecord) -> None:
        """Record that the nodes have places for a demand now."""
        record.fitted = self._now

    def has_fitted(self, record: FailureRecord) -> bool:
        """Return whether the nodes were found to have places for a demand since anything has changed."""
        return record.fitted == self._now

    def placed(self) -> None:
        """Record that gangs were placed."""
        self._placements += 1
