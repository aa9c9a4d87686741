"""The conventions by which pods name their gang, in order of precedence.

A pod may follow several conventions. The first one that recognizes the pod decides, and the others are ignored. A group
that is named on the pod comes before one that follows from the pod's owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fluence_extender.gangs.membership.conventions import (
    jobset,
    kueue,
    labelled,
    operators,
    owners,
    pod_groups,
)
from fluence_extender.gangs.membership.conventions.membership import (
    Found,
    Membership,
    Workloads,
    alone,
    patience,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import JobSet, Workload

Recognize = Callable[[Pod, Workloads], Membership | None]

CONVENTIONS: Mapping[Convention, Recognize] = {
    Convention.POD_GROUP: pod_groups.native,
    Convention.COSCHEDULING: pod_groups.coscheduling,
    Convention.LABEL: labelled.recognize,
    Convention.KUEUE: kueue.recognize,
    Convention.LEADER_WORKER_SET: operators.leader_worker_set,
    Convention.RAY_CLUSTER: operators.ray_cluster,
    Convention.MPI_JOB: operators.mpi_job,
    Convention.JOB_SET: jobset.recognize,
    Convention.OWNER: owners.sized_owner,
    Convention.JOB: owners.indexed_job,
}

BY_NAME = (Convention.POD_GROUP, Convention.COSCHEDULING, Convention.LABEL, Convention.KUEUE)
"""The conventions in which the pod itself carries the group's name."""


def recognize(pod: Pod, workloads: Workloads) -> Membership:
    """Return the pod's membership by the first convention that it follows; without any, the pod is a gang by itself."""
    if operators.cleans_up(pod):
        return alone(pod)
    recognized = (convention(pod, workloads) for convention in CONVENTIONS.values())
    membership = next(filter(None, recognized), None) or alone(pod)
    seconds = patience(pod)
    if isinstance(seconds, Reason):
        return replace(membership, size=seconds)
    if (why := owners.never_together(pod, membership, workloads)) is not None:
        return replace(membership, size=why)
    return membership if seconds is None else replace(membership, patience=seconds)


BY_OPERATOR = (Convention.LEADER_WORKER_SET, Convention.RAY_CLUSTER, Convention.MPI_JOB, Convention.JOB_SET)
"""The conventions in which an operator names the group on pods that may name several schedulers."""


class _NoWorkloads:
    """Knows no workload: neither a name on a pod nor the label of a JobSet's stage depends on one."""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        return None

    def served(self, kind: type[Workload]) -> bool:
        return kind is not JobSet


_NO_WORKLOADS = _NoWorkloads()


def named_gang(pod: Pod) -> GangKey | None:
    """Return the gang that a pod of another scheduler names, itself or by the labels of the operator that created it.

    Return None if it names none.
    """
    for convention in (*BY_NAME, *BY_OPERATOR):
        membership = CONVENTIONS[convention](pod, _NO_WORKLOADS)
        if membership is not None:
            return membership.key if membership.key.convention is convention else None
    return None
