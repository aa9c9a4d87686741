"""Types of fields that many objects have: counts, times, amounts and selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fluence_extender.model.notation import DURATION_FORM, parse_duration
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.quantity import InvalidQuantity, read_amount
from fluence_extender.objects.reading import Reads, ReadsEach

LARGEST_INTEGER = 2**63 - 1

Int64 = Annotated[int, Meta(ge=-(2**63), le=LARGEST_INTEGER)]
"""The widest integer of the API."""

Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER, description="0 or more")]
Positive = Annotated[int, Meta(ge=1, le=LARGEST_INTEGER, description="at least 1")]

Time = Annotated[datetime, Meta(tz=True)]
"""meta/v1 Time, which names its time zone."""

MOST_AMOUNT = 2**61
"""Amounts of a queue are below this, so that sums over all queues of a cluster fit in 64 bits."""

RESOURCE_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class LabelSelector(msgspec.Struct, frozen=True):
    """meta/v1 LabelSelector."""

    labels: dict[str, str] | None = msgspec.field(name="matchLabels", default=None)
    expressions: tuple[Requirement, ...] | None = msgspec.field(name="matchExpressions", default=None)

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """All that it requires of labels, as expressions."""
        equal = (Requirement(key, "In", (value,)) for key, value in (self.labels or {}).items())
        return *equal, *(self.expressions or ())


class SelectorTerm(msgspec.Struct):
    """core/v1 NodeSelectorTerm."""

    match_expressions: tuple[Requirement, ...] | None = msgspec.field(name="matchExpressions", default=None)
    match_fields: tuple[Requirement, ...] | None = msgspec.field(name="matchFields", default=None)


class NodeSelector(msgspec.Struct):
    """core/v1 NodeSelector."""

    terms: list[SelectorTerm] | None = msgspec.field(name="nodeSelectorTerms", default=None)

    @property
    def node_terms(self) -> tuple[NodeTerm, ...]:
        """Its terms. One of them has to hold."""
        return tuple(
            NodeTerm(term.match_expressions or (), term.match_fields or ()) for term in self.terms or ()
        )


def _seconds(stated: Any) -> float:
    seconds = None if isinstance(stated, bool) else parse_duration(str(stated))
    if seconds is None:
        raise ValueError(f"it must be {DURATION_FORM}")
    return seconds


def _amount(resource: str, stated: Any) -> int:
    try:
        amount = read_amount(resource, stated)
    except InvalidQuantity:
        raise ValueError("it must be a quantity such as 2 or 64Gi") from None
    if not 0 <= amount < MOST_AMOUNT:
        raise ValueError("it must be from 0 to less than 2^61")
    if RESOURCE_NAME.fullmatch(resource) is None:
        raise ValueError("that is no name of a resource")
    return amount


Seconds = Annotated[float, Reads(_seconds)]
"""A duration as users write it."""

Moment = Annotated[float, Reads(datetime.timestamp, Time)]
"""A meta/v1 Time, in seconds since the epoch."""

Requirements = Annotated[tuple[Requirement, ...], Reads(attrgetter("requirements"), LabelSelector)]
"""A label selector."""

Amounts = Annotated[Mapping[str, int], ReadsEach(_amount)]
"""Quantities by resource, in the units of `Resources`."""
