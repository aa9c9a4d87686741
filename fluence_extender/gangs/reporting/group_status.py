"""The status of PodGroups of scheduling.x-k8s.io: the group's phase, and how many of its pods run or have ended.

The phases are those of the coscheduling plugin: Pending (pods are missing), Scheduling (all pods exist), Running and
Finished (as many as required run, or have succeeded), Failed (a pod has failed, and none is missing). The last two are
final. A status is written only if it differs from the one in the cluster. A new status is written soon. If the same
status was written before, the write was refused or another client writes too, so it is repeated only seldom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from fluence_extender.gangs.execution.actions import ReportMembers
from fluence_extender.gangs.membership.gang import Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.notation import format_time, natural_order
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
FINAL = (FINISHED, FAILED)
BETWEEN = 1.0
AGAIN = 30.0
"""Seconds between two writes of one group's status, with different content and with the same."""

Name = tuple[str, str]


class GroupReports:
    """Decides which groups' status has to be written."""

    def __init__(self, registry: Registry, calendar: Callable[[], float]) -> None:
        self._registry = registry
        self._calendar = calendar
        self._written: dict[Name, tuple[float, MemberStatus]] = {}
        self._later: dict[Name, float] = {}

    def due(self, now: float) -> list[ReportMembers]:
        """Return the status to write now, of groups with new observations and of those that were put off until now."""
        names = self._registry.touched_groups
        self._registry.touched_groups = set()
        names |= {name for name, when in self._later.items() if when <= now}
        found = (self._report(name, now) for name in sorted(names))
        return [report for report in found if report is not None]

    def _report(self, name: Name, now: float) -> ReportMembers | None:
        self._later.pop(name, None)
        group = self._registry.workloads.find(CoschedulingGroup, *name)
        if group is None:
            self._written.pop(name, None)
            return None
        gangs = self._registry.in_group(*name)
        members = [member for gang in gangs for member in gang.members.values()]
        status = member_status(group, members, self._calendar())
        if status == group.status:
            return None
        when, written = self._written.get(name, (float("-inf"), None))
        not_before = when + (AGAIN if written == status else BETWEEN)
        if now < not_before:
            self._later[name] = not_before
            return None
        self._written[name] = now, status
        # If the write fails, no observation follows.
        self._later[name] = now + AGAIN
        return ReportMembers(group, status)


def member_status(group: CoschedulingGroup, members: Sequence[Member], now: float) -> MemberStatus:
    """Return the status of a group with these members. A final status stays. ``now`` is in seconds since the epoch."""
    if group.status.phase in FINAL:
        return group.status
    phases = Counter(member.pod.phase for member in members)
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    phase = _phase(group.min_member, len(members), running, succeeded, failed)
    if phase == PENDING:
        return MemberStatus(
            phase, group.status.occupied_by, running, succeeded, failed, group.status.schedule_start
        )
    begun = format_time(datetime.fromtimestamp(now, UTC))
    return MemberStatus(
        phase,
        group.status.occupied_by or _owners(members),
        running,
        succeeded,
        failed,
        group.status.schedule_start or begun,
    )


def _phase(minimum: int, present: int, running: int, succeeded: int, failed: int) -> str:
    if present < minimum:
        return PENDING
    if succeeded >= minimum:
        return FINISHED
    if failed and failed + running + succeeded >= minimum:
        return FAILED
    return RUNNING if running + succeeded >= minimum else SCHEDULING


def _owners(members: Sequence[Member]) -> str:
    """Return the owner of the first pod, in the form that the coscheduling plugin writes."""
    first = min((member.pod for member in members), key=lambda pod: natural_order(pod.name))
    return f"{first.namespace}/{first.owner.name}" if first.owner is not None else ""
