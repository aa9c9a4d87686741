"""Indexed Jobs that run all their indexes at once: completions and parallelism are equal and more than 1.

That is the kind of Job that Kubernetes itself would make a gang of (KEP-5547). Any other Job is a queue of
independent pods.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads, awaited, derived
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COMPLETION_INDEX
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod of such a Job."""
    if pod.owner is None or pod.owner.kind != "Job" or COMPLETION_INDEX not in pod.annotations:
        return None
    key = GangKey(pod.namespace, pod.owner.name, Convention.JOB)
    job = workloads.find(Job, pod.namespace, pod.owner.name)
    if job is None:
        return derived(pod, key, awaited("Job", pod.namespace, pod.owner.name))
    if job.indexed and job.parallelism > 1 and job.completions == job.parallelism:
        return derived(pod, key, (job.pods, f"Job {job.name}"))
    return None
