"""The controllers of Jobs and JobSets and the admission of Jobs and their pods, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, replace
from typing import Unpack

from fluence_extender.gangs.membership.gang import JOB_SET_UID
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GATE,
    JOB_SET_NAME,
    PLACED_ANNOTATION,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
)
from fluence_extender.model.pod import Owner, Pod
from tests.core.faulty_cluster import FaultyCluster
from tests.core.values import PodFields, asks, classed

EVERY = 0.05
"""Seconds between two looks at the Jobs."""


def index_of(pod: Pod) -> int:
    """The completion index of a Job's pod."""
    return int(pod.annotations[COMPLETION_INDEX])


@dataclass(frozen=True, slots=True)
class _Part:
    """A Job of a JobSet: of the replicated job ``name``, with ``count`` pods."""

    job_set: str
    name: str
    count: int
    cpu: int
    fields: PodFields


class JobController:
    """Creates the pods of Indexed Jobs, and the Jobs of JobSets; ``run`` it as a task.

    ``sets`` are the JobSets by name. ``quota`` is how many pods it may create, None for any number. ``with_node`` are
    the pods that were created with their node, and ``late`` those that were created without one, by name. ``looked_at``
    is when it last looked at the Jobs. If ``direct``, there is the policy that tells direct pods from others.
    """

    def __init__(self, cluster: FaultyCluster, direct: bool) -> None:
        self.cluster = cluster
        self.direct = direct
        self.quota: int | None = None
        self.with_node: list[str] = []
        self.late: list[str] = []
        self.sets: dict[str, JobSet] = {}
        self._parts: dict[str, _Part] = {}
        self._numbers = itertools.count(1)
        self._running: set[str] = set()
        self.looked_at = 0.0
        self._seen: tuple[int, int | None, int] | None = None

    def submit_set(
        self, name: str, *counts: int, cpu: int = 1000, made_of: str = "", **fields: Unpack[PodFields]
    ) -> list[Job]:
        """Create a JobSet, of the TrainJob ``made_of`` if it names one, and its Jobs, one of so many pods each."""
        parts = {f"r{number}": count for number, count in enumerate(counts)}
        replicated = tuple(ReplicatedJob(part, count) for part, count in parts.items())
        self.sets[name] = JobSet("default", name, f"set-{name}", replicated, made_of=made_of)
        self.cluster.put(self.sets[name])
        for part, count in parts.items():
            self._parts[f"{name}-{part}-0"] = _Part(name, part, count, cpu, fields)
        return [self._submit_part(job) for job in self._jobs_of(name)]

    def suspend_set(self, name: str, suspended: bool) -> None:
        """Suspend or resume a JobSet, as its user."""
        self.sets[name] = replace(self.sets[name], suspended=suspended)
        self.cluster.put(self.sets[name])

    def remove_set(self, name: str) -> list[Job]:
        """Delete a JobSet with its Jobs, and return these; their pods stay."""
        self.cluster.remove(self.sets.pop(name))
        present = self._present()
        parts = self._jobs_of(name)
        jobs = [present[part] for part in parts if part in present]
        for part in parts:
            del self._parts[part]
        for job in jobs:
            self.cluster.remove(job)
        return jobs

    def _jobs_of(self, name: str) -> list[str]:
        return [job for job, part in self._parts.items() if part.job_set == name]

    def _present(self) -> dict[str, Job]:
        return {job.name: job for job in self.cluster.jobs()}

    def _submit_part(self, name: str) -> Job:
        part = self._parts[name]
        keys = {
            JOB_SET_NAME: part.job_set,
            JOB_SET_UID: f"set-{part.job_set}",
            REPLICATED_JOB: part.name,
            REPLICATED_JOB_REPLICAS: "1",
        }
        fields = part.fields.copy()
        fields["labels"] = {**fields.get("labels", {}), **keys}
        job = self.submit(name, part.count, part.cpu, not self.sets[part.job_set].suspended, **fields)
        job = replace(job, job_set=part.job_set, suspended=True)
        self.cluster.put(job)
        return self.cluster.job(job)

    def submit(
        self,
        name: str,
        count: int,
        cpu: int = 1000,
        held: bool = True,
        namespace: str = "default",
        **fields: Unpack[PodFields],
    ) -> Job:
        """Create a Job as admission lets it through: suspended until it is placed, if ``held``.

        ``fields`` are those of its pods.
        """
        uid = f"job-{name}-{next(self._numbers)}"
        owner = Owner("Job", name, uid, "batch/v1")
        index = {COMPLETION_INDEX: "0"}
        fields["labels"] = {**fields.get("labels", {}), **index}
        fields.setdefault("gates", (GATE,))
        pod = Pod(
            namespace,
            f"{name}-0-trial",
            "trial",
            annotations=index,
            owner=owner,
            requests=asks(cpu, 1),
            created=float(next(self._numbers)),
        )
        first = replace(pod, **fields)
        self.cluster.first_pods[uid] = (classed(first) if self.direct else first,)
        job = Job(
            namespace,
            name,
            uid,
            parallelism=count,
            completions=count,
            indexed=True,
            ours=True,
            suspended=held,
            held_for_placement=held,
            created=pod.created,
        )
        self.cluster.put(job)
        return self.cluster.job(job)

    def submit_array(
        self,
        name: str,
        parallelism: int,
        completions: int | None,
        cpu: int = 1000,
        **fields: Unpack[PodFields],
    ) -> Job:
        """Create a Job of a queue that isn't Indexed, as admission lets it through: suspended until its turn."""
        job = self.submit(name, parallelism, cpu, **fields)
        (first,) = self.cluster.first_pods[job.uid]
        labels = {key: text for key, text in first.labels.items() if key != COMPLETION_INDEX}
        self.cluster.first_pods[job.uid] = (replace(first, labels=labels, annotations={}),)
        created = first.created
        array = replace(job, completions=completions, indexed=False, queued=True, created=created)
        self.cluster.put(array)
        return self.cluster.job(array)

    def pods(self, job: Job) -> list[Pod]:
        """The Job's pods in the order of their indexes, or of their creation where they have none."""
        own = [pod for pod in self.cluster.pods() if pod.owner is not None and pod.owner.uid == job.uid]
        return sorted(own, key=lambda pod: (index_of(pod) if job.indexed else 0, pod.created))

    def nodes(self, job: Job) -> list[str]:
        """The nodes of the Job's pods, in the order of their indexes."""
        return [pod.node for pod in self.pods(job) if not pod.finished]

    async def run(self) -> None:
        """Follow the Jobs until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.looked_at = asyncio.get_running_loop().time()
            if not self.behind:
                # What a look leads to follows from what it sees, and the last one has done that.
                continue
            self._seen = self._sight()
            for name in self.sets:
                self._sync_set(name)
            for job in self.cluster.jobs():
                if job.uid in self.cluster.first_pods:
                    self._sync(job)

    @property
    def behind(self) -> bool:
        """Whether there is something that it hasn't seen yet, for which it may create pods."""
        return self._seen != self._sight()

    def _sight(self) -> tuple[int, int | None, int]:
        """Return what it sees: among it, how many Jobs have plans by which pods are bound by their creation now."""
        binding = sum(1 for until in self.cluster.bound_until.values() if self.looked_at < until)
        return self.cluster.revision, self.quota, binding

    def _sync_set(self, name: str) -> None:
        """Admission leaves a Job suspended that is held for placement, or whose plan binds new pods."""
        suspended, present = self.sets[name].suspended, self._present()
        for part in self._jobs_of(name):
            job = present.get(part)
            if job is None:
                self._submit_part(part)
                continue
            binding = self.cluster.binds_at_birth(job.uid, self.looked_at)
            kept = job.finished or job.held_for_placement or (binding and not suspended)
            if job.suspended is not suspended and not kept:
                self.cluster.put(replace(job, suspended=suspended))

    def _sync(self, job: Job) -> None:
        pods = self.pods(job)
        if not job.indexed:
            self._sync_array(job, pods)
            return
        done = sorted(index_of(pod) for pod in pods if pod.phase == "Succeeded")
        if job.finished:
            return
        known = {index for first, last in job.done for index in range(first, last + 1)}
        if not set(done) <= known:
            ranges = tuple((index, index) for index in sorted(known | set(done)))
            finished = len(ranges) == job.completions
            self.cluster.put(replace(job, done=ranges, finished=finished))
            return
        if job.suspended:
            for pod in pods:
                if not pod.deleting and not pod.finished:
                    self.cluster.delete(pod)
            return
        if self.quota == 0:
            return
        there = {index_of(pod) for pod in pods if not pod.finished}
        missing = [index for index in range(job.completions or 0) if index not in {*there, *known}]
        for index in missing[: max(job.parallelism - len(there), 0)]:
            self._create(job, index)

    def _sync_array(self, job: Job, pods: list[Pod]) -> None:
        succeeded = sum(1 for pod in pods if pod.phase == "Succeeded")
        if succeeded != job.succeeded and not job.finished:
            finished = succeeded >= (1 if job.completions is None else job.completions)
            self.cluster.put(replace(job, succeeded=succeeded, finished=finished))
            return
        living = [pod for pod in pods if not (pod.finished or pod.deleting)]
        if job.finished or job.suspended:
            for pod in living if job.suspended else ():
                self.cluster.delete(pod)
            return
        for _ in range(job.width - len(living) if self.quota != 0 else 0):
            self._create(job, 0)

    def _create(self, job: Job, index: int) -> None:
        if self.quota is not None:
            if not self.quota:
                return
            self.quota -= 1
        number = next(self._numbers)
        text = {COMPLETION_INDEX: str(index)} if job.indexed else {}
        (first,) = self.cluster.first_pods[job.uid]
        pod = replace(
            first,
            name=f"{job.name}-{index}-{number}",
            uid=f"pod-{number}",
            labels={**first.labels, **text},
            annotations={**first.annotations, **text},
            created=float(number),
        )
        node = job.nodes[index] if index < len(job.nodes) else ""
        if node and pod.direct and self.cluster.binds_at_birth(job.uid, self.looked_at):
            written = {**pod.annotations, PLACED_ANNOTATION: job.placed_with}
            pod = replace(pod, node=node, annotations=written)
            self.with_node.append(pod.name)
        else:
            self.late.append(pod.name)
        self.cluster.put(pod)
