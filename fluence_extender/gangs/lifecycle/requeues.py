"""Gangs that have to give their places back, and go back in line instead of being evicted.

An evicted pod counts against its Job's ``backoffLimit``. The Job controller deletes the pods of a suspended Job without
counting them. So where all pods of a gang belong to Jobs that the service may suspend, these are suspended, held for
placement, and `births` resumes them in their turn. All other gangs are evicted.

Invariants: a suspension takes away the pods of one gang and of no other; and a gang that goes back keeps the place in
line that it had, which is recorded on its Jobs and so outlives a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fluence_extender.gangs.execution.actions import Requeue
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.names import NEVER_SUSPEND, SUSPEND_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job


class Requeues:
    """Decides which gangs go back in line; ``labels`` returns the labels of a namespace, as far as they are known."""

    def __init__(self, registry: Registry, labels: Callable[[str], Mapping[str, str]]) -> None:
        self._registry = registry
        self._labels = labels
        self._refused: set[str] = set()

    def refused(self, uid: str) -> None:
        """Take in that the API server forbids suspending the Job: its pods are evicted."""
        self._refused.add(uid)

    def requeue(
        self, gang: Gang, pods: Sequence[Pod], reason: str, with_names: str = "", again: bool = False
    ) -> Requeue | None:
        """Return how a gang with these bound pods goes back in line, None where its pods have to be evicted.

        Without any Jobs in the result nothing has to be done: all of them are suspended.
        """
        jobs = self._jobs(gang)
        if jobs is None:
            return None
        running = tuple(job for job in jobs if not job.suspended)
        return Requeue(gang.key, running, tuple(pods), place(gang, jobs), reason, with_names, again)

    def _jobs(self, gang: Gang) -> list[Job] | None:
        """Return the Jobs of the gang's living pods, None where these can't go by suspending them."""
        found: dict[str, Job] = {}
        for member in gang.alive():
            owner = member.pod.owner
            if owner is None or not owner.is_a("Job", "batch"):
                return None
            if owner.uid in found:
                continue
            job = self._registry.workloads.find(Job, member.pod.namespace, owner.name)
            if job is None or job.uid != owner.uid or not self._may_suspend(job):
                return None
            if any(key != gang.key for key in self._registry.gangs_of(owner.uid)):
                return None
            found[owner.uid] = job
        return list(found.values())

    def _may_suspend(self, job: Job) -> bool:
        if not job.ours or not job.suspendable or job.finished or job.uid in self._refused:
            return False
        return self._labels(job.namespace).get(SUSPEND_LABEL) != NEVER_SUSPEND


def place(gang: Gang, jobs: Sequence[Job]) -> tuple[float, int]:
    """Return the place in line of a gang that has places.

    Pods that were created with their nodes are younger than their Job, which waited for them.
    """
    age = gang.created
    return min((age, *(job.queued_since or (job.created, age[1]) for job in jobs if job.nodes)))
