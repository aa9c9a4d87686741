"""Announcements: Events for each new reason, and the conditions of gated pods, Jobs and native PodGroups.

A reason is announced once it has stayed the same for a moment, so that a gang whose pods are still being created
doesn't cause an Event for each count. If a controller made the pods, the Event is recorded on its object and on the
first pod. In a large gang of other pods it is recorded on the first members only.

A gang that waits for its turn in the queue gives no cause for a warning. So its Events are Normal. They say why it
waits, that nodes are kept free for it, and that its turn has come.

kube-scheduler doesn't see direct pods, so nothing in the API server says why they wait. So each waiting pod gets a
condition. On the first members of a gang it gives the reason, and on the others it says where to find the reason. When
a gang of several direct pods runs, one Event says where.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.cluster.port import Regarding
from fluence_extender.gangs.execution.actions import Action, RecordEvent, ReportGroup, ReportPod
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.rules import have_nodes
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.reporting.remarks import owner_or_pod
from fluence_extender.gangs.reporting.status import JobReports
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.gang import Convention, GangState, HistoryKind
from fluence_extender.model.notation import first_few, natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import IN_LINE, Reason, ReasonCode

RESERVED, ADMITTED, SCHEDULED = "Reserved", "Admitted", "Scheduled"
NODES_SHOWN = 8
"""The most nodes that an Event names."""

LOST = (ReasonCode.REJECTED, ReasonCode.WAITING_FOR_MEMBERS)
"""The reasons of a gang that has begun and lost a member."""


def announcements(
    gang: Gang, now: float, limits: Limits, registry: Registry, jobs: JobReports, reserved: bool = False
) -> list[Action]:
    """Return the announcements about ``gang`` that are due, and record in the gang that they were made.

    ``reserved`` says whether the queue keeps nodes free for the gang.
    """
    scheduled = [
        *_scheduled(gang, registry),
        *_runs(gang),
        *_queue_events(gang, limits, reserved),
        *jobs.remarks.due(gang),
        *jobs.notes(gang),
    ]
    if gang.state is GangState.BOUND:
        gang.remember(announced="")
        return [*scheduled, *jobs.due(gang, None)]
    if gang.reason is None or now - gang.memory.reason_since < limits.announce_after:
        return scheduled
    if gang.memory.announced == gang.reason.text:
        return [*scheduled, *_untold(gang, now, limits)]
    reason = gang.reason.shown
    in_line = reason.code in IN_LINE
    gang.remember(announced=gang.reason.text, in_line=gang.memory.in_line or in_line)
    waiting = sorted(_concerned(gang), key=lambda member: natural_order(member.pod.name))
    first = [member for member in waiting[: limits.announced_members] if _may_be_told(member)]
    for member in first:
        gang.change(member.pod.uid, told_at=now)
    actions: list[Action] = [
        *scheduled,
        *jobs.due(gang, reason),
        *(
            RecordEvent(about, reason.code.value, f"gang {gang.key}: {reason.text}", not in_line)
            for about in _subjects([member.pod for member in waiting], limits)
        ),
        *(report_pod(gang, reason, member) for member in first),
        *_untold(gang, now, limits),
    ]
    group = _group(gang, registry)
    if group is not None and not _is_scheduled(gang):
        gang.remember(group_scheduled=False)
        actions.append(ReportGroup(group, False, reason.code.value, reason.text))
    return actions


def report_pod(gang: Gang, reason: Reason, member: Member) -> ReportPod:
    """Return the write to the condition of a gated member."""
    message = f"gang {gang.key}: {reason.text}"
    return ReportPod(member.pod, message, gang.asks_since, gang.met)


def _may_be_told(member: Member) -> bool:
    """Return whether the condition of the member's pod is ours to write."""
    pod = member.pod
    return bool(pod.gates or pod.direct) and not pod.expected


def _untold(gang: Gang, now: float, limits: Limits) -> list[ReportPod]:
    """Return the writes of conditions to the waiting direct members that have none yet."""
    untold = [
        member
        for member in gang.members.values()
        if member.pod.direct
        and not member.pod.told
        and member.assignment is None
        and member.told_at + limits.told_again <= now
    ]
    message = (
        f"gang {gang.key} waits for its places: `kubectl fluence why` and the first of its pods say for what"
    )
    reports = []
    for member in untold:
        if member.alive and not (member.bound or member.pod.expected):
            gang.change(member.pod.uid, told_at=now)
            reports.append(ReportPod(member.pod, message, gang.asks_since, gang.met))
    return reports


def _runs(gang: Gang) -> list[RecordEvent]:
    """Return the Event that says where a gang runs, which is recorded once, when it is complete.

    kube-scheduler records one for each pod that it has judged, and a pod by itself names its node.
    """
    if not (gang.was_complete and gang.memory.starting):
        return []
    gang.remember(starting=False)
    bound = sorted(
        (member for member in gang.alive() if member.bound), key=lambda member: natural_order(member.pod.name)
    )
    if len(bound) < 2 or not any(member.pod.direct for member in bound):
        return []
    nodes = sorted({member.bound for member in bound}, key=natural_order)
    text = f"gang {gang.key}: {len(bound)} pods run on {first_few(nodes, NODES_SHOWN)}"
    return [RecordEvent(owner_or_pod(bound[0].pod), SCHEDULED, text, warning=False)]


def _concerned(gang: Gang) -> list[Member]:
    """Return the members that wait. If none does and some were lost, return the rejected or else the living ones."""
    waiting = [member for member in gang.pending() if member.assignment is None or member.binding_failure]
    if waiting or gang.reason is None or gang.reason.code not in LOST:
        return waiting
    rejected = [member for member in gang.members.values() if member.pod.rejected]
    return rejected or gang.alive()


def _queue_events(gang: Gang, limits: Limits, reserved: bool) -> list[RecordEvent]:
    """Return the Events that nodes are kept free for the gang, and that its turn has come."""
    memory = gang.memory
    if gang.state is GangState.WAITING:
        if not reserved or memory.reserved:
            return []
        gang.remember(reserved=True, in_line=True)
        return events(gang, limits, RESERVED, "nodes are kept free for it until it can start")
    if not memory.in_line or gang.reason is not None:
        return []
    gang.remember(reserved=False, in_line=False)
    return events(gang, limits, ADMITTED, "its turn has come, and it has its places")


def events(gang: Gang, limits: Limits, event: str, text: str, warning: bool = False) -> list[RecordEvent]:
    """Return an Event about the first members, and note its text in the gang's history."""
    gang.note(HistoryKind.ANNOUNCED, "", text)
    first = sorted(gang.alive(), key=lambda member: natural_order(member.pod.name))
    abouts = _subjects([member.pod for member in first], limits)
    return [RecordEvent(about, event, f"gang {gang.key}: {text}", warning) for about in abouts]


def _subjects(pods: Sequence[Pod], limits: Limits) -> list[Regarding]:
    """Return the objects on which an Event about these pods is recorded.

    These are the first pods. If several pods have one owner, these are the owner and the first of its pods, if it
    exists.
    """
    owned: dict[str, list[Pod]] = {}
    for pod in pods:
        owned.setdefault(pod.owner.uid if pod.owner is not None else pod.uid, []).append(pod)
    abouts: dict[Regarding, None] = {}
    for pods_of_owner in owned.values():
        first = pods_of_owner[0]
        if len(pods_of_owner) > 1 or first.expected:
            abouts[owner_or_pod(first)] = None
        if not first.expected:
            abouts[Regarding("v1", "Pod", first.namespace, first.name, first.uid)] = None
    return list(abouts)[: limits.announced_members]


def _group(gang: Gang, registry: Registry) -> PodGroup | None:
    if gang.key.convention is not Convention.POD_GROUP:
        return None
    return registry.workloads.find(PodGroup, gang.key.namespace, gang.key.name)


def _is_scheduled(gang: Gang) -> bool:
    """Return whether enough members have their nodes, and none of those that began has to be replaced."""
    return gang.was_complete and (gang.reason is None or gang.reason.code is not ReasonCode.REJECTED)


def _scheduled(gang: Gang, registry: Registry) -> list[Action]:
    """Return the report that enough members of a PodGroup have their nodes. It is made once."""
    group = _group(gang, registry) if _is_scheduled(gang) and not gang.memory.group_scheduled else None
    if group is None:
        return []
    gang.remember(group_scheduled=True)
    members = sum(1 for member in gang.alive() if member.bound)
    return [ReportGroup(group, True, "Scheduled", have_nodes(members))]
