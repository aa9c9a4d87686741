"""Keeping the status of PodGroups of scheduling.x-k8s.io: what phase the group is in, and how many of its pods are.

The phases are those of the coscheduling plugin, by level: Pending (pods are missing), Scheduling (all there), Running
and Finished (as many as it needs run, or have succeeded), Failed (one has failed, none is missing); the last two are
final. A write is repeated only when the status differs from what is to be read in the cluster: soon when it is a new
one, seldom when the same was written before, for then it was refused, or somebody else writes it too.
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
"""Seconds between two writes of one group: of different content, of the same."""

Name = tuple[str, str]


class GroupReports:
    """Says which groups' status is to be written."""

    def __init__(self, registry: Registry, calendar: Callable[[], float]) -> None:
        self._registry = registry
        self._calendar = calendar
        self._written: dict[Name, tuple[float, MemberStatus]] = {}
        self._later: dict[Name, float] = {}

    def due(self, now: float) -> list[ReportMembers]:
        """The status to write now: of groups of which something was seen, and of those put off until now."""
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
        # Should the write fail, nothing will be seen of it.
        self._later[name] = now + AGAIN
        return ReportMembers(group, status)


def member_status(group: CoschedulingGroup, members: Sequence[Member], now: float) -> MemberStatus:
    """The status of a group with these members; ``now`` in seconds since the epoch. A final one stays as it is."""
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
    """Who owns the first pod of them all, as the coscheduling plugin writes it."""
    first = min((member.pod for member in members), key=lambda pod: natural_order(pod.name))
    return f"{first.namespace}/{first.owner.name}" if first.owner is not None else ""
