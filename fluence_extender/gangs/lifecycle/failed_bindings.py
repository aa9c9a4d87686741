"""Members that have their place and whose Bindings don't come about, and what their gangs are told.

The API server may refuse a Binding (an admission webhook or policy on pods/binding, a quota), or kube-scheduler may be
unable to write any. Of its own Bindings kube-scheduler says so in the PodScheduled condition (reason SchedulerError),
or nothing is seen of them at all. It tries again, and so do we; the place stays the member's. Invariant: what is told
changes only when a failure says something else or the member that is named goes on.
"""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.agenda import NEVER
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.notation import natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode


def note_failure(member: Member, before: Pod | None) -> None:
    """Take note of what kube-scheduler says of its Binding of the member, whose pod was ``before``.

    What it says of others may be an answer of ours that it passes on.
    """
    pod, said = member.pod, before.failure if before is not None else ""
    if pod.node or pod.refusal:
        member.unbound = ""
    elif pod.failure not in ("", said) and (member.handed < NEVER or (member.unbound and not pod.marked)):
        member.unbound = pod.failure


def note_silence(member: Member, limits: Limits) -> None:
    """Take note that nothing was seen of kube-scheduler's Binding in time."""
    member.unbound = (
        member.unbound or f"kube-scheduler was told and has not bound it within {limits.handed:g} s"
    )


def explain_unbound(gang: Gang, now: float) -> None:
    """Say who can't be bound, or no longer that somebody can't; unless something else is said of the gang."""
    if gang.reason is None or gang.reason.code is ReasonCode.CANNOT_BIND:
        gang.explain(_reason(gang), now)


def _reason(gang: Gang) -> Reason | None:
    waiting = [one for one in gang.pending() if one.unbound and one.assignment is not None]
    if not waiting:
        return None
    first = min(waiting, key=lambda one: natural_order(one.pod.name))
    assert first.assignment is not None
    text = f"placed, but {first.pod.name} can't be bound to {first.assignment.node}: {first.unbound}"
    return Reason(ReasonCode.CANNOT_BIND, text)
