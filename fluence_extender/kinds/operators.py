"""The pods that the MPI Operator and KubeRay create.

Sources: MPI Operator pkg/controller (newWorker, newLauncherPodTemplate); KubeRay
ray-operator/controllers/ray/common (pod.go) and rayjob_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.kinds.pod_sets import Json, PodSet, SetMember, count_of, reference_to, template_of
from fluence_extender.model.names import (
    MPI_OPERATOR,
    RAY_CLUSTER,
    RAY_GROUP,
    RAY_NODE,
    RAY_NODE_TYPE,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
    TRAINING_REPLICA_INDEX,
    TRAINING_ROLE,
)

NO_LIMIT = 2**31 - 1
WORKER_COUNTS = ("replicas", "minReplicas", "maxReplicas", "numOfHosts")

HEAD_GROUP = "headgroup"
AUTOSCALER = {"name": "autoscaler", "image": "autoscaler"}
AUTOSCALER_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
WAITING = {"name": "wait-gcs-ready", "image": "wait"}
WAITING_REQUESTS = {"cpu": "200m", "memory": "256Mi"}
"""The containers that KubeRay adds to heads with an autoscaler and to workers, and what they request."""


def mpi_pods(job: Json) -> Iterator[PodSet]:
    """Yield the workers, then the launcher."""
    roles, name, owner = job["spec"].get("mpiReplicaSpecs") or {}, job["metadata"]["name"], reference_to(job)
    after = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    first = 1 if job["spec"].get("runLauncherAsWorker") else 0
    if roles.get("Worker"):
        count = count_of(roles["Worker"].get("replicas"), 0)
        yield _of_role("Worker", roles["Worker"], name, owner, range(first, first + count))
    if roles.get("Launcher"):
        yield _of_role("Launcher", roles["Launcher"], name, owner, range(1), after)


def _of_role(
    role: str, replicas: Mapping[str, Any], name: str, owner: Json, ranks: range, later: bool = False
) -> PodSet:
    source = replicas["template"]
    policy = replicas.get("restartPolicy") or "Never"
    spec = {**source["spec"], "restartPolicy": "Never" if policy == "ExitCode" else policy}

    def members() -> Iterator[SetMember]:
        for number, rank in enumerate(ranks or range(1)):
            labels = {
                TRAINING_JOB_NAME: name,
                TRAINING_OPERATOR: MPI_OPERATOR,
                TRAINING_ROLE: role.lower(),
                TRAINING_REPLICA_INDEX: str(rank),
            }
            yield SetMember(f"{name}-{role.lower()}-{number}", labels, {}, owner)

    return PodSet(template_of(source, spec), len(ranks), members, later)


def ray_pods(cluster: Json) -> Iterator[PodSet]:
    """Yield the head, then the workers that are asked for, without those that an autoscaler may add."""
    name, spec, owner = cluster["metadata"]["name"], cluster["spec"], reference_to(cluster)
    head = spec["headGroupSpec"]["template"]
    template = template_of(head, _head(spec, head["spec"]))
    first = SetMember(f"{name}-head", _labels(name, "head", HEAD_GROUP), {}, owner)
    yield PodSet(template, 1, lambda: iter((first,)))
    for group in spec.get("workerGroupSpecs") or ():
        yield _workers(name, group, owner)


def _workers(cluster: str, group: Mapping[str, Any], owner: Json) -> PodSet:
    replicas, least, most, hosts = (
        None if group.get(key) is None else count_of(group[key], 0) for key in WORKER_COUNTS
    )
    count = ray_workers(replicas, least, most, hosts, bool(group.get("suspend")))
    spec = dict(group["template"]["spec"])
    added = {**WAITING, "resources": _exactly(WAITING_REQUESTS)}
    spec["initContainers"] = [*(spec.get("initContainers") or ()), added]
    labels = _labels(cluster, "worker", group["groupName"])

    def members() -> Iterator[SetMember]:
        for number in range(max(count, 1)):
            yield SetMember(f"{cluster}-{group['groupName']}-{number}", labels, {}, owner)

    return PodSet(template_of(group["template"], spec), count, members)


def ray_workers(
    replicas: int | None, least: int | None, most: int | None, hosts: int | None, suspended: bool
) -> int:
    """Return how many pods KubeRay creates for a worker group."""
    if suspended:
        return 0
    lowest, highest = least or 0, NO_LIMIT if most is None else most
    wanted = lowest if replicas is None else min(max(replicas, lowest), highest)
    return wanted * (1 if hosts is None else hosts)


def cluster_of_ray_job(job: Mapping[str, Any]) -> Json | None:
    """Return the RayCluster that KubeRay makes of a RayJob, None if the RayJob uses a cluster that exists."""
    meta, spec = job["metadata"], job.get("spec") or {}
    if not spec.get("rayClusterSpec"):
        return None
    metadata = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": meta.get("labels") or {},
        "annotations": meta.get("annotations") or {},
    }
    return {
        "apiVersion": job.get("apiVersion") or "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": spec["rayClusterSpec"],
    }


def _head(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> Json:
    """Return the spec of a head's pod, with the autoscaler beside it if the cluster has one."""
    if not spec.get("enableInTreeAutoscaling"):
        return dict(pod)
    resources = (spec.get("autoscalerOptions") or {}).get("resources") or _exactly(AUTOSCALER_REQUESTS)
    return {**pod, "containers": [*pod["containers"], {**AUTOSCALER, "resources": resources}]}


def _labels(cluster: str, kind: str, group: str) -> dict[str, str]:
    return {RAY_CLUSTER: cluster, RAY_NODE: "yes", RAY_NODE_TYPE: kind, RAY_GROUP: group}


def _exactly(amounts: Mapping[str, str]) -> Json:
    return {"requests": dict(amounts), "limits": dict(amounts)}
