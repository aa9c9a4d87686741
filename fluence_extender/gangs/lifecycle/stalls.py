"""Members that kube-scheduler refuses before it asks for their node, such as one that lacks its PersistentVolumeClaim.

Nothing comes of the place that is kept for such a member, and no filter call ever says so. So when a steered member was
refused and not asked for in a while, its gang gives its places back and rests, longer each time, until kube-scheduler
asks for that member after all.
"""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.agenda import NEVER
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.reason import Reason, ReasonCode


def stalls_at(member: Member, limits: Limits) -> float:
    """When the member is given up, unless kube-scheduler asks for it."""
    kept = member.pending and member.assignment is not None and not member.binding
    return member.heard + limits.unasked if kept and member.pod.refusal else NEVER


def stalled(gang: Gang, now: float, limits: Limits) -> Member | None:
    """A member for which a place is kept in vain, or None."""
    return next((one for one in gang.pending() if one.pod.refusal and stalls_at(one, limits) <= now), None)


def refused_unasked(member: Member) -> Reason:
    """Why it rests."""
    refusal = member.pod.refusal
    return Reason(
        ReasonCode.REFUSED_BY_FILTERS,
        f"kube-scheduler refuses {member.pod.name} before it asks for its node: {refusal}",
    )
