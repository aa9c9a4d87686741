"""Announcements: Events for each new reason, and the conditions of gated pods, Jobs and native PodGroups.

A reason is announced once it has stayed the same for a moment, so that a gang whose pods are still being created
doesn't cause an Event for each count. If a controller made the pods, the Event is recorded on its object and on the
first pod. In a large gang of other pods it is recorded on the first members only.

A gang that waits for its turn in the queue is no cause for a warning. Its Events are Normal: the reason, that nodes are
kept free for it, and that its turn has come. No other gang has an Event when it gets its places.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.cluster.port import Regarding
from fluence_extender.gangs.execution.actions import Action, RecordEvent, ReportGroup, ReportPod
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.states import have_nodes
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.reporting.job_status import JobReports
from fluence_extender.gangs.reporting.remarks import owner_or_pod
from fluence_extender.model.gang import Convention, GangState, HistoryKind
from fluence_extender.model.notation import natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import IN_LINE, Reason, ReasonCode
from fluence_extender.model.workload import PodGroup

RESERVED, ADMITTED = "Reserved", "Admitted"
LOST = (ReasonCode.REJECTED, ReasonCode.WAITING_FOR_MEMBERS)
"""The reasons of a gang that has begun and lost a member."""


def announcements(
    gang: Gang, now: float, limits: Limits, registry: Registry, jobs: JobReports, reserved: bool = False
) -> list[Action]:
    """Return the announcements about ``gang`` that are due, and record in the gang that they are made.

    ``reserved`` says whether the queue keeps nodes free for it.
    """
    scheduled = [
        *_scheduled(gang, registry),
        *_queue_events(gang, limits, reserved),
        *jobs.remarks.due(gang),
        *jobs.notes(gang),
    ]
    if gang.state is GangState.BOUND:
        gang.reports.announced = ""
        return [*scheduled, *jobs.due(gang, None)]
    if gang.reason is None or gang.reports.announced == gang.reason.text:
        return scheduled
    if now - gang.reports.reason_since < limits.announce_after:
        return scheduled
    gang.reports.announced = gang.reason.text
    reason = gang.reason.shown
    in_line = reason.code in IN_LINE
    gang.reports.in_line |= in_line
    waiting = sorted(_concerned(gang), key=lambda member: natural_order(member.pod.name))
    actions: list[Action] = [
        *scheduled,
        *jobs.due(gang, reason),
        *(
            RecordEvent(about, reason.code.value, f"gang {gang.key}: {reason.text}", not in_line)
            for about in _subjects([member.pod for member in waiting], limits)
        ),
        *(
            report_pod(gang, reason, member)
            for member in waiting[: limits.announced_members]
            if member.pod.gates and not member.pod.foreseen
        ),
    ]
    group = _group(gang, registry)
    if group is not None and not _is_scheduled(gang):
        gang.reports.group_scheduled = False
        actions.append(ReportGroup(group, False, reason.code.value, reason.text))
    return actions


def report_pod(gang: Gang, reason: Reason, member: Member) -> ReportPod:
    """Return the write to the condition of a gated member."""
    message = f"gang {gang.key}: {reason.text}"
    return ReportPod(member.pod, message, gang.asks_since, gang.met)


def _concerned(gang: Gang) -> list[Member]:
    """Return the members that wait; if others are lost, the ones that kubelets rejected, or else the bound ones."""
    waiting = [one for one in gang.pending() if one.assignment is None or one.unbound]
    if waiting or gang.reason is None or gang.reason.code not in LOST:
        return waiting
    rejected = [one for one in gang.members.values() if one.pod.rejected]
    return rejected or gang.alive()


def _queue_events(gang: Gang, limits: Limits, reserved: bool) -> list[RecordEvent]:
    """Return the Events that nodes are kept free for the gang, and that its turn has come."""
    reports = gang.reports
    if gang.state is GangState.WAITING:
        if not reserved or reports.reserved:
            return []
        reports.reserved = reports.in_line = True
        return events(gang, limits, RESERVED, "nodes are kept free for it until it can start")
    if not reports.in_line or gang.reason is not None:
        return []
    reports.reserved = reports.in_line = False
    return events(gang, limits, ADMITTED, "its turn has come, and it has its places")


def events(gang: Gang, limits: Limits, event: str, text: str, warning: bool = False) -> list[RecordEvent]:
    """Return an Event about the first members, and note its text in the gang's history."""
    gang.note(HistoryKind.ANNOUNCED, "", text)
    first = sorted(gang.alive(), key=lambda member: natural_order(member.pod.name))
    abouts = _subjects([member.pod for member in first], limits)
    return [RecordEvent(about, event, f"gang {gang.key}: {text}", warning) for about in abouts]


def _subjects(pods: Sequence[Pod], limits: Limits) -> list[Regarding]:
    """Return the objects on which an Event about these pods is recorded.

    These are the first pods. Of several pods of one owner it is the owner, and the first of the pods if it exists.
    """
    owned: dict[str, list[Pod]] = {}
    for pod in pods:
        owned.setdefault(pod.owner.uid if pod.owner is not None else pod.uid, []).append(pod)
    abouts: dict[Regarding, None] = {}
    for some in owned.values():
        first = some[0]
        if len(some) > 1 or first.foreseen:
            abouts[owner_or_pod(first)] = None
        if not first.foreseen:
            abouts[Regarding("v1", "Pod", first.namespace, first.name, first.uid)] = None
    return list(abouts)[: limits.announced_members]


def _group(gang: Gang, registry: Registry) -> PodGroup | None:
    if gang.key.convention is not Convention.POD_GROUP:
        return None
    return registry.workloads.find(PodGroup, gang.key.namespace, gang.key.name)


def _is_scheduled(gang: Gang) -> bool:
    """Return whether enough members have their nodes, and none of those that began has to be replaced."""
    return gang.whole and (gang.reason is None or gang.reason.code is not ReasonCode.REJECTED)


def _scheduled(gang: Gang, registry: Registry) -> list[Action]:
    """Return the report that enough members of a PodGroup have their nodes, which is made once."""
    group = _group(gang, registry) if _is_scheduled(gang) and not gang.reports.group_scheduled else None
    if group is None:
        return []
    gang.reports.group_scheduled = True
    members = sum(1 for member in gang.alive() if member.bound)
    return [ReportGroup(group, True, "Scheduled", have_nodes(members))]
