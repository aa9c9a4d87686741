"""Evaluation of gangs that have changed: their state and, where they can't be planned or tried, their reason.

After a start or a change of leader thousands have changed, so a step evaluates them for a bounded time, and other work
goes on between steps. The namespaces take turns.

Invariants: no gang is tried before those are evaluated that had changed when the service began to lead, because one of
these may be ahead of it in the queue. Later, changed gangs that one step can't evaluate keep others from being tried
for `ALL_FIRST` steps at most.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fluence_extender.gangs.lifecycle.core_parts import CoreParts
from fluence_extender.gangs.lifecycle.deadlines import gather
from fluence_extender.gangs.lifecycle.large_gangs import LargeGangs
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.rules import Rules, planning_failed, size_of
from fluence_extender.gangs.lifecycle.states import explain_begun, finish, update_state
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason

log = structlog.get_logger(__name__)

EVALUATED_WITHIN = 0.004
"""Seconds after which a step evaluates no more gangs that have changed."""

ALL_FIRST = 16
"""The most steps in a row that try no gang because changed gangs are left. After that, each step does both."""


class Evaluation:
    """Evaluates the gangs of ``registry`` that have changed; ``on_whole`` is called for each that has become whole."""

    def __init__(
        self,
        core: CoreParts,
        places: Places,
        rules: Rules,
        quotas: NamespaceQuotas,
        large: LargeGangs,
        on_whole: Callable[[Gang], None],
    ) -> None:
        self._registry = core.registry
        self._places = places
        self._rules = rules
        self._quotas = quotas
        self._limits = core.limits
        self._clock = core.clock
        self._on_whole = on_whole
        self._large = large
        self._first: set[GangKey] = set()
        self._behind = 0
        self.cut_short = False
        """Whether the last step left changed gangs for the next one."""

    def all_first(self) -> None:
        """Let no gang be tried until all gangs that have changed so far are evaluated."""
        self._first = set(self._registry.dirty)

    def evaluate_changed(self, now: float) -> set[GangKey]:
        """Evaluate gangs that have changed, and return them."""
        until, dirty = self._clock() + EVALUATED_WITHIN, self._registry.dirty
        evaluated: set[GangKey] = set()
        for namespace in [one for one in self._registry.late if self._large.pace.left(one) > 0]:
            self._large.pace.spend(namespace, self._registry.recompute_late(namespace))
        for namespace in [one for one in dirty.put_off if self._large.pace.left(one) > 0]:
            dirty.call(namespace)
        while dirty:
            key = dirty.take()
            gang = self._registry.gangs[key]
            if not (key in self._first or self._large.may_look(gang)):
                dirty.postpone(key)
                continue
            self._first.discard(key)
            try:
                self._evaluate(gang, now)
                self._rules.apply(gang, now)
                self._quotas.note(gang)
            except Exception as error:
                # One gang that can't be judged must not keep the others from being looked at.
                log.exception("a gang could not be judged", gang=str(key))
                gang.explain(planning_failed(error), now)
            evaluated.add(key)
            if dirty and self._clock() >= until:
                break
        self.cut_short = bool(dirty)
        self._first &= self._registry.gangs.keys() if dirty else set()
        self._behind = self._behind + 1 if dirty and not self._first else 0
        return evaluated

    @property
    def may_try(self) -> bool:
        """Whether gangs may be tried now."""
        return not self._registry.dirty or self._behind > ALL_FIRST

    def _evaluate(self, gang: Gang, now: float) -> None:
        """Bring the gang's state up to date and, if it can't be planned, its reason."""
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
            gang.forget_first_change()
        if update_state(gang, gang.alive(), size, now):
            self._on_whole(gang)
        if not isinstance(size, Reason):
            explain_begun(gang, now, self._limits, self._registry.gone.clock)
            if gang.gathering is not None:
                gang.gathering.recheck(gang.gathered)
