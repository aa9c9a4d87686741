"""Members whose Binding kube-scheduler writes itself, once our filter has named their node.

Such a pod requests nothing that its Binding would have to carry, and needn't wait for others. kube-scheduler doesn't
report the outcome of its Binding to us; the watch shows it. Invariant: from our answer on, the member's place isn't
taken from it until the watch shows that the pod is bound, refused or being deleted, or until so much time has passed
that the attempt is over. (kube-scheduler may have ended; otherwise it calls our filter again.)

Marked members, whose Bindings we write, go first. The others of their gang keep their gates until the marked ones have
gathered at the barrier, so that no member is bound before all may be. There is one exception: if a marked member has to
be near an unmarked one (required affinity), kube-scheduler would refuse it until that one is there. If kube-scheduler
refuses the marked member for another reason, the others wait as well, because they would run in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.gangs.lifecycle.member_states import Binding
from fluence_extender.gangs.lifecycle.refusals import verdicts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.names import MARK_RESOURCE
from fluence_extender.model.pod import Pod
from fluence_extender.model.selectors import holds

UNMARKED = (
    f"requests devices but not {MARK_RESOURCE}, so nothing would record on it which ones it got: create it anew "
    "where fluence's admission policy is installed"
)
NOT_ITS_TURN = "waiting for the members of its gang that are bound together"


@dataclass(frozen=True, slots=True)
class HandoverDenied:
    """kube-scheduler may not bind the member itself: not yet, or ``for_good``."""

    text: str
    for_good: bool


def may_be_handed_over(pod: Pod) -> bool:
    """Return whether kube-scheduler may bind the pod itself: its Binding wouldn't record the pod's devices."""
    return not pod.devices


def unbindable(gang: Gang, requested: Member) -> Member | None:
    """Return a member that kube-scheduler would bind itself without recording the pod's devices, or None.

    ``requested`` is the member whose node kube-scheduler requests. The others count only if the gang hasn't begun.
    """
    placed = () if gang.begun else (one for one in gang.pending() if one.assignment is not None)
    unmarked = (one for one in (requested, *placed) if not one.pod.marked)
    return next((one for one in unmarked if not may_be_handed_over(one.pod)), None)


def ended(pod: Pod, before: Pod | None) -> bool:
    """Return whether the pod's present state shows that the attempt to bind it is over."""
    refused = before is not None and pod.refusal != before.refusal
    return bool(pod.node) or pod.deleting or pod.finished or refused


def lapsed(gang: Gang, now: float) -> list[Member]:
    """Return the handed-over members that weren't seen bound in time."""
    return [one for one in gang.members.values() if isinstance(one.data, Binding) and one.data.until <= now]


def marked_go_first(gang: Gang) -> bool:
    """Return whether marked members have yet to gather, so that the others wait for them."""
    if gang.begun or gang.barrier.open or not gang.led_by_marked:
        return False
    return not _need_unmarked(gang)


def _need_unmarked(gang: Gang) -> bool:
    """Return whether a marked member has to be near an unmarked one, and can't be the first of its kind.

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
    """Return whether kube-scheduler doesn't refuse the pod, or refuses it (also) because its neighbors are missing."""
    return not pod.refusal or "InterPodAffinity" in dict(verdicts(pod.refusal))


def first_to_steer(gang: Gang, wanted: Sequence[Member]) -> Sequence[Member]:
    """Return those of ``wanted`` that may be steered now."""
    return [member for member in wanted if member.pod.marked] if marked_go_first(gang) else wanted
