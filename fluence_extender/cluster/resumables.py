"""The kinds of workloads that wait without pods: how they are suspended, and what their first pods would be.

A row of `RESUMABLES` has all that the cluster room needs for a kind. Its pods equal those that the kind's controller
would create in all that determines their nodes and requests. There is one pod of each shape, in the order of
`Resumable.groups`. The pods have fixed names, because a random part would make each refusal's text different. Their
owner references don't block the workload's deletion, for which the service would need a right.

Sources: Kubernetes pkg/controller/job (manageJob); KubeRay ray-operator/controllers/ray/common (pod.go); MPI Operator
pkg/controller (newWorker, newLauncherPodTemplate).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.operators import (
    RayWorkerGroup,
    decode_mpi_job,
    decode_ray_cluster,
    ray_workers,
)
from fluence_extender.cluster.port import Json
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    JOB_TRACKING,
    MPI_OPERATOR,
    NODES_ANNOTATION,
    RAY_CLUSTER,
    RAY_GROUP,
    RAY_NODE,
    RAY_NODE_TYPE,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
    TRAINING_ROLE,
)
from fluence_extender.model.workload import Job, MpiJob, RayCluster, Resumable

LONGEST_PREFIX = 58
"""Characters of a generated name before its last part (apiserver: names.MaxGeneratedNameLength)."""

TRIAL_SUFFIX = "trial"
"""The last part of the name of a pod that is tried. Generated names have no vowels, so none is the same."""

COMPLETION_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

HEAD_GROUP = "headgroup"
AUTOSCALER = {"name": "autoscaler", "image": "autoscaler"}
AUTOSCALER_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
WAITING = {"name": "wait-gcs-ready", "image": "wait"}
WAITING_REQUESTS = {"cpu": "200m", "memory": "256Mi"}
"""The containers that KubeRay adds to heads with an autoscaler and to workers, and what they request."""


@dataclass(frozen=True, slots=True)
class ResumableKind:
    """A kind of workload: the class of its values, and the plural of its kind, ``resource``.

    ``suspend`` is the path of the field in its spec that suspends it. ``first_pods`` yields one manifest of each shape.
    """

    values: type[Resumable]
    resource: str
    suspend: tuple[str, ...]
    decode: Callable[[bytes], Resumable]
    first_pods: Callable[[Json], Iterator[Json]]

    def path(self, workload: Resumable) -> str:
        """Return the path of one of them."""
        return (
            f"/apis/{self.values.api_version}/namespaces/{workload.namespace}/{self.resource}/{workload.name}"
        )

    def suspending(self, suspended: bool) -> Json:
        """Return the spec of the patch that suspends or resumes one of them."""
        found: Any = suspended
        for name in reversed(self.suspend):
            found = {name: found}
        return dict(found)


def _of_job(job: Json) -> Iterator[Json]:
    """Yield the first pod, for an Indexed Job that of index 0. It has no nodes to be born on."""
    template, indexed = job["spec"]["template"], job["spec"].get("completionMode") == "Indexed"
    index = {COMPLETION_INDEX: "0"} if indexed else {}
    spec = template["spec"]
    pod = _pod(
        job, "0", template, index, {**spec, **(_indexed(job["metadata"]["name"], spec) if indexed else {})}
    )
    meta = pod["metadata"]
    meta["finalizers"] = [JOB_TRACKING]
    meta["annotations"].pop(NODES_ANNOTATION, None)
    meta["annotations"].update(index)
    yield pod


def _indexed(name: str, spec: Json) -> Json:
    """Return the fields by which the processes of index 0 learn it."""
    kinds = ("initContainers", "containers")
    return {
        "hostname": f"{name}-0",
        **{kind: [_with_index(one) for one in spec[kind]] for kind in kinds if spec.get(kind)},
    }


def _with_index(container: Json) -> Json:
    """Return the container with the variable from which its process learns the completion index."""
    given = container.get("env") or []
    if any(one.get("name") == COMPLETION_INDEX_VARIABLE for one in given):
        return dict(container)
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*given, {"name": COMPLETION_INDEX_VARIABLE, "valueFrom": source}]}


def _of_mpi_job(job: Json) -> Iterator[Json]:
    roles = job["spec"]["mpiReplicaSpecs"]
    last = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    for role in ("Worker", "Launcher"):
        replicas = roles.get(role)
        if replicas is None or (not replicas.get("replicas") if role == "Worker" else last):
            continue
        labels = {
            TRAINING_OPERATOR: MPI_OPERATOR,
            TRAINING_JOB_NAME: job["metadata"]["name"],
            TRAINING_ROLE: role.lower(),
        }
        template = replicas["template"]
        policy = replicas.get("restartPolicy") or "Never"
        spec = {**template["spec"], "restartPolicy": "Never" if policy == "ExitCode" else policy}
        yield _pod(job, role.lower(), template, labels, spec)


def _of_ray_cluster(cluster: Json) -> Iterator[Json]:
    spec = cluster["spec"]
    template = spec["headGroupSpec"]["template"]
    labels = _ray_labels(cluster, "head", HEAD_GROUP)
    yield _pod(cluster, "head", template, labels, _head(spec, template["spec"]))
    for number, group in enumerate(spec.get("workerGroupSpecs") or ()):
        if ray_workers(msgspec.convert(group, RayWorkerGroup)) < 1:
            continue
        template = group["template"]
        labels = _ray_labels(cluster, "worker", group["groupName"])
        worker = {**template["spec"]}
        added = {**WAITING, "resources": _exactly(WAITING_REQUESTS)}
        worker["initContainers"] = [*(worker.get("initContainers") or ()), added]
        yield _pod(cluster, f"w{number}", template, labels, worker)


def _head(spec: Json, pod: Json) -> Json:
    """Return the spec of a head's pod, with the autoscaler beside it if the cluster has one."""
    if not spec.get("enableInTreeAutoscaling"):
        return pod
    resources = (spec.get("autoscalerOptions") or {}).get("resources") or _exactly(AUTOSCALER_REQUESTS)
    return {**pod, "containers": [*pod["containers"], {**AUTOSCALER, "resources": resources}]}


def _ray_labels(cluster: Json, kind: str, group: str) -> dict[str, str]:
    return {RAY_CLUSTER: cluster["metadata"]["name"], RAY_NODE: "yes", RAY_NODE_TYPE: kind, RAY_GROUP: group}


def _exactly(amounts: Mapping[str, str]) -> Json:
    return {"requests": dict(amounts), "limits": dict(amounts)}


def _pod(owner: Json, role: str, template: Json, labels: Mapping[str, str], spec: Json) -> Json:
    """Return the pod of ``owner`` with this role."""
    meta, own = owner["metadata"], template.get("metadata") or {}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name'][: LONGEST_PREFIX - len(role) - 2]}-{role}-{TRIAL_SUFFIX}",
            "namespace": meta["namespace"],
            "labels": {**(own.get("labels") or {}), **labels},
            "annotations": dict(own.get("annotations") or {}),
            "ownerReferences": [reference],
        },
        "spec": spec,
    }


RESUMABLES: Mapping[type[Resumable], ResumableKind] = {
    Job: ResumableKind(Job, "jobs", ("suspend",), decode_job, _of_job),
    MpiJob: ResumableKind(MpiJob, "mpijobs", ("runPolicy", "suspend"), decode_mpi_job, _of_mpi_job),
    RayCluster: ResumableKind(RayCluster, "rayclusters", ("suspend",), decode_ray_cluster, _of_ray_cluster),
}
