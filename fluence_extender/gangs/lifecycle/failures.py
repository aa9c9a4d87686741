"""How many of a Job's pods may be evicted before it fails.

For a Job an evicted pod is a failed one, unless its podFailurePolicy ignores the condition DisruptionTarget (Kubernetes
1.36, pkg/controller/job). Invariant: no Job fails of pods that we replace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import BACKOFF_LIMIT, Job

JobKey = tuple[str, str, str]
"""Namespace, name and uid."""


class Failures:
    """How many evictions Jobs bear.

    Those that were made count also when the Job has counted them itself: so it keeps some for its pods' own failures.
    """

    def __init__(self, workloads: WorkloadIndex) -> None:
        self._workloads = workloads
        self._made: Counter[JobKey] = Counter()

    def unbearable(self, pods: Iterable[Pod]) -> str:
        """The name of a Job that might fail if all these ``pods`` were evicted, "" if there is none."""
        asked = Counter(key for pod in pods if (key := _job_of(pod)) is not None)
        for key, count in asked.items():
            job = self._job(key)
            bears = BACKOFF_LIMIT if job is None else job.evictions_left
            if bears is not None and self._made[key] + count > bears:
                return key[1]
        return ""

    def count(self, pods: Iterable[Pod]) -> None:
        """Take note that these pods are evicted."""
        self._made = Counter({key: made for key, made in self._made.items() if self._job(key) is not None})
        self._made.update(key for pod in pods if (key := _job_of(pod)) is not None)

    def _job(self, key: JobKey) -> Job | None:
        namespace, name, uid = key
        job = self._workloads.find(Job, namespace, name)
        return job if job is not None and job.uid == uid else None


def _job_of(pod: Pod) -> JobKey | None:
    owner = pod.owner
    return (pod.namespace, owner.name, owner.uid) if owner is not None and owner.kind == "Job" else None
