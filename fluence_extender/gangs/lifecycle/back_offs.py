"""Places that are held in vain, and the excluded nodes and back-offs of gangs that follow from them.

A place is held in vain in four cases:

1. kube-scheduler's filters refuse the member on each node where it is placed.
2. kube-scheduler refuses the member before it asks about the node, for instance because a PersistentVolumeClaim is
   missing. Then no filter call comes.
3. A kubelet rejects the pod, although the node has enough in total: for example where no NUMA node has all devices.
   The pod's controller replaces it at once. On the same node the new pod would be rejected again, and so on until its
   Job has failed.
4. The Binding fails. An admission webhook, a policy or a quota refuses it, or the API server doesn't answer.

In case 4 the Binding is tried again, and the member keeps its place. In case 3 the node is excluded for the pods that
replace the rejected one. In the others the gang gives its places back for a while.

Invariants: when a gang's back-off begins, the refused member has no place, and no other member has one unless the gang
has begun. The gang's reason tells why. The number of rejections that are remembered is bounded. Those of pods without a
controller aren't remembered, because nothing replaces such pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

from fluence_extender.gangs.lifecycle.deadlines import at_risk, given_up_at
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.places import CoreParts, Places
from fluence_extender.gangs.lifecycle.refusals import BackOff, GangBackOff, in_words, pause, verdicts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode

REJECTED_FOR, LONGEST_REJECTED = 600.0, 3600.0
"""Seconds for which a node is excluded after its first rejection of an owner's pods; then twice as long each time."""

LONGEST_PATIENCE = 16
"""The time in which a gang's plan may change before it backs off grows to at most so many times the first one."""

MOST_OWNERS, MOST_NODES = 1000, 1000
"""The most owners whose rejected pods are remembered, and the most nodes of one."""


def rejected_now(pod: Pod, before: Pod | None) -> bool:
    """Return whether the kubelet has rejected the pod since its state ``before``. A pod that has run isn't rejected."""
    return pod.rejected and (before is None or not (before.finished or before.phase == "Running"))


class BackOffs:
    """Excludes nodes, and lets gangs back off, if places are held in vain."""

    def __init__(self, core: CoreParts, places: Places) -> None:
        self._registry = core.registry
        self._places = places
        self._limits = core.limits
        self._clock = core.clock
        self._excluded: dict[str, dict[str, float]] = {}
        """By node: the uids of the pods for which it is excluded, each with the end of that; the latest come last."""
        self._rejected: dict[str, dict[str, BackOff]] = {}
        """By the uid of an owner: the nodes whose kubelets have rejected its pods, each with its back-off."""
        self._refused: set[GangKey] = set()
        """The gangs that back off after refusals, perhaps for longer than the first time."""

    # Nodes.

    def note_excluded(self, member: Member, node: str, now: float) -> None:
        """Note that a node is excluded for a member from now on."""
        until_by_pod = self._excluded.setdefault(node, {})
        until_by_pod.pop(member.pod.uid, None)
        until_by_pod[member.pod.uid] = member.refusals.excluded[node]
        for uid in [*takewhile(lambda uid: until_by_pod[uid] <= now, until_by_pod)]:
            del until_by_pod[uid]

    def note_rejected(self, pod: Pod) -> None:
        """Note that the kubelet of its node has rejected the pod."""
        if pod.owner is None or not pod.node:
            return
        nodes = self._rejected.pop(pod.owner.uid, {})
        self._rejected[pod.owner.uid] = nodes
        before = nodes.pop(pod.node, BackOff())
        nodes[pod.node] = before.failed(self._clock(), REJECTED_FOR, LONGEST_REJECTED)
        if len(nodes) > MOST_NODES:
            del nodes[next(iter(nodes))]
        if len(self._rejected) > MOST_OWNERS:
            del self._rejected[next(iter(self._rejected))]

    def exclude_for_new(self, gang: Gang, member: Member) -> None:
        """Exclude for a new member the nodes whose kubelets have rejected other pods of its owner."""
        owner, now = member.pod.owner, self._clock()
        rejected: Mapping[str, BackOff] = self._rejected.get(owner.uid, {}) if owner is not None else {}
        nodes = {node: back_off.until for node, back_off in rejected.items() if back_off.until > now}
        if nodes:
            refusals = replace(member.refusals, excluded={**member.refusals.excluded, **nodes})
            member = gang.change(member.pod.uid, refusals=refusals)
            for node in nodes:
                self.note_excluded(member, node, now)

    def node_changed(self, node: str, now: float) -> list[Gang]:
        """Stop excluding a node, and shorten the back-offs of refused gangs; return those whose back-off was longer.

        A pod that was refused on every node may be accepted on one that is new or has changed.
        """
        for uid in self._excluded.pop(node, ()):
            found = self._registry.member(uid)
            if found is not None:
                gang, member = found
                gang.change(uid, refusals=member.refusals.admitting(node))
        refused = (self._registry.gangs.get(key) for key in sorted(self._refused))
        self._refused.clear()
        return [gang for gang in refused if gang is not None and self._shorten(gang, now)]

    # Gangs.

    def after_refusal(self, gang: Gang, member: Member, now: float) -> None:
        """Find another place for a member whose node has just been excluded, or let the gang back off."""
        limits, first = self._limits, min(gang.back_off.replanned, now)
        back_off = replace(gang.back_off, replans=gang.back_off.replans + 1, replanned=first)
        gang.remember(back_off=back_off)
        gang.barrier.doubt()
        patience = pause(limits.replanned_for, back_off.failures + 1, LONGEST_PATIENCE * limits.replanned_for)
        if back_off.replans < limits.replans + len(gang.members) and now < first + patience:
            self._places.replan_off_gang(gang, member.pod.uid)
            return
        gang.remember(back_off=replace(self._failed(gang, now), replans=0))
        self._registry.dirty.add(gang.key)
        self._refused.add(gang.key)
        self._give_back(gang, member, _refused_by_filters(gang), now)

    def give_up_unrequested(self, gang: Gang, now: float) -> None:
        """Let the gang back off if kube-scheduler has refused a member and hasn't requested its node for too long."""
        member = _unrequested(gang, now, self._limits)
        if member is None:
            return
        why = _refused_before_request(member)
        gang.remember(back_off=replace(self._failed(gang, now), until_requested=member.pod.uid))
        gang.note(HistoryKind.REFUSED, member.pod.name, why.text)
        self._give_back(gang, member, why, now)

    def _failed(self, gang: Gang, now: float) -> GangBackOff:
        """Return the back-off of a gang that begins now. After it, the limit for changes of plan starts again."""
        failed = gang.back_off.failed(now, self._limits.back_off, self._limits.longest_back_off)
        return replace(failed, replanned=NEVER, until_requested="")

    def _shorten(self, gang: Gang, now: float) -> bool:
        """Shorten the back-off of a refused gang to one first pause from now; return whether it was longer."""
        if not gang.back_off.failures or gang.back_off.until <= now + self._limits.back_off:
            return False
        gang.remember(back_off=replace(gang.back_off, until=now + self._limits.back_off))
        return True

    def _give_back(self, gang: Gang, member: Member, why: Reason, now: float) -> None:
        """Take the gang's places back because of ``member``."""
        self._places.drop(gang, member.pod.uid)
        self._places.withdraw(gang)
        gang.explain(Reason(why.code, why.text + at_risk(gang, self._limits)), now)


def _refused_by_filters(gang: Gang) -> Reason:
    """Return why a gang backs off: on how many nodes it was refused, and kube-scheduler's last verdict."""
    refused = [member for member in gang.members.values() if member.refusals.excluded]
    nodes = {node for member in refused for node in member.refusals.excluded}
    subject = "the pod" if gang.key.convention is Convention.ALONE else "a member"
    recorded = (member.refusals.verdicts for member in refused)
    shown = (verdicts(member.pod.refusal) for member in refused)
    last = next(filter(None, recorded), ()) or next(filter(None, shown), ())
    where = f"its last attempt: {in_words(last)}" if last else "see its events"
    return Reason(
        ReasonCode.REFUSED_BY_FILTERS,
        f"kube-scheduler's own filters refused {subject} on {len(nodes)} of the nodes that have room ({where})",
    )


def _unrequested(gang: Gang, now: float, limits: Limits) -> Member | None:
    """Return a member whose place is held in vain because kube-scheduler doesn't request its node, None without one."""
    refused = (member for member in gang.pending() if member.pod.refusal)
    return next((member for member in refused if given_up_at(member, limits) <= now), None)


def _refused_before_request(member: Member) -> Reason:
    refusal = member.pod.refusal
    return Reason(
        ReasonCode.REFUSED_BY_FILTERS,
        f"kube-scheduler refuses {member.pod.name} before it asks for its node: {refusal}",
    )
