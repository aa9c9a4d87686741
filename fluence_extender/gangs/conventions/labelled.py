"""Our own convention: the label ``fluence.flux-framework.org/group`` and the annotation ``…/group-size``.

Without the annotation the size is that of the owning Job (its parallelism, no more than its completions), else 1.
"""

from __future__ import annotations

from fluence_extender.gangs.conventions.claim import Claim, Said, Workloads, annotated_size, awaited
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod with our group label."""
    group = pod.labels.get(GROUP_LABEL, "")
    if not group:
        return None
    size, said_by = annotated_size(pod) or _of_job(pod, workloads)
    return Claim(GangKey(pod.namespace, group, Convention.LABEL), size, said_by)


def _of_job(pod: Pod, workloads: Workloads) -> Said:
    if pod.owner is None or pod.owner.kind != "Job":
        return 1, f"pod {pod.name}, which says nothing,"
    job = workloads.find(Job, pod.namespace, pod.owner.name)
    if job is None:
        return awaited("Job", pod.namespace, pod.owner.name)
    return job.pods, f"Job {pod.owner.name}"
