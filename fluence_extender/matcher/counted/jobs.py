"""What a job holds of the physical nodes."""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.matcher.counted.ranges import Ranges
from fluence_extender.matcher.counted.table import Node


@dataclass(frozen=True, slots=True)
class Share:
    """A job's part of one node. ``serial`` is the row's when it was granted.

    ``whole`` says that the node itself is held, ``entire`` that all below it is, virtual vertices included.
    """

    row: int
    serial: int
    node: Node
    taken: tuple[tuple[str, Ranges], ...]
    whole: bool
    entire: bool


@dataclass(frozen=True, slots=True)
class Job:
    """A live job: times in seconds on the matcher's clock, ``start <= t < end``."""

    id: int
    start: int
    end: int
    reserved: bool
    shares: tuple[Share, ...]
    levels: frozenset[int]
    """The levels right above what it holds of counted types."""
