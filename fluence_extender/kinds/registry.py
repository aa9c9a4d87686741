"""Every kind whose pods are known, by its name, and what makes its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fluence_extender.kinds import jobs, operators, replicas
from fluence_extender.kinds.pod_sets import Json, PodSet

Maker = Callable[[Json], Iterator[PodSet]]
"""Yields the pods of an object that has a name, a namespace and a uid.

Raises `BadManifest`, and what reading a mapping of another form raises.
"""


@dataclass(frozen=True, slots=True)
class PodMaker:
    """A kind that makes pods. ``api`` is meant where a manifest names none; other versions of its group count too."""

    api: str
    pods: Maker


POD_MAKERS: Mapping[str, PodMaker] = {
    "Pod": PodMaker("v1", replicas.single_pod),
    "Job": PodMaker("batch/v1", jobs.job_pods),
    "Deployment": PodMaker("apps/v1", replicas.replica_pods),
    "ReplicaSet": PodMaker("apps/v1", replicas.replica_pods),
    "ReplicationController": PodMaker("v1", replicas.replica_pods),
    "StatefulSet": PodMaker("apps/v1", replicas.replica_pods),
    "JobSet": PodMaker("jobset.x-k8s.io/v1alpha2", jobs.job_set_pods),
    "LeaderWorkerSet": PodMaker("leaderworkerset.x-k8s.io/v1", replicas.leader_worker_pods),
    "MPIJob": PodMaker("kubeflow.org/v2beta1", operators.mpi_pods),
    "RayCluster": PodMaker("ray.io/v1", operators.ray_pods),
}

MADE_OF: Mapping[str, Callable[[Json], Json | None]] = {
    "CronJob": jobs.one_run,
    "MiniCluster": jobs.job_of_mini_cluster,
    "RayJob": operators.cluster_of_ray_job,
}
"""The kinds whose controllers make another object of `POD_MAKERS`, and that object; None if it makes none."""

NOT_UNDERSTOOD: Mapping[str, str] = {
    "TrainJob": "its pods depend on its TrainingRuntime; ask about the JobSet that Kubeflow Trainer makes of it",
    "PyTorchJob": "ask about its pods, or about a JobSet with the same templates",
    "Workflow": "its pods come step by step; ask about the pod of each step, or about the Job that it creates",
    "CronWorkflow": "its pods come step by step; ask about the pod of each step, or about the Job that it creates",
}
"""Kinds that make pods which aren't known from their manifests, and what to ask instead."""


def pod_maker(manifest: Json) -> PodMaker | None:
    """Return what makes the pods of an object; None for an unknown kind, such as a Job of another API.

    The API is filled in where the object names none.
    """
    maker = POD_MAKERS.get(manifest["kind"])
    if maker is None:
        return None
    version = manifest["apiVersion"] = str(manifest.get("apiVersion") or maker.api)
    return maker if version.rpartition("/")[0] == maker.api.rpartition("/")[0] else None
