"""Why a gang isn't tried, however much room there is: it isn't whole, a pod is invalid, or the queue doesn't admit it.

These rules depend on nothing that happens in the ledger. So they are checked when a gang is looked at, which is after
each event that may change the result. A gang that a rule keeps waiting isn't in the line that is tried. Limits and
quotas of queues aren't such rules: passes judge them, because they depend on what other gangs use.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.states import rejection
from fluence_extender.gangs.membership.assembly import foreign_gates, required_size, waiting_for_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.turns import waits
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, SCHEDULER_NAME
from fluence_extender.model.reason import Reason, ReasonCode, named_elsewhere, waiting
from fluence_extender.placement.demand import unplannable
from fluence_extender.placement.ranks import rank_key

BOUND_BY_NONE = (
    f"it names scheduler {DIRECT_SCHEDULER_NAME}, and this service binds no pods by itself (--bind-by=kube-scheduler): "
    f"install deploy/bind-by-kube-scheduler, and create the pod anew with schedulerName: {SCHEDULER_NAME}"
)
"""Why a direct pod isn't placed by a service that leaves every pod to kube-scheduler's filters."""

UNCOUNTED = Reason(
    ReasonCode.SELECTING_DEVICES, "its claims are being compared with the devices of the nodes"
)
"""Why a gang isn't tried until it is known what nodes host for its claims."""


class Rules:
    """Finds what keeps gangs of ``registry`` from being tried."""

    def __init__(
        self,
        registry: Registry,
        places: Places,
        admission: QueueAdmission,
        quotas: NamespaceQuotas,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._quotas = quotas
        self._registry = registry
        self._places = places
        self._admission = admission
        self._gathering: set[GangKey] = set()

    def apply(self, gang: Gang, now: float) -> None:
        """Count a gang in its present state, and record which rule, if any, keeps it from being tried."""
        self._admission.note(gang)
        gang.obstacle = self._obstacle(gang) if waits(gang) else None
        if gang.obstacle is not None:
            gang.remember(again_at=self._quotas.refused.until(gang.key.namespace))
            gang.explain(gang.obstacle, now)

    def _obstacle(self, gang: Gang) -> Reason | None:
        size = size_of(gang)
        if isinstance(size, Reason):
            return size
        ready, _, missing = need(gang, size)
        if not gang.begun and len(ready) < missing:
            return self._not_whole(gang, size, missing)
        if not ready:
            return waiting_for_gates(gang.alive())
        # A gang that has begun may be completed without its invalid members.
        return (
            (None if gang.must_be_completed else self._unbindable(ready) or invalid(ready))
            or self._admission.obstacle(gang)
            or self._over_namespace_quota(gang, ready)
            or self._uncounted(gang, ready)
        )

    def _uncounted(self, gang: Gang, ready: list[Member]) -> Reason | None:
        """Count some of what nodes host for the claims of a gang; return that it has to be looked at again for that."""
        if self._places.counted(ready):
            return None
        self._registry.dirty.add(gang.key)
        return UNCOUNTED

    def _unbindable(self, ready: list[Member]) -> Reason | None:
        """Return that some pods can't be bound, because the service binds no direct ones; None if all can."""
        first = next((one.pod for one in ready if one.pod.direct and not self._limits.binds_direct), None)
        return Reason(ReasonCode.INVALID_REQUEST, f"pod {first.name}: {BOUND_BY_NONE}") if first else None

    def _over_namespace_quota(self, gang: Gang, ready: list[Member]) -> Reason | None:
        """Return why pods of a gang without places that don't exist yet may get none, None if they may."""
        if has_places(gang) or not any(one.pod.expected for one in ready):
            return None
        ready.sort(key=lambda one: rank_key(one.pod))
        return self._quotas.obstacle(gang, self._admission.joining(gang, ready)[0])

    def _not_whole(self, gang: Gang, size: int, missing: int) -> Reason:
        """Return why a gang waits that lacks members, or whose members have gates of others."""
        present = len(gang.alive()) + gang.ended
        if present >= size:
            return waiting_for_gates(gang.alive()) or waiting(present, size)
        elsewhere = self._registry.foreign_members(gang)
        self._gathering.add(gang.key)
        never = self._places.never([member.pod for member in gang.placeless()], missing)
        if never is None:
            reason, rejected = waiting(present, size, elsewhere), rejection(gang.members.values())
            return reason.followed_by(rejected) if rejected else reason
        for foreign in named_elsewhere(elsewhere):
            never = never.followed_by(foreign)
        return never

    def node_changed(self) -> None:
        """Have the gangs looked at that lack members: whether these could ever fit depends on the nodes."""
        self._registry.look_at(self._gathering)
        self._gathering.clear()


def has_places(gang: Gang) -> bool:
    """Return whether a member has a place."""
    return any(one.assignment is not None for one in gang.alive())


def planning_failed(error: Exception) -> Reason:
    """Return the reason of a gang for which the service itself fails."""
    why = f"the service's fault, not yours: {error!r} (see its log)"
    return Reason(ReasonCode.PLANNING_FAILED, f"planning failed, which is {why}")


def size_of(gang: Gang) -> int | Reason:
    """Return how many members make the gang whole, or why that isn't known."""
    return required_size(gang.key, gang.alive())


def need(gang: Gang, size: int) -> tuple[list[Member], int, int]:
    """Return the members that can be placed now, how many have places, and how many of ``size`` lack one."""
    ready = [member for member in gang.placeless() if not foreign_gates(member.pod)]
    settled = sum(1 for member in gang.alive() if member.assignment is not None)
    return ready, settled, size - settled - gang.ended


def places_needed(gang: Gang, size: int) -> int:
    """Return how many places the gang lacks."""
    placed = sum(1 for member in gang.alive() if member.assignment is not None)
    return max(size - placed - gang.ended, 0)


def placeless_of(gang: Gang, members: Iterable[Member]) -> list[Member]:
    """Return the members that have no place by now."""
    present = (gang.members[member.pod.uid] for member in members)
    return [member for member in present if member.assignment is None]


def together(gang: Gang, ready: list[Member], missing: int) -> tuple[list[Member], list[Member], int]:
    """Return which ``ready`` members are placed now, which later, and how many of the former need places together.

    Members that replace lost ones of a gang that runs, and members beyond its size, are placed one by one.
    """
    first = missing if gang.must_be_completed and missing > 0 else len(ready)
    return ready[:first], ready[first:], 1 if gang.begun and gang.whole else max(missing, 1)


def invalid(ready: Iterable[Member]) -> Reason | None:
    """Return why some pods can't be planned as they are, or can't be planned yet; None if all can."""
    return unplannable([member.pod for member in ready])
