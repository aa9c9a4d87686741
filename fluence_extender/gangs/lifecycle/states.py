"""The state of a gang, which follows from its members, and why it isn't whole. Nothing is decided here.

A gang is whole once as many members are bound as its size requires, and it stays whole: members that end or come later
don't make it incomplete again. A pod that its kubelet rejects is one that ends. But its gang isn't bound, and so has a
reason, until it has enough members again. The bound members of a gang that isn't whole run below its minimum, and the
gang records since when. If no other pods take the place of lost ones in time, they are evicted (module `deadlines`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fluence_extender.gangs.lifecycle.deadlines import at_risk, undone_at
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.gang import GangState, HistoryKind
from fluence_extender.model.notation import natural_order
from fluence_extender.model.reason import Reason, ReasonCode, waiting

OF_BEGUN = (ReasonCode.CANNOT_BIND, ReasonCode.REJECTED)
"""The reasons that only gangs with places have."""


def have_nodes(bound: int) -> str:
    """Return in words that so many members are bound."""
    return "1 member has its node" if bound == 1 else f"{bound} members have their nodes"


def finish(gang: Gang, now: float) -> None:
    """Finish a gang without living members. If members come again, it begins anew."""
    if gang.state is not GangState.FINISHED:
        gang.note(HistoryKind.FINISHED, "", "no member is left running")
    gang.state = GangState.FINISHED
    gang.begin_anew()
    gang.explain(None, now)


def update_state(gang: Gang, alive: Sequence[Member], size: int | Reason, now: float) -> bool:
    """Bring the state of a gang with living members up to date; return whether all have their nodes from now on.

    ``size`` is its size, or why that is no longer known. In the latter case bound members stay where they are.
    """
    bound = sum(1 for member in alive if member.bound)
    assigned = any(member.assignment is not None for member in alive)
    gang.count_gathering()
    enough = bound + gang.ended >= gang.size
    whole = gang.whole or (enough and not isinstance(size, Reason))
    replaced = enough or not any(one.pod.rejected for one in gang.members.values())
    if bound == len(alive) and whole and replaced:
        completes = gang.state is not GangState.BOUND
        if completes:
            gang.note(HistoryKind.COMPLETE, "", have_nodes(bound))
        gang.state = GangState.BOUND
        gang.whole = True
        gang.incomplete_since = None
        back_off = replace(gang.back_off, replans=0, replanned=NEVER, failures=0, until_requested="")
        gang.remember(back_off=back_off)
        gang.explain(None, now)
        return completes
    if bound:
        gang.state = GangState.COMMITTED if gang.begun else _state_beside_foreign(gang, alive)
        # Members beyond the size may come and go: those that wait don't endanger those that run.
        gang.whole = whole
        if gang.whole:
            gang.incomplete_since = None
        elif gang.incomplete_since is None:
            gang.incomplete_since = now
    elif not gang.begun:
        gang.incomplete_since = None
        gang.whole = False
        if not assigned:
            gang.state = GangState.WAITING
            gang.begin_anew()
    if isinstance(size, Reason):
        gang.explain(size, now)
    return False


def _state_beside_foreign(gang: Gang, alive: Sequence[Member]) -> GangState:
    """Return the state of a gang none of whose bound members was placed with it."""
    if not any(one.assignment is not None and not one.bound for one in alive):
        return GangState.WAITING
    return GangState.COMMITTED if gang.state is GangState.COMMITTED else GangState.PLANNED


def explain_begun(gang: Gang, now: float, limits: Limits, calendar: Callable[[], float]) -> None:
    """Set the reason that keeps a gang with places from being whole, or clear it; leave any other reason alone."""
    begun = gang.begun
    due = undone_at(gang, limits) if begun else NEVER
    gang.undone_about = calendar() + due - now if due < NEVER else None
    lost = begun and gang.reason is not None and gang.reason.code is ReasonCode.WAITING_FOR_MEMBERS
    if gang.reason is None or gang.reason.code in OF_BEGUN or lost:
        gang.explain((_below_size(gang, limits) if begun else None) or unbound(gang), now)


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


def _below_size(gang: Gang, limits: Limits) -> Reason | None:
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
