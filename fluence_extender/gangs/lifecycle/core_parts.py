"""The parts of the core that most others work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.placement.plan import Planner
from fluence_extender.room.ledger import Ledger


@dataclass(frozen=True, slots=True)
class CoreParts:
    """The gangs, what is held, what finds places, the limits, and the clock of the controller."""

    registry: Registry
    ledger: Ledger
    planner: Planner
    limits: Limits
    clock: Callable[[], float]
