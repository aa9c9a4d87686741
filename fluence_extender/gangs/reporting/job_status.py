"""What is written on Jobs: a condition for users, and notes for a restart.

The condition says that the Job's pods couldn't be placed on this cluster even if nothing else ran. So the Job itself
shows why it doesn't start, and `kubectl wait` can wait for the condition. It is written when a gang of the Job's pods
is found to be unsatisfiable, when the reason changes, and when no gang of the Job is unsatisfiable any more. After a
restart the Job still shows it.

Work that has met a dependency may be deleted. So the met dependency is noted on the Job, MPIJob or RayCluster that has
it, for a restart and for the workload's next pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender.gangs.execution.actions import NoteJob, ReportJob
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.workloads import owning
from fluence_extender.gangs.reporting.remarks import RemarkReports
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.workload import Job, Resumable

LASTING = (ReasonCode.UNSATISFIABLE, ReasonCode.NO_BACKEND)
"""The reasons that only another request or another cluster can change."""

FEWEST_KEPT = 100
"""The number of Jobs beyond which those without an unsatisfiable gang are forgotten."""


class JobReports:
    """Decides which Jobs' condition has to be written.

    ``remarks`` decides which owners of pods get an Event about labels and annotations.
    """

    def __init__(self, registry: Registry) -> None:
        self.remarks = RemarkReports(registry.workloads)
        self._registry = registry
        self._gangs: dict[str, set[GangKey]] = {}
        """By the uid of a Job: the gangs of its pods that were unsatisfiable when they were last looked at."""
        self._reported: dict[str, str] = {}
        self._forget_at = FEWEST_KEPT
        self._noted: dict[str, frozenset[str]] = {}
        """By the uid of a workload: the dependencies that are being noted on it."""

    def due(self, gang: Gang, reason: Reason | None) -> list[ReportJob]:
        """Return the writes that are due now that ``gang`` waits for ``reason``, None if it has its places."""
        lasting = reason.text if reason is not None and reason.code in LASTING else ""
        if gang.memory.job_problem == lasting:
            return []
        gang.remember(job_problem=lasting)
        return list(self._reports(gang, lasting))

    def _reports(self, gang: Gang, lasting: str) -> Iterator[ReportJob]:
        for job in self._jobs(gang):
            gangs = self._gangs.setdefault(job.uid, set())
            (gangs.add if lasting else gangs.discard)(gang.key)
            text = self._text(gangs)
            if text != self._reported.get(job.uid, job.unsatisfiable):
                self._reported[job.uid] = text
                yield ReportJob(job, text)
        if len(self._gangs) > self._forget_at:
            self._forget()

    def notes(self, gang: Gang) -> Iterator[NoteJob]:
        """Yield the notes to write on the workloads of a gang."""
        for job in self._owners(gang) if gang.met else ():
            met = gang.met | job.submission.met
            if met == job.submission.met:
                self._noted.pop(job.uid, None)
            elif self._noted.get(job.uid) != met:
                self._noted[job.uid] = met
                yield NoteJob(job, met)

    def not_noted(self, job: Resumable) -> None:
        """Record that a note on the workload couldn't be written, so that it is decided anew."""
        self._noted.pop(job.uid, None)
        self._registry.dirty.update(self._registry.gangs_of(job.namespace, job.uid))

    def _jobs(self, gang: Gang) -> Iterator[Job]:
        """Iterate over the Jobs that own the gang's members."""
        return (one for one in self._owners(gang) if isinstance(one, Job))

    def _owners(self, gang: Gang) -> Iterator[Resumable]:
        """Iterate over the workloads that own the gang's members, if the service may resume their kinds."""
        owners = {one.pod.owner for one in gang.alive() if one.pod.owner is not None}
        for owner in sorted(owners, key=lambda one: one.name):
            workload = owning(owner, gang.key.namespace, self._registry.workloads)
            if isinstance(workload, Resumable):
                yield workload

    def _text(self, gangs: set[GangKey]) -> str:
        """Return the first problem of the gangs, "" if none has one; drop the gangs that don't exist any more."""
        # An intersection with the registry's keys would walk through all gangs of the cluster.
        gangs -= {key for key in gangs if key not in self._registry.gangs}
        problems = (self._registry.gangs[key].memory.job_problem for key in sorted(gangs))
        return next(filter(None, problems), "")

    def _forget(self) -> None:
        """Forget the Jobs without an unsatisfiable gang. Their conditions in the cluster stay."""
        self._gangs = {uid: gangs for uid, gangs in self._gangs.items() if self._text(gangs)}
        self._reported = {uid: text for uid, text in self._reported.items() if uid in self._gangs}
        self._forget_at = max(FEWEST_KEPT, 2 * len(self._gangs))
