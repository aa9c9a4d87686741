"""Why a gang isn't tried, however much room there is: it isn't whole, a pod is invalid, or the queue doesn't admit it.

These rules depend on nothing that happens in the ledger. So they are checked when a gang is looked at, which is after
each event that may change the result. A gang that a rule keeps waiting isn't in the line that is tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.lifecycle.incomplete import rejection
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.assembly import foreign_gates, required_size, waiting_for_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.turns import waits
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode, named_elsewhere, waiting
from fluence_extender.placement.demand import unplannable


class Rules:
    """Finds what keeps gangs of ``registry`` from being tried."""

    def __init__(self, registry: Registry, places: Places, admission: QueueAdmission) -> None:
        self._registry = registry
        self._places = places
        self._admission = admission
        self._gathering: set[GangKey] = set()

    def apply(self, gang: Gang, now: float) -> None:
        """Count a gang in its present state, and record which rule, if any, keeps it from being tried."""
        self._admission.note(gang)
        before = gang.obstacle
        gang.obstacle = self._obstacle(gang) if waits(gang) else None
        gang.limited = None
        if gang.obstacle is None:
            if before is not None:
                gang.attempt.since = now
            return
        gang.attempt.again_at = NEVER
        gang.limited = self._admission.full_group(gang, gang.obstacle)
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
        return (None if gang.promised else invalid(ready)) or self._admission.obstacle(gang)

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


def planning_failed(error: Exception, fault: str | None = None) -> Reason:
    """Return the reason of a gang for which the service itself fails, with what is wrong with its graph if anything."""
    why = f"the service's fault, not yours: {fault or repr(error)} (see its log)"
    return Reason(ReasonCode.PLANNING_FAILED, f"planning failed, which is {why}")


def size_of(gang: Gang) -> int | Reason:
    """Return how many members make the gang whole, or why that isn't known."""
    return required_size(gang.key, gang.alive())


def need(gang: Gang, size: int) -> tuple[list[Member], int, int]:
    """Return the members that can be placed now, how many have places, and how many of ``size`` lack one."""
    ready = [member for member in gang.placeless() if not foreign_gates(member.pod)]
    settled = sum(1 for member in gang.alive() if member.assignment is not None)
    return ready, settled, size - settled - gang.ended


def invalid(ready: Iterable[Member]) -> Reason | None:
    """Return why some pods can't be planned as they are, or can't be planned yet; None if all can."""
    return unplannable(member.pod for member in ready)
