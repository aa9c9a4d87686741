"""Which gangs something may have to be done for: those that wait, those that are on their way, and those that are due.

Walking through all gangs at each step would cost the whole cluster's size; these are few.
"""

from __future__ import annotations

from collections.abc import Set

from fluence_extender.gangs.lifecycle.agenda import Agenda
from fluence_extender.gangs.lifecycle.attempts import needy
from fluence_extender.gangs.lifecycle.deadlines import due
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import GangKey, GangState

SETTLED = (GangState.BOUND, GangState.FINISHED)


class Docket:
    """The gangs of ``registry`` by what they are to be looked at for."""

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry = registry
        self._limits = limits
        self._active: set[GangKey] = set()
        self._agenda = Agenda()
        self.waiting: set[GangKey] = set()

    def file(self, gang: Gang, now: float) -> None:
        """Note what the gang is to be looked at for: when it is due, and whether it waits or is on its way."""
        settled = gang.state in SETTLED
        (self._active.discard if settled else self._active.add)(gang.key)
        (self.waiting.add if needy(gang) else self.waiting.discard)(gang.key)
        self.note(gang, due(gang, now, self._limits))

    def note(self, gang: Gang, when: float) -> None:
        """Look at the gang at ``when``, or earlier if that was asked before."""
        self._agenda.note(gang.key, when)

    def take_due(self, now: float) -> set[GangKey]:
        """Hand out the gangs that are due, each once."""
        return set(self._agenda.take_due(now))

    def known(self, keys: Set[GangKey]) -> list[Gang]:
        """The gangs of ``keys`` that there still are, in a stable order."""
        gangs = self._registry.gangs
        return [gangs[key] for key in sorted(keys) if key in gangs]

    def unsettled(self) -> list[Gang]:
        """The gangs for which something may still have to be done, in a stable order."""
        self._active &= self._registry.gangs.keys()
        self.waiting &= self._registry.gangs.keys()
        return self.known(self._active | self._registry.dirty)
