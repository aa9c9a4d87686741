"""What an object states about its place in the queue, and the user who submitted it.

Users state it by labels and annotations on a workload or its pods. Admission records the user who created the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    HOLD_ANNOTATION,
    KUEUE_QUEUE_LABEL,
    MET_ANNOTATION,
    QUEUE_LABEL,
    USER_ANNOTATION,
)

QUEUE_LABELS = (QUEUE_LABEL, KUEUE_QUEUE_LABEL)
"""The labels that name a queue."""

NO_RECORD: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Submission:
    """The texts of the annotations ``hold``, ``after`` and ``submitted-by`` of one object; None if it has none.

    ``queues`` are its labels that name a queue, with their values. ``met`` are its dependencies that are recorded as
    met.
    """

    hold: str | None = None
    after: str | None = None
    user: str | None = None
    queues: tuple[tuple[str, str], ...] = ()
    met: frozenset[str] = NO_RECORD

    def over(self, other: Submission) -> Submission:
        """Return this submission, completed by what ``other`` says where this one says nothing."""
        if self is NOTHING_SAID or other is NOTHING_SAID:
            return other if self is NOTHING_SAID else self
        return Submission(
            other.hold if self.hold is None else self.hold,
            other.after if self.after is None else self.after,
            other.user if self.user is None else self.user,
            self.queues or other.queues,
            self.met | other.met,
        )


NOTHING_SAID = Submission()
"""The submission of an object that says nothing. Most objects share this value."""


def submission(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, uid: str = ""
) -> Submission:
    """Return what the labels and annotations of the object ``uid`` say."""
    queues = tuple((key, labels[key]) for key in QUEUE_LABELS if key in labels) if labels else ()
    noted = annotations or {}
    hold, after, user = noted.get(HOLD_ANNOTATION), noted.get(AFTER_ANNOTATION), noted.get(USER_ANNOTATION)
    met = recorded_met(noted, uid)
    if not (queues or met) and hold is after is user is None:
        return NOTHING_SAID
    return Submission(hold, after, user, queues, met)


def recorded_met(annotations: Mapping[str, str], uid: str) -> frozenset[str]:
    """Return the dependencies of the object ``uid`` that are recorded as met, each as its annotation names it."""
    owner, _, met = annotations.get(MET_ANNOTATION, "").partition(" ")
    return frozenset(met.split()) if met and owner == uid else NO_RECORD


def met_record(uid: str, met: Iterable[str]) -> str:
    """Return the text that `recorded_met` reads."""
    return " ".join((uid, *sorted(met)))
