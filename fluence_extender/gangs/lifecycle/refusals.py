"""What a failed attempt teaches about a node.

kube-scheduler's own filters have the last word, and often what they see is only a moment older than what we see. So a
node is tried twice before it counts as refused, and then it is barred for that pod for a while or until it changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.lifecycle.agenda import NEVER
from fluence_extender.gangs.lifecycle.judgements import judgements, shown
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.gang import Convention
from fluence_extender.model.reason import Reason, ReasonCode


def count_refusal(member: Member, node: str, now: float, limits: Limits) -> bool:
    """Count a failed attempt on ``node``, the planned one; whether the node is barred for the pod from now on.

    One attempt can be seen twice, in a filter call and in the nomination that is cleared after it: it counts once.
    """
    if member.refusals and now - member.refused_last < limits.same_attempt:
        return False
    member.refusals += 1
    member.refused_last = now
    if member.refusals == 1:
        member.refused_first = now
    patient = now - member.refused_first >= limits.refusal_patience
    if member.refusals < limits.same_node_tries or not patient:
        return False
    member.barred[node] = now + limits.barred_for
    return True


def may_be_in_the_way(gang: Gang, member: Member) -> bool:
    """Whether the member should be moved when its gang can't gather: if it shares its node, or if no member does."""
    nodes = [one.assignment.node for one in gang.alive() if one.assignment is not None]
    alone = member.assignment is not None and nodes.count(member.assignment.node) == 1
    return not alone or len(nodes) == len(set(nodes))


def still_barred(member: Member, now: float) -> frozenset[str]:
    """The nodes barred for the pod; bars whose time is over are forgotten."""
    member.barred = {node: until for node, until in member.barred.items() if until > now}
    return frozenset(member.barred)


def next_bar_ends(members: Iterable[Member]) -> float:
    """When the first of the members' bars ends; infinity when there is none."""
    return min((until for member in members for until in member.barred.values()), default=NEVER)


def refused_by_filters(gang: Gang) -> Reason:
    """Why a gang rests: on how many nodes it was refused, and what kube-scheduler said last."""
    refused = [member for member in gang.members.values() if member.barred]
    nodes = {node for member in refused for node in member.barred}
    who = "the pod" if gang.key.convention is Convention.ALONE else "a member"
    known = (one.judged for one in refused if one.judged)
    said = next(known, ()) or next(filter(None, (judgements(one.pod.refusal) for one in refused)), ())
    told = f"its last attempt: {shown(said)}" if said else "see its events"
    return Reason(
        ReasonCode.REFUSED_BY_FILTERS,
        f"kube-scheduler's own filters refused {who} on {len(nodes)} of the nodes that have room ({told})",
    )
