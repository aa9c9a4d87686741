"""How long a gang may take to assemble and to be completed, and when to look at it although nothing has changed.

A gang that doesn't assemble in time gets another reason and nothing more: it holds nothing, and it is placed once it is
whole after all. A gang that has begun and can't be completed in time is undone: its bound members are evicted. What the
gang itself states (a PodGroup's scheduleTimeoutSeconds, an annotation) comes before the service's limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.assembly import shortest_patience
from fluence_extender.gangs.membership.gang import ASSEMBLED, Assembly, Gang, Member


def gather(gang: Gang, alive: Iterable[Member], complete: bool, now: float, limits: Limits) -> None:
    """Record whether all members exist, and whether that has taken too long."""
    patience = shortest_patience(member.membership for member in alive)
    if complete:
        gang.assembly = ASSEMBLED if patience is None else Assembly(patience=patience)
        return
    since = now if gang.assembly.since is None else gang.assembly.since
    limit = limits.assembly if patience is None else patience
    late = limit is not None and now - since >= limit
    gang.assembly = Assembly(since, limit if late else None, patience)


def falls_late(gang: Gang, now: float, limits: Limits) -> bool:
    """Return whether the time to assemble has just run out."""
    return gang.assembly.late_after is None and now >= _late_at(gang, limits)


def _late_at(gang: Gang, limits: Limits) -> float:
    return _after(gang.assembly.since, _limit(gang, limits.assembly))


def undone_at(gang: Gang, limits: Limits) -> float:
    """Return when the bound members of a gang that isn't whole are evicted."""
    return _after(gang.incomplete_since, _completion(gang, limits))


def _completion(gang: Gang, limits: Limits) -> float | None:
    """Return the limit after which a begun gang is undone; a service without one never undoes a gang."""
    return None if limits.completion is None else _limit(gang, limits.completion)


def _limit(gang: Gang, standard: float | None) -> float | None:
    """Return what the gang itself states, or else the service's limit."""
    return standard if gang.assembly.patience is None else gang.assembly.patience


def _after(since: float | None, limit: float | None) -> float:
    return NEVER if since is None or limit is None else since + limit


def undo(gang: Gang, now: float, limits: Limits) -> str:
    """Return why the bound members of a begun gang are evicted, "" if its limit hasn't run out."""
    if now < undone_at(gang, limits):
        return ""
    gang.incomplete_since = now
    missing = str(gang.reason or "members are missing").removesuffix(at_risk(gang, limits))
    return f"gang {gang.key} could not be completed within {_completion(gang, limits):g} s: {missing}"


def at_risk(gang: Gang, limits: Limits) -> str:
    """Return the end of a reason, which says what happens to bound members if the others aren't bound in time."""
    limit = _completion(gang, limits)
    bound = sum(1 for member in gang.alive() if member.bound)
    if gang.whole or not bound or limit is None:
        return ""
    are = "member is bound and" if bound == 1 else "members are bound and"
    return f"; {bound} of {gang.size} {are} evicted unless the gang is completed within {limit:g} s"


def stalls_at(member: Member, limits: Limits) -> float:
    """Return when the member is given up, unless kube-scheduler requests its node."""
    if not member.pod.refusal or not member.movable or not member.alive:
        return NEVER
    return member.written.at + limits.unasked


def due(gang: Gang, now: float, limits: Limits) -> float:
    """Return when to look at the gang next if nothing is observed of it.

    At that time a reason is due to be announced, a plan is due to be tried again, or a limit runs out.
    """
    # No pass tries a gang during its back-off.
    times = [max(gang.again_at, gang.back_off.until), undone_at(gang, limits)]
    if gang.back_off.until > now:
        times.append(gang.back_off.until)
    if gang.reason is not None and gang.memory.announced != gang.reason.text:
        times.append(gang.memory.reason_since + limits.announce_after)
    if gang.assembly.late_after is None:
        times.append(_late_at(gang, limits))
    times.extend(stalls_at(member, limits) for member in gang.pending() if member.pod.refusal)
    return min(times)
