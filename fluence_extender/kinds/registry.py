"""All kinds of workloads, and what follows from them: conventions, the makers of pods, and what can be suspended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fluence_extender.kinds import job, jobset, leaderworkerset, mpijob, podgroups, ray, replicas, trainjob
from fluence_extender.kinds.kind import Kind, Maker, Recognize
from fluence_extender.kinds.labels import kueue_group, labelled
from fluence_extender.kinds.membership import Found, Membership, Workloads, alone, patience
from fluence_extender.kinds.pod_sets import Json, single_pod
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason

KINDS = (
    podgroups.NATIVE,
    podgroups.COSCHEDULING,
    leaderworkerset.LEADER_WORKER_SETS,
    ray.RAY_CLUSTERS,
    ray.RAY_JOBS,
    mpijob.MPI_JOBS,
    trainjob.TRAIN_JOBS,
    jobset.JOB_SETS,
    job.JOBS,
    replicas.REPLICA_SETS,
    replicas.STATEFUL_SETS,
)
"""The kinds that determine how large gangs are, and those of which operators make such objects."""

KIND_OF: Mapping[type[Workload], Kind] = {kind.values: kind for kind in KINDS}

# Conventions: how pods name their gang.

BY_OPERATOR: Mapping[Convention, Kind] = {
    Convention(kind.api.kind.lower()): kind for kind in KINDS if kind.label
}
"""The conventions in which an operator names the group, in a label of pods that may name several schedulers."""

CONVENTIONS: Mapping[Convention, Recognize] = {
    Convention.POD_GROUP: podgroups.native,
    Convention.COSCHEDULING: podgroups.coscheduling,
    Convention.LABEL: labelled,
    Convention.KUEUE: kueue_group,
    **{name: kind.recognize for name, kind in BY_OPERATOR.items() if kind.recognize is not None},
    Convention.OWNER: replicas.sized_owner,
    Convention.JOB: job.indexed_job,
}
"""The conventions in order of precedence.

A pod may follow several. The first one that recognizes the pod decides, and the others are ignored. A group that is
named on the pod comes before one that follows from the pod's owner.
"""

BY_NAME = (Convention.POD_GROUP, Convention.COSCHEDULING, Convention.LABEL, Convention.KUEUE)
"""The conventions in which the pod itself carries the group's name."""


def recognize(pod: Pod, workloads: Workloads) -> Membership:
    """Return the pod's membership by the first convention that it follows; without any, the pod is a gang by itself."""
    if ray.cleans_up(pod):
        return alone(pod)
    recognized = (convention(pod, workloads) for convention in CONVENTIONS.values())
    membership = next(filter(None, recognized), None) or alone(pod)
    seconds = patience(pod)
    if isinstance(seconds, Reason):
        return replace(membership, size=seconds)
    if (why := replicas.never_together(pod, membership, workloads)) is not None:
        return replace(membership, size=why)
    return membership if seconds is None else replace(membership, patience=seconds)


class _NoWorkloads:
    """Knows no workload: neither a name on a pod nor the label of a JobSet's stage depends on one."""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        return None

    def served(self, kind: type[Workload]) -> bool:
        return kind is not jobset.JobSet


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


# Pods that don't exist yet.

POD_MAKERS: Mapping[str, tuple[str, Maker]] = {
    "Pod": ("v1", single_pod),
    "Deployment": ("apps/v1", replicas.replica_pods),
    "ReplicationController": ("v1", replicas.replica_pods),
    **{kind.api.kind: (kind.api.api_version, kind.pods) for kind in KINDS if kind.pods is not None},
}
"""By kind: what makes its pods, and the apiVersion of a manifest that names none.

Other versions of its API group count too.
"""

MADE_OF: Mapping[str, Callable[[Json], Json | None]] = {
    "CronJob": job.one_run,
    "MiniCluster": job.job_of_mini_cluster,
    "RayJob": ray.cluster_of_ray_job,
}
"""The kinds whose controllers make another object of `POD_MAKERS`, and that object; None if it makes none."""

NOT_UNDERSTOOD: Mapping[str, str] = {
    "TrainJob": "its pods depend on its TrainingRuntime; ask about the JobSet that Kubeflow Trainer makes of it",
    "PyTorchJob": "ask about its pods, or about a JobSet with the same templates",
    "Workflow": "its pods come step by step; ask about the pod of each step, or about the Job that it creates",
    "CronWorkflow": "its pods come step by step; ask about the pod of each step, or about the Job that it creates",
}
"""Kinds that make pods which aren't known from their manifests, and what to ask instead."""


def pod_maker(manifest: Json) -> Maker | None:
    """Return what makes the pods of an object; None for an unknown kind, such as a Job of another API.

    The API is filled in where the object names none.
    """
    if manifest["kind"] not in POD_MAKERS:
        return None
    api, maker = POD_MAKERS[manifest["kind"]]
    version = manifest["apiVersion"] = str(manifest.get("apiVersion") or api)
    return maker if version.rpartition("/")[0] == api.rpartition("/")[0] else None


# Of TrainJobs and RayJobs, operators make other objects that describe gangs.
_DESCRIBING: Mapping[tuple[str, str], Kind] = {
    # A Deployment's pods are those of a ReplicaSet of its name.
    ("apps", "Deployment"): replicas.REPLICA_SETS,
    **{
        (kind.api.group, kind.api.kind): kind
        for kind in KINDS
        if kind not in (trainjob.TRAIN_JOBS, ray.RAY_JOBS)
    },
}


def describing(api_version: str, kind: str) -> Kind | None:
    """Return the kind as which an object describes gangs, None for other objects."""
    return _DESCRIBING.get((api_version.partition("/")[0], kind))
