"""Evaluation of gangs that have changed: their state and, where they can't be planned, their reason.

After a start or a change of leader thousands have changed, so a step evaluates them for a bounded time, and other work
goes on between steps. Invariant: no gang is tried before all changed gangs are evaluated, because one of these may be
ahead of it in the queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from fluence_extender.gangs.lifecycle.attempts import size_of
from fluence_extender.gangs.lifecycle.deadlines import gather
from fluence_extender.gangs.lifecycle.incomplete import explain_begun
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.states import finish, settle
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason

EVALUATED_WITHIN = 0.004
"""Seconds after which a step evaluates no more gangs that have changed."""


class Evaluation:
    """Evaluates the gangs of ``registry`` that have changed; ``on_whole`` is called for each that has become whole."""

    def __init__(
        self,
        registry: Registry,
        places: Places,
        admission: QueueAdmission,
        quotas: NamespaceQuotas,
        limits: Limits,
        clock: Callable[[], float],
        on_whole: Callable[[Gang], None],
    ) -> None:
        self._registry = registry
        self._places = places
        self._admission = admission
        self._quotas = quotas
        self._limits = limits
        self._clock = clock
        self._on_whole = on_whole
        self.left: list[GangKey] = []
        """The changed gangs that are left for the next step, as a heap."""

    def evaluate_changed(self, looked_at: set[GangKey], now: float) -> bool:
        """Evaluate gangs that have changed, and add them to ``looked_at``; return whether all are evaluated now.

        Gangs that change while others are evaluated are left for the next step.
        """
        until, dirty, continued = self._clock() + EVALUATED_WITHIN, self._registry.dirty, bool(self.left)
        if not self.left:
            # A heap orders gangs as they are taken, so that no step has to sort thousands.
            self.left = list(dirty)
            heapq.heapify(self.left)
        while self.left:
            key = heapq.heappop(self.left)
            if key in dirty:
                dirty.discard(key)
                self._evaluate(self._registry.gangs[key], now)
                self._admission.note(self._registry.gangs[key])
                self._quotas.note(self._registry.gangs[key])
                looked_at.add(key)
            if self.left and self._clock() >= until:
                return False
        # Between the steps of one evaluation others may have changed.
        return not continued or not dirty

    def _evaluate(self, gang: Gang, now: float) -> None:
        """Settle the gang's state and, if it can't be planned, its reason."""
        gang.attempt.version, gang.attempt.record, gang.attempt.duration = -1, None, None
        self._places.drop_others(gang)
        alive = gang.alive()
        if not alive:
            finish(gang, now)
            return
        size = size_of(gang)
        if not isinstance(size, Reason):
            gang.size = size
        complete = not isinstance(size, Reason) and len(alive) + gang.ended >= size
        gather(gang, alive, complete or gang.begun, now, self._limits)
        if not complete:
            self._places.withdraw(gang)
        if settle(gang, alive, size, now):
            self._on_whole(gang)
        if not isinstance(size, Reason):
            explain_begun(gang, now, self._limits, self._registry.gone.clock)
            if gang.gathering is not None:
                gang.gathering.recheck(gang.gathered)
