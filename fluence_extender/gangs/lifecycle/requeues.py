"""Gangs that have to give their places back, and go back in line instead of being evicted.

The pods of a suspended Job are deleted, and don't count against its ``backoffLimit``, and so are those of suspended
MPIJobs and RayClusters. So the service suspends the workloads of a gang if it may suspend them all, and `expected_pods`
resumes them in their turn. All other gangs are evicted.

The workloads of a gang are suspended one after the other. If the service ends in between, the next leader finds a gang
that has begun and is short of members. It suspends the other workloads if there still is a reason for it. Otherwise it
completes the gang before it serves any other.

Invariants: a suspension takes away only pods that have to go. A gang that goes back keeps its place in line, which is
recorded on its workloads and so outlives a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from fluence_extender.gangs.execution.actions import Requeue
from fluence_extender.gangs.membership.conventions.operators import mpi_job_name
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.workloads import owning
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.model.names import NEVER_SUSPEND, SUSPEND_LABEL
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.wording import WithNames
from fluence_extender.model.workload import MpiJob, Resumable

LAUNCHER = "-launcher"
"""The end of the name of the Job that the MPI Operator creates for an MPIJob's launcher."""


class Requeues:
    """Decides which gangs go back in line."""

    def __init__(self, registry: Registry, settings: Queues) -> None:
        self._registry = registry
        self._settings = settings
        self._refused: set[str] = set()

    def refused(self, uid: str) -> None:
        """Record that the API server forbids suspending the workload, so that its pods are evicted."""
        self._refused.add(uid)

    def requeue(
        self,
        gang: Gang,
        pods: Sequence[Pod],
        reason: str,
        with_names: WithNames | None = None,
        again: bool = False,
        others: Sequence[Gang] = (),
    ) -> Requeue | None:
        """Return how a gang and ``others`` go back in line together, None if their pods have to be evicted.

        ``pods`` are their bound pods. If the result has no workloads, all of them are suspended already, and nothing
        has to be done.
        """
        gangs = (gang, *others)
        jobs = self._jobs(gangs)
        if jobs is None:
            return None
        running = tuple(job for job in jobs if not job.suspended)
        since = min(place(one, jobs) for one in gangs)
        return Requeue(gang.key, running, tuple(pods), since, reason, with_names, again)

    def of_same_workloads(self, gang: Gang) -> list[Gang]:
        """Return the other gangs that have pods of the workloads of this one."""
        owners = {member.pod.owner.uid for member in gang.alive() if member.pod.owner is not None}
        keys = {key for uid in owners for key in self._registry.gangs_of(gang.key.namespace, uid)} - {
            gang.key
        }
        return [self._registry.gangs[key] for key in sorted(keys)]

    def _jobs(self, gangs: Sequence[Gang]) -> list[Resumable] | None:
        """Return the workloads of the gangs' living pods, None if suspending them can't take just these away."""
        found: dict[str, Resumable] = {}
        keys = {gang.key for gang in gangs}
        for member in chain.from_iterable(gang.alive() for gang in gangs):
            owner = member.pod.owner
            if owner is None:
                return None
            if owner.uid in found:
                continue
            job = self._workload(member.pod, owner)
            if job is None or not self._may_suspend(job):
                return None
            uids = owner.uid, job.uid
            if any(key not in keys for uid in uids for key in self._registry.gangs_of(job.namespace, uid)):
                return None
            found[owner.uid] = job
        return list({job.uid: job for job in found.values()}.values())

    def _workload(self, pod: Pod, owner: Owner) -> Resumable | None:
        """Return the workload whose suspension takes the pod away, None if there is none."""
        find, name = self._registry.workloads.find, mpi_job_name(pod)
        mpi_job = find(MpiJob, pod.namespace, name) if name else None
        if mpi_job is not None and owner.is_a("Job", "batch") and owner.name == f"{name}{LAUNCHER}":
            return mpi_job
        workload = owning(owner, pod.namespace, self._registry.workloads)
        return workload if isinstance(workload, Resumable) else None

    def _may_suspend(self, job: Resumable) -> bool:
        if not job.ours or not job.suspendable or job.finished or job.uid in self._refused:
            return False
        if self._settings.is_kueues(job):
            return False
        return self._settings.labels_of(job.namespace).get(SUSPEND_LABEL) != NEVER_SUSPEND


def place(gang: Gang, jobs: Sequence[Resumable]) -> tuple[float, int]:
    """Return the place in line of a gang that has places, which is that of the oldest of its pods and planned Jobs.

    A Job that was resumed with a plan has waited longer than its pods.
    """
    age = gang.created
    return min((age, *(job.queued_since or (job.created, age[1]) for job in jobs if job.nodes)))
