"""Members whose Binding kube-scheduler writes itself, once our filter has named their node.

Such a pod asks for nothing that its Binding would have to say, and needn't wait for others. kube-scheduler tells nobody
how its Binding fares; the watch shows it. Invariant: from our answer on the member's place isn't taken from it until it
is seen bound, refused or going away, or until so much time has passed that the attempt is over (kube-scheduler may have
ended; otherwise it asks again). Marked members go first: the others of their gang keep their gates until those have
gathered at the barrier, so that none is bound before all may be. Unless a marked one has to be near an unmarked one
(required affinity): kube-scheduler would refuse it until that one is there. But as long as it refuses it for something
else, the others would run in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.gangs.lifecycle.member_states import Binding
from fluence_extender.gangs.lifecycle.refusals import verdicts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.names import MARK_RESOURCE
from fluence_extender.model.pod import Pod
from fluence_extender.placement.eligibility import holds

UNMARKED = (
    f"requests devices but not {MARK_RESOURCE}, so nothing would record on it which ones it got: create it anew "
    "where fluence's admission policy or webhook is installed, or start kube-scheduler with what "
    "`fluence-extender scheduler-config --barrier` prints"
)
NOT_ITS_TURN = "waiting for the members of its gang that are bound together"


@dataclass(frozen=True, slots=True)
class HandoverDenied:
    """kube-scheduler may not bind the member itself: not yet, or ``for_good``."""

    text: str
    for_good: bool


def may_be_handed_over(pod: Pod) -> bool:
    """Whether kube-scheduler may bind the pod itself: nobody else would write on it which devices it has got."""
    return not pod.devices


def unbindable(gang: Gang, asked: Member) -> Member | None:
    """The member that nobody would bind: who is ``asked`` for or, as long as its gang isn't begun, any other.

    kube-scheduler would bind it itself, and not say which devices it has got.
    """
    placed = () if gang.begun else (one for one in gang.pending() if one.assignment is not None)
    unmarked = (one for one in (asked, *placed) if not one.pod.marked)
    return next((one for one in unmarked if not may_be_handed_over(one.pod)), None)


def ended(pod: Pod, before: Pod | None) -> bool:
    """Whether the pod as it is now says that the attempt to bind it is over."""
    refused = before is not None and pod.refusal != before.refusal
    return bool(pod.node) or pod.deleting or pod.finished or refused


def lapsed(gang: Gang, now: float) -> list[Member]:
    """The members of which nothing was seen in time."""
    return [one for one in gang.members.values() if isinstance(one.data, Binding) and one.data.until <= now]


def marked_go_first(gang: Gang) -> bool:
    """Whether marked members have yet to gather, and the others to wait for them."""
    if gang.begun or gang.barrier.open or not gang.led_by_marked:
        return False
    return not _seek_the_others(gang)


def _seek_the_others(gang: Gang) -> bool:
    """Whether a marked member has to be near an unmarked one, and can't be the first of its kind itself.

    kube-scheduler (InterPodAffinity) lets a pod pass that selects itself where no other pod is selected.
    """
    placed = [member.pod for member in gang.pending() if member.assignment is not None]
    sought = {
        selector
        for pod in placed
        if pod.marked and _may_follow(pod)
        for selector in pod.pod_affinity
        if not all(holds(one, pod.labels) for one in selector)
    }
    return any(
        all(holds(one, pod.labels) for one in selector)
        for selector in sought
        for pod in placed
        if not pod.marked
    )


def _may_follow(pod: Pod) -> bool:
    """Whether kube-scheduler has nothing against the pod, or among other things that those aren't there it seeks."""
    return not pod.refusal or "InterPodAffinity" in dict(verdicts(pod.refusal))


def first_to_steer(gang: Gang, wanted: Sequence[Member]) -> Sequence[Member]:
    """Those of ``wanted`` that may be told their nodes now."""
    return [member for member in wanted if member.pod.marked] if marked_go_first(gang) else wanted
