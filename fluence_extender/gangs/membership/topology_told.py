"""What the owners of a pod say of where its gang is to be, beside what the pod itself says."""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.claim import number
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.model.names import JOB_SET_NAME, REPLICATED_JOB, REPLICATED_JOB_REPLICAS
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, JobSet, PodGroup
from fluence_extender.placement.topology_constraints import sliced


def topology_told(workloads: WorkloadIndex, pod: Pod) -> tuple[tuple[str, ...], int]:
    """The node labels of which the pod's PodGroup requires one domain, and the size of its Job where that counts."""
    group = workloads.find(PodGroup, pod.namespace, pod.group) if pod.group else None
    return group.levels if group is not None else (), _job_size(workloads, pod)


def _job_size(workloads: WorkloadIndex, pod: Pod) -> int:
    """The pods of one Job of the pod's replicated job, by its JobSet (which the gang waits for) or by the Job."""
    if not sliced(pod):
        return 0
    job_set = workloads.find(JobSet, pod.namespace, pod.labels.get(JOB_SET_NAME, ""))
    replicas = number(pod.labels.get(REPLICATED_JOB_REPLICAS, "")) or 0
    for one in job_set.jobs if job_set is not None and replicas else ():
        if one.name == pod.labels.get(REPLICATED_JOB, ""):
            return one.pods // replicas
    job = workloads.find(Job, pod.namespace, pod.owner.name) if pod.owner is not None else None
    return job.pods if job is not None else 0
