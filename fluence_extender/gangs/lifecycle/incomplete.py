"""Why a gang that has begun lacks members, and until when it may be completed.

A bound member may be rejected by its kubelet, or be deleted before all members are bound. As soon as the member is
lost, the gang's reason says so. If the gang has never been whole, and no other pod takes the place in time, the members
that run are evicted (module `deadlines`). Once enough members exist again, the reason says why they have no nodes yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fluence_extender.gangs.lifecycle.deadlines import at_risk, undone_at
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.notation import natural_order
from fluence_extender.model.reason import Reason, ReasonCode, waiting

OURS = (ReasonCode.CANNOT_BIND, ReasonCode.REJECTED)


def explain_begun(gang: Gang, now: float, limits: Limits, calendar: Callable[[], float]) -> None:
    """Set the reason that keeps a gang with places from being whole, or clear it; leave any other reason alone."""
    begun = gang.begun
    due = undone_at(gang, limits) if begun else NEVER
    gang.undone_about = calendar() + due - now if due < NEVER else None
    lost = begun and gang.reason is not None and gang.reason.code is ReasonCode.WAITING_FOR_MEMBERS
    if gang.reason is None or gang.reason.code in OURS or lost:
        gang.explain((_lacking(gang, limits) if begun else None) or unbound(gang), now)


def unbound(gang: Gang) -> Reason | None:
    """Return which member can't be bound and why, None if all can.

    The reason changes only with the failure's text or the member that it names.
    """
    waiting = [one for one in gang.pending() if one.assignment is not None and one.unbound]
    if not waiting:
        return None
    first = min(waiting, key=lambda one: natural_order(one.pod.name))
    assert first.assignment is not None
    text = f"placed, but {first.pod.name} can't be bound to {first.assignment.node}: {first.unbound}"
    return Reason(ReasonCode.CANNOT_BIND, text)


def _lacking(gang: Gang, limits: Limits) -> Reason | None:
    """Return why a begun gang has fewer members than its size; None if it has enough, or lost them while it ran."""
    present = len(gang.alive()) + gang.ended
    if present >= gang.size:
        return None
    risk = at_risk(gang, limits)
    rejected = rejection(gang.members.values())
    if rejected:
        return Reason(ReasonCode.REJECTED, f"{rejected}; another pod has to take its place{risk}")
    if gang.whole:
        return None
    return Reason(ReasonCode.WAITING_FOR_MEMBERS, waiting(present, gang.size).text + risk)


def rejection(members: Iterable[Member]) -> str:
    """Return which of the members kubelets have rejected and why, "" for none."""
    rejected = sorted(
        (one.pod for one in members if one.pod.rejected), key=lambda pod: natural_order(pod.name)
    )
    if not rejected:
        return ""
    first, *others = rejected
    more = f", and {len(others)} more" if others else ""
    return f"kubelet rejected {first.name} on {first.node} ({first.rejection}){more}"
