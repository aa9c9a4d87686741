"""The state of a gang, and the rules by which a gang isn't tried, however much room there is.

A gang is whole once as many members exist as its size requires. It is complete once as many are bound, and it stays
complete: members that end or come later don't make it incomplete again. A pod that its kubelet rejects counts as ended.
But its gang isn't in the state bound until it has enough members again, and until then it has a reason. The bound
members of a gang that isn't complete run below its minimum size, and the gang records since when. If no other pods
replace the lost ones in time, the bound members are evicted (module `deadlines`).

A gang isn't tried if it lacks members, a pod is invalid, or the queue doesn't admit it. These rules don't depend on the
ledger. So they are checked when a gang is looked at, which is after each event that may change the result. A gang that
a rule keeps waiting isn't in the line of gangs that are tried. Limits and quotas of queues aren't such rules: passes
judge them, because they depend on what other gangs use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.deadlines import at_risk, undone_at
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import (
    Gang,
    Member,
    foreign_gates,
    required_size,
    waiting_for_gates,
)
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.submissions import waits
from fluence_extender.model.gang import GangKey, GangState, HistoryKind
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, SCHEDULER_NAME
from fluence_extender.model.notation import natural_order
from fluence_extender.model.reason import Reason, ReasonCode, named_elsewhere, waiting
from fluence_extender.placement.demand import unplannable
from fluence_extender.placement.ranks import rank_key

OF_PLACED = (ReasonCode.CANNOT_BIND, ReasonCode.REJECTED)
"""The reasons that only gangs with places have."""


def have_nodes(bound: int) -> str:
    """Return the words for ``bound`` members that are bound."""
    return "1 member has its node" if bound == 1 else f"{bound} members have their nodes"


def finish(gang: Gang, now: float) -> None:
    """Finish a gang without living members. If members come again, it starts over."""
    if gang.state is not GangState.FINISHED:
        gang.note(HistoryKind.FINISHED, "", "no member is left running")
    gang.state = GangState.FINISHED
    gang.begin_anew()
    gang.explain(None, now)


def update_state(gang: Gang, alive: Sequence[Member], size: int | Reason, now: float) -> bool:
    """Bring the state of a gang with living members up to date; return whether it has just become bound.

    ``size`` is its size, or why that isn't known. In the latter case bound members stay where they are.
    """
    bound = sum(1 for member in alive if member.bound)
    assigned = any(member.assignment is not None for member in alive)
    gang.count_gathering()
    enough = bound + gang.ended >= gang.size
    complete = gang.was_complete or (enough and not isinstance(size, Reason))
    replaced = enough or not any(member.pod.rejected for member in gang.members.values())
    if bound == len(alive) and complete and replaced:
        is_new = gang.state is not GangState.BOUND
        if is_new:
            gang.note(HistoryKind.COMPLETE, "", have_nodes(bound))
        gang.state = GangState.BOUND
        gang.was_complete = True
        gang.incomplete_since = None
        back_off = replace(gang.back_off, replans=0, replanned=NEVER, failures=0, until_requested="")
        gang.remember(back_off=back_off)
        gang.explain(None, now)
        return is_new
    if bound:
        gang.state = GangState.COMMITTED if gang.begun else _state_beside_foreign(gang, alive)
        # Members beyond the size may come and go. If some of them wait, those that run aren't evicted for it.
        gang.was_complete = complete
        if gang.was_complete:
            gang.incomplete_since = None
        elif gang.incomplete_since is None:
            gang.incomplete_since = now
    elif not gang.begun:
        gang.incomplete_since = None
        gang.was_complete = False
        if not assigned:
            gang.state = GangState.WAITING
            gang.begin_anew()
    if isinstance(size, Reason):
        gang.explain(size, now)
    return False


def _state_beside_foreign(gang: Gang, alive: Sequence[Member]) -> GangState:
    """Return the state of a gang whose bound members were all placed by other means or with another gang."""
    if not any(member.assignment is not None and not member.bound for member in alive):
        return GangState.WAITING
    return GangState.COMMITTED if gang.state is GangState.COMMITTED else GangState.PLANNED


def explain_begun(gang: Gang, now: float, limits: Limits, calendar: Callable[[], float]) -> None:
    """Set or clear the reason why a gang with places isn't complete; leave any other reason alone."""
    begun = gang.begun
    due = undone_at(gang, limits) if begun else NEVER
    gang.undone_about = calendar() + due - now if due < NEVER else None
    lacks_members = begun and gang.reason is not None and gang.reason.code is ReasonCode.WAITING_FOR_MEMBERS
    if gang.reason is None or gang.reason.code in OF_PLACED or lacks_members:
        gang.explain((_below_size(gang, limits) if begun else None) or _binding_failed(gang), now)


def _binding_failed(gang: Gang) -> Reason | None:
    """Return which member can't be bound and why, None if all can.

    The reason changes only with the failure's text or the member that it names.
    """
    failed = [member for member in gang.pending() if member.assignment is not None and member.binding_failure]
    if not failed:
        return None
    first = min(failed, key=lambda member: natural_order(member.pod.name))
    assert first.assignment is not None
    text = f"placed, but {first.pod.name} can't be bound to {first.assignment.node}: {first.binding_failure}"
    return Reason(ReasonCode.CANNOT_BIND, text)


def _below_size(gang: Gang, limits: Limits) -> Reason | None:
    """Return why a begun gang has fewer members than its size.

    Return None if it has enough, or if it was complete and no kubelet has rejected a member.
    """
    present = len(gang.alive()) + gang.ended
    if present >= gang.size:
        return None
    risk = at_risk(gang, limits)
    rejected = rejection(gang.members.values())
    if rejected:
        return Reason(ReasonCode.REJECTED, f"{rejected}; another pod has to take its place{risk}")
    if gang.was_complete:
        return None
    return Reason(ReasonCode.WAITING_FOR_MEMBERS, waiting(present, gang.size).text + risk)


def rejection(members: Iterable[Member]) -> str:
    """Return in words which of the members kubelets have rejected and why, "" if they have rejected none."""
    rejected = sorted(
        (member.pod for member in members if member.pod.rejected), key=lambda pod: natural_order(pod.name)
    )
    if not rejected:
        return ""
    first, *others = rejected
    more = f", and {len(others)} more" if others else ""
    return f"kubelet rejected {first.name} on {first.node} ({first.rejection}){more}"


BOUND_BY_NONE = (
    f"it names scheduler {DIRECT_SCHEDULER_NAME}, and this service binds no pods by itself (--bind-by=kube-scheduler): "
    f"install deploy/bind-by-kube-scheduler, and create the pod anew with schedulerName: {SCHEDULER_NAME}"
)
"""Why a direct pod isn't placed by a service that leaves every pod to kube-scheduler's filters."""

UNCOUNTED = Reason(
    ReasonCode.SELECTING_DEVICES, "its claims are being compared with the devices of the nodes"
)
"""The reason of a gang that isn't tried until its claims have been compared with the devices of all nodes."""


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
        self._assembling: set[GangKey] = set()
        """The gangs that lacked members when they were last looked at."""

    def apply(self, gang: Gang, now: float) -> None:
        """Have the queue count a gang in its present state, and record which rule, if any, keeps it waiting."""
        self._admission.note(gang)
        gang.obstacle = self._obstacle(gang) if waits(gang) else None
        if gang.obstacle is not None:
            gang.remember(again_at=self._quotas.uncreated.until(gang.key.namespace))
            gang.explain(gang.obstacle, now)

    def _obstacle(self, gang: Gang) -> Reason | None:
        """Return the rule that keeps a waiting gang from being tried, None if none does."""
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
        """Compare the claims of a gang with the devices of some nodes. Return a reason if that isn't finished.

        The gang is looked at again then.
        """
        if self._places.counted(ready):
            return None
        self._registry.dirty.add(gang.key)
        return UNCOUNTED

    def _unbindable(self, ready: list[Member]) -> Reason | None:
        """Return why some pods can't be bound, None if all can: the service may bind no direct pods."""
        direct = (member.pod for member in ready if member.pod.direct and not self._limits.binds_direct)
        first = next(direct, None)
        return Reason(ReasonCode.INVALID_REQUEST, f"pod {first.name}: {BOUND_BY_NONE}") if first else None

    def _over_namespace_quota(self, gang: Gang, ready: list[Member]) -> Reason | None:
        """Return why the expected pods of a gang without places may get none, None if they may."""
        if has_places(gang) or not any(member.pod.expected for member in ready):
            return None
        ready.sort(key=lambda member: rank_key(member.pod))
        return self._quotas.obstacle(gang, self._admission.joining(gang, ready)[0])

    def _not_whole(self, gang: Gang, size: int, missing: int) -> Reason:
        """Return why a gang waits if it lacks members, or if its members have gates of others."""
        present = len(gang.alive()) + gang.ended
        if present >= size:
            return waiting_for_gates(gang.alive()) or waiting(present, size)
        elsewhere = self._registry.foreign_members(gang)
        self._assembling.add(gang.key)
        never = self._places.never([member.pod for member in gang.placeless()], missing)
        if never is None:
            reason, rejected = waiting(present, size, elsewhere), rejection(gang.members.values())
            return reason.followed_by(rejected) if rejected else reason
        for foreign in named_elsewhere(elsewhere):
            never = never.followed_by(foreign)
        return never

    def node_changed(self) -> None:
        """Have the gangs that lack members looked at, because it depends on the nodes whether they could ever fit."""
        self._registry.look_at(self._assembling)
        self._assembling.clear()


def has_places(gang: Gang) -> bool:
    """Return whether a member has a place."""
    return any(member.assignment is not None for member in gang.alive())


def planning_failed(error: Exception) -> Reason:
    """Return the reason of a gang for which the service itself fails."""
    why = f"the service's fault, not yours: {error!r} (see its log)"
    return Reason(ReasonCode.PLANNING_FAILED, f"planning failed, which is {why}")


def size_of(gang: Gang) -> int | Reason:
    """Return how many members make the gang whole, or why that isn't known."""
    return required_size(gang.key, gang.alive())


def take_size(gang: Gang) -> int | Reason:
    """Return what `size_of` says, and give the gang the size if it is known."""
    size = size_of(gang)
    if not isinstance(size, Reason):
        gang.size = size
    return size


def need(gang: Gang, size: int) -> tuple[list[Member], int, int]:
    """Return the members that can be placed now, how many have places, and how many of ``size`` lack one."""
    ready = [member for member in gang.placeless() if not foreign_gates(member.pod)]
    placed = sum(1 for member in gang.alive() if member.assignment is not None)
    return ready, placed, size - placed - gang.ended


def places_needed(gang: Gang, size: int) -> int:
    """Return how many more places the gang needs."""
    placed = sum(1 for member in gang.alive() if member.assignment is not None)
    return max(size - placed - gang.ended, 0)


def placeless_of(gang: Gang, members: Iterable[Member]) -> list[Member]:
    """Return the members, as they are in ``gang``, that have no place."""
    present = (gang.members[member.pod.uid] for member in members)
    return [member for member in present if member.assignment is None]


def together(gang: Gang, ready: list[Member], missing: int) -> tuple[list[Member], list[Member], int]:
    """Return which ``ready`` members are placed first, which later, and how many of the former need places together.

    Members that replace lost ones of a gang that runs, and members beyond its size, are placed one by one.
    """
    first = missing if gang.must_be_completed and missing > 0 else len(ready)
    return ready[:first], ready[first:], 1 if gang.begun and gang.was_complete else max(missing, 1)


def invalid(ready: Iterable[Member]) -> Reason | None:
    """Return why some members can't be planned at all, or not yet; None if all can."""
    return unplannable([member.pod for member in ready])
