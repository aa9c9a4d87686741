"""What a gang went through until it was whole, as one trace.

A trace is made once all members of a gang have their nodes. It begins with the gang's creation or, where the gang has
been whole before, with what happened next. Times are in seconds since the epoch.

Invariant: the sink never blocks and never fails. Nothing is decided by a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

Attributes = Mapping[str, str | int]

NAMESPACE = "k8s.namespace.name"
PRIORITY = "fluence.priority"
REASON = "fluence.reason"


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that happened at one time."""

    at: float
    name: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A part of a gang's way: what it did or waited for, from when until when."""

    name: str
    start: float
    end: float
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangTrace:
    """The whole way of a gang, its parts one after the other, and its events in their order."""

    whole: TraceSpan
    parts: tuple[TraceSpan, ...] = ()
    events: tuple[TraceEvent, ...] = ()


class TraceSink(Protocol):
    """Whatever takes in traces."""

    def send(self, trace: GangTrace) -> None:
        """Take in a trace; one that can't be kept is lost."""
