"""How long pods run: what an object's annotation, Kueue's label and its deadline say. The rule is one for all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fluence_extender.model.names import DURATION_ANNOTATION, KUEUE_LONGEST_LABEL
from fluence_extender.model.notation import parse_duration, parse_seconds


def stated_duration(
    annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None, deadline: int | None
) -> float | None:
    """Return the shortest of what a pod or a workload says about how long pods run, None where it says nothing.

    ``deadline`` is its activeDeadlineSeconds.
    """
    text = (annotations or {}).get(DURATION_ANNOTATION)
    annotated = parse_duration(text) if text is not None else None
    labelled = parse_seconds((labels or {}).get(KUEUE_LONGEST_LABEL))
    said = (annotated, labelled, deadline if deadline is not None and deadline > 0 else None)
    return min((float(one) for one in said if one is not None), default=None)


def deadline_over(started: datetime | None, deadline: int | None) -> float | None:
    """Return when the deadline of an object that has ``started`` is over, in seconds since the epoch, None before."""
    return started.timestamp() + deadline if started is not None and deadline else None
