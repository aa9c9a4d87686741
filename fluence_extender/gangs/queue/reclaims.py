"""Which victims a gang may have by the guarantees of queues, instead of by priority.

If its queue takes back, a gang that fits into the guarantee of its queue may have victims of any priority in queues
that borrow. Gangs within the guarantee of such a queue aren't victims of other queues, so a place that was taken back
isn't taken again.

Invariant: if no queue states how it preempts, priority alone decides, and nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.usage import Place
from fluence_extender.model.gang import GangKey
from fluence_extender.model.queue import QueuePreemption, Reclaim, Within
from fluence_extender.model.resources import Resources
from fluence_extender.queueing.reclaim import HeldPlaces, beyond_guarantees, may_reclaim

QuotaRoom = Callable[[Collection[str]], bool]
"""Returns whether quotas have room once the pods with these uids are gone."""

LEAST = 1e-9
"""The smallest share of a reclaimable gang, because a share of 0 means that the queue has nothing to give back."""


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """The victims that one gang may have: any of ``reclaimable``, each with the share of its queue; none ``protected``.

    In ``again_in`` seconds there may be more, because another gang will have run for its minimum time.
    """

    reclaimable: Mapping[GangKey, float] = field(default_factory=dict)
    protected: frozenset[GangKey] = frozenset()
    again_in: float = math.inf


NOTHING_RECLAIMABLE = Reclaimable()


class Reclaims:
    """Decides which victims gangs may have by the guarantees and preemption rules of the queues of ``settings``."""

    def __init__(self, registry: Registry, settings: Queues, admission: QueueAdmission) -> None:
        self._registry = registry
        self._settings = settings
        self._admission = admission
        self._began: dict[GangKey, float] = {}
        """When running gangs began, as far as it was needed. New pods don't make a gang younger."""

    def for_pass(self, registry: Registry, settings: Queues, admission: QueueAdmission) -> Reclaims:
        """Return reclaims that judge by what a pass has counted."""
        made = Reclaims(registry, settings, admission)
        made._began = dict(self._began)
        return made

    def learn(self, other: Reclaims) -> None:
        """Take over since when gangs have run, as a pass has found out."""
        self._began = other._began

    @property
    def active(self) -> bool:
        """Whether a queue states how it preempts."""
        return self._settings.take_back

    def may_reclaim(self, key: GangKey, asks: Resources) -> bool:
        """Return whether the queue of a gang takes back what it ``asks`` for, after the gangs ahead of it."""
        place = self._admission.usage.place(key) if self.active else None
        if place is None or self._preemption(place.queue).reclaim is not Reclaim.BORROWED:
            return False
        return may_reclaim(self._admission.quotas.use, place.queue, asks, self._soon(key))

    def reclaimable(self, gang: Gang, members: Sequence[Member], leaving: Collection[GangKey]) -> Reclaimable:
        """Return the victims that a gang may have to place ``members``; the gangs ``leaving`` are gone soon."""
        place = self._admission.usage.place(gang.key) if self.active else None
        if place is None:
            return NOTHING_RECLAIMABLE
        own, usage = self._preemption(place.queue), self._admission.usage
        asks = Resources.total(one.pod.amounts for one in members)
        holding = self._running()
        running = [one for one in holding if one.key not in leaving]
        beyond = beyond_guarantees(
            self._admission.quotas.use,
            {queue: usage.held((queue, None)) for queue in usage.queues()},
            place.queue,
            asks,
            [one for one in holding if one.key in leaving],
            running,
        )
        reclaimable: dict[GangKey, float] = {}
        again_in = math.inf
        for one in beyond if self.may_reclaim(gang.key, asks) else ():
            left = own.min_runtime - self._ran(one.key)
            if left > 0:
                again_in = min(again_in, left)
            else:
                reclaimable[one.key] = max(self._admission.shares.share(one.queue), LEAST)
        borrowing = {one.key for one in beyond}
        protected = frozenset(
            one.key
            for one in running
            if (
                own.within is Within.NEVER
                if one.queue == place.queue
                else self._preemption(one.queue).reclaim is Reclaim.BORROWED and one.key not in borrowing
            )
        )
        return Reclaimable(reclaimable, protected, again_in)

    def quota_room(self, gang: Gang, members: Sequence[Member]) -> QuotaRoom | None:
        """Return a function that says whether quotas have room for ``members`` of a gang once some pods are gone.

        Return None if they have room already.
        """
        quotas, place = self._admission.quotas, self._admission.usage.place(gang.key)
        if place is None or quotas.allows(gang, members, place):
            return None
        return lambda gone: quotas.allows(gang, members, place, self._freed(gone))

    def _freed(self, gone: Collection[str]) -> Iterable[tuple[str, Resources]]:
        """Yield the amounts of quotas that the end of pods frees. A last pod also frees its gang's promised places."""
        gangs: dict[GangKey, list[Member]] = {}
        for uid in gone:
            found = self._registry.member(uid)
            if found is not None:
                gangs.setdefault(found[0].key, []).append(found[1])
        for key, leaving in gangs.items():
            place = self._admission.usage.place(key)
            if place is None:
                continue
            staying = self._registry.gangs[key].members.keys() - {one.pod.uid for one in leaving}
            if any(self._registry.gangs[key].members[uid].assignment is not None for uid in staying):
                yield from ((one.charged or place.queue, one.pod.amounts) for one in leaving)
            else:
                yield from place.holdings

    def _preemption(self, queue: str) -> QueuePreemption:
        found = self._settings.queues.get(queue)
        return QueuePreemption() if found is None else found.preemption

    def _running(self) -> Sequence[HeldPlaces[GangKey]]:
        """Return the running gangs, the lowest priority first, and then the youngest."""
        found: list[tuple[int, float, int, GangKey, Place]] = []
        for gang in self._registry.gangs.values():
            place = self._admission.usage.place(gang.key)
            if place is not None and place.held:
                since, number = gang.created
                found.append((gang.priority, -since, -number, gang.key, place))
        found.sort(key=lambda one: one[:4])
        running = {key for *_, key, _ in found}
        self._began = {key: began for key, began in self._began.items() if key in running}
        return [HeldPlaces(key, place.queue, place.held) for *_, key, place in found]

    def _soon(self, key: GangKey) -> dict[str, dict[str, int]]:
        """Return the amounts that the gangs ahead of a gang will take, by branch."""
        found: dict[str, dict[str, int]] = {}
        for other in self._admission.ahead:
            place = self._admission.usage.place(other)
            if other == key or place is None or place.runs:
                continue
            for name in self._admission.quotas.use.tree.branch(place.queue).path:
                sums = found.setdefault(name, {})
                for kind, amount in place.asks.items():
                    sums[kind] = sums.get(kind, 0) + amount
        return found

    def _ran(self, key: GangKey) -> float:
        """Return how long a gang has run since its first pod started, infinity if none has: no work is lost."""
        gang = self._registry.gangs.get(key)
        began = [one.pod.started for one in gang.alive() if one.pod.started] if gang is not None else []
        if not began:
            return math.inf
        self._began[key] = min(*began, self._began.get(key, math.inf))
        return self._registry.gone.clock() - self._began[key]
