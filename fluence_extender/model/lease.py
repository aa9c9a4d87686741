"""A coordination Lease as those who follow it read it (coordination.k8s.io/v1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """Who leads, as the record says: ``holder`` is "" where nobody does.

    ``renewed`` is the holder's own time stamp, only good for telling two records apart: clocks differ.
    ``transitions`` grows with each new holder; ``duration`` is how long others wait after a renewal, seconds.
    """

    holder: str
    renewed: str
    transitions: int
    duration: float
