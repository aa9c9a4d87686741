"""Pods as the controllers of several projects write them: the fields by which a gang is recognized.

The shapes follow what the projects document: scheduler-plugins, MPI Operator v2beta1, Kubeflow Trainer v2, KubeRay,
JobSet v1alpha2, LeaderWorkerSet v1, Kueue, flux-k8s, batch/v1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.model.pod import Pod

Manifest = dict[str, Any]


def manifest(
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod's manifest; ``owner`` is (apiVersion, kind, name) of its controller."""
    references = []
    if owner is not None:
        version, kind, owner_name = owner
        uid = f"uid-{owner_name}"
        references.append(
            {"apiVersion": version, "kind": kind, "name": owner_name, "uid": uid, "controller": True}
        )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": labels or {},
            "annotations": annotations or {},
            "ownerReferences": references,
        },
        "spec": {"schedulerName": "fluence", "containers": [{"name": "main", "image": "none"}], **spec},
    }


def decoded(body: Manifest) -> Pod:
    """The pod as the service sees it."""
    return decode_pod(json.dumps(body).encode())


def native(name: str, group: str) -> Manifest:
    """A pod that names a native PodGroup."""
    return manifest(name, schedulingGroup={"podGroupName": group})


def coscheduled(name: str, group: str, **labels: str) -> Manifest:
    """A pod with the coscheduling plugin's label."""
    return manifest(name, {"scheduling.x-k8s.io/pod-group": group, **labels})


def flux_k8s(name: str, group: str, size: str) -> Manifest:
    """A pod as flux-k8s's users and its webhook label it."""
    return coscheduled(name, group, **{"fluence.group-size": size})


def kueue(
    name: str,
    group: str,
    count: str | None,
    by_annotation: bool = False,
    notes: Mapping[str, str] | None = None,
) -> Manifest:
    """A plain pod in a group of Kueue's, admitted."""
    names = {"kueue.x-k8s.io/pod-group-name": group}
    annotations = {"kueue.x-k8s.io/role-hash": "a1b2", **(notes or {})}
    if count is not None:
        annotations["kueue.x-k8s.io/pod-group-total-count"] = count
    labels = {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "users"}
    if by_annotation:
        return manifest(name, labels, annotations | names)
    return manifest(name, labels | names, annotations)


def job_pod(job: str, index: int | None, **more: Any) -> Manifest:
    """A pod of a batch/v1 Job; indexed when ``index`` is given."""
    labels = {"batch.kubernetes.io/job-name": job, "job-name": job} | more.pop("labels", {})
    annotations = dict(more.pop("annotations", {}))
    if index is not None:
        labels["batch.kubernetes.io/job-completion-index"] = str(index)
        annotations["batch.kubernetes.io/job-completion-index"] = str(index)
    name = f"{job}-{'x' if index is None else index}-abcde"
    return manifest(name, labels, annotations, ("batch/v1", "Job", job), **more)


def job_set_pod(
    job_set: str, replicated: str, job: int, pod: int, replicas: int, jobs: int, **more: Any
) -> Manifest:
    """A pod of a JobSet: of ``replicas`` Jobs of this kind, and of ``jobs`` in all."""
    keys = {
        "jobset.sigs.k8s.io/jobset-name": job_set,
        "jobset.sigs.k8s.io/jobset-uid": f"uid-{job_set}",
        "jobset.sigs.k8s.io/replicatedjob-name": replicated,
        "jobset.sigs.k8s.io/replicatedjob-replicas": str(replicas),
        "jobset.sigs.k8s.io/global-replicas": str(jobs),
        "jobset.sigs.k8s.io/job-index": str(job),
        "jobset.sigs.k8s.io/restart-attempt": "0",
        "jobset.sigs.k8s.io/group-name": "default",
    }
    labels, annotations = more.pop("labels", {}), more.pop("annotations", {})
    name = f"{job_set}-{replicated}-{job}"
    return job_pod(name, pod, labels=keys | labels, annotations=keys | annotations, **more)


def leader_worker_pod(
    name: str, group: int, worker: int, size: int, revision: str = "5c5fc", **notes: str
) -> Manifest:
    """A pod of a LeaderWorkerSet: the leader is worker 0."""
    labels = {
        "leaderworkerset.sigs.k8s.io/name": name,
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
        "leaderworkerset.sigs.k8s.io/group-key": f"hash-of-{name}-{group}",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
    }
    annotations = {"leaderworkerset.sigs.k8s.io/size": str(size), **notes}
    if worker:
        annotations["leaderworkerset.sigs.k8s.io/leader-name"] = f"{name}-{group}"
        owner, pod = f"{name}-{group}", f"{name}-{group}-{worker}"
    else:
        owner, pod = name, f"{name}-{group}"
    return manifest(pod, labels, annotations, ("apps/v1", "StatefulSet", owner))


def mpi_pod(job: str, worker: int | None, **labels: str) -> Manifest:
    """A worker of an MPIJob, or its launcher."""
    role = "launcher" if worker is None else "worker"
    keys = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": job,
        "training.kubeflow.org/job-role": role,
        **labels,
    }
    if worker is None:
        return job_pod(f"{job}-launcher", None, labels=keys)
    keys["training.kubeflow.org/replica-index"] = str(worker)
    return manifest(f"{job}-worker-{worker}", keys, owner=("kubeflow.org/v2beta1", "MPIJob", job))


def ray_pod(cluster: str, name: str, kind: str = "worker", **labels: str) -> Manifest:
    """A pod of a RayCluster."""
    keys = {
        "ray.io/cluster": cluster,
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": kind,
        "ray.io/group": "headgroup" if kind == "head" else "workers",
        **labels,
    }
    return manifest(name, keys, owner=("ray.io/v1", "RayCluster", cluster))
