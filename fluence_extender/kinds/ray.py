"""RayClusters, which are gangs where their label asks for it, and the RayJobs of which KubeRay makes them.

Sources: ray.io/v1; KubeRay ray-operator/controllers/ray/common (pod.go) and rayjob_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.membership import Membership, Workloads, awaited, derived
from fluence_extender.kinds.pod_sets import Json, PodSet, SetMember, count_of, reference_to, template_of
from fluence_extender.kinds.resumable import PodTemplate, Resumable, Suspendable, controller_of, turn
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Limited, Started, Workload, limits, stated_duration
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import RAY_CLUSTER, RAY_GROUP, RAY_NODE, RAY_NODE_TYPE
from fluence_extender.model.pod import Pod
from fluence_extender.objects.fields import Int64
from fluence_extender.objects.meta import Unread, tolerant_decoder


@dataclass(frozen=True, slots=True)
class RayCluster(Resumable):
    """A ray.io RayCluster; ``pods`` counts its head and workers, and ``gang`` says whether they are one gang.

    ``made_of`` names the RayJob of which it was made, "" where it wasn't.
    ``groups`` are the pods of its head and of each worker group that has any; they aren't compared.
    """

    api: ClassVar[Api] = served.RAY_CLUSTER

    pods: int = 1
    gang: bool = False
    groups: tuple[int, ...] = field(default=(1,), compare=False)
    made_of: str = ""


@dataclass(frozen=True, slots=True)
class RayJob(Workload):
    """A ray.io RayJob. KubeRay makes a RayCluster of it, which has the name ``cluster`` ("" before it is known)."""

    api: ClassVar[Api] = served.RAY_JOB

    cluster: str = ""


GANG_LABEL = "ray.io/gang-scheduling-enabled"


class _HeadGroup(msgspec.Struct):
    template: PodTemplate | None = None


class _WorkerGroup(msgspec.Struct, rename="camel"):
    """A worker group of a RayCluster."""

    replicas: Int64 | None = None
    min_replicas: Int64 | None = None
    max_replicas: Int64 | None = None
    num_of_hosts: Int64 | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None


class _RayCluster(Suspendable, rename="camel"):
    head_group_spec: _HeadGroup | None = None
    worker_group_specs: list[_WorkerGroup] | None = None


class _RayJobStatus(Started, rename="camel"):
    """The status of a RayJob: KubeRay writes the name of the RayCluster before it creates it."""

    ray_cluster_name: str | None = None


_ray_cluster = tolerant_decoder("RayCluster", _RayCluster, Unread)
_ray_job = tolerant_decoder("RayJob", Limited, _RayJobStatus)


def decode_ray_cluster(raw: bytes) -> RayCluster:
    """Decode a RayCluster: one head, and the replicas of each worker group within the group's bounds."""
    meta, spec, _, problem = _ray_cluster(raw)
    workers = spec.worker_group_specs or ()
    head = spec.head_group_spec.template if spec.head_group_spec else None
    counts = [
        ray_workers(one.replicas, one.min_replicas, one.max_replicas, one.num_of_hosts, bool(one.suspend))
        for one in workers
    ]
    templates = [head, *(one.template for one in workers)]
    return RayCluster(
        *meta.identity,
        pods=1 + sum(counts),
        groups=(1, *(count for count in counts if count > 0)),
        **turn(meta, spec, templates, False, problem),
        gang=GANG_LABEL in (meta.labels or {}),
        made_of=controller_of(meta, "ray.io", "RayJob"),
        duration=stated_duration(meta.annotations, meta.labels, None),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def decode_ray_job(raw: bytes) -> RayJob:
    """Decode a RayJob."""
    meta, spec, status, problem = _ray_job(raw)
    cluster = status.ray_cluster_name or ""
    return RayJob(*meta.identity, cluster=cluster, **limits(meta, spec, status), problem=problem)


RAY_CLEANUP = "redis-cleanup"


def ray_cluster(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of a RayCluster that is to be placed as a gang."""
    name = pod.labels.get(RAY_CLUSTER)
    if not name or pod.labels.get(RAY_NODE) != "yes":
        return None
    key = GangKey(pod.namespace, name, Convention.RAY_CLUSTER)
    cluster = workloads.find(RayCluster, pod.namespace, name)
    if cluster is not None:
        return derived(pod, key, (cluster.pods, f"RayCluster {name}")) if cluster.gang else None
    if workloads.served(RayCluster):
        return derived(pod, key, awaited("RayCluster", pod.namespace, name))
    return None


def cleans_up(pod: Pod) -> bool:
    """Return whether the pod is KubeRay's cleanup pod, which carries all labels of the template of Ray's head node."""
    return pod.labels.get(RAY_NODE_TYPE) == RAY_CLEANUP


NO_LIMIT = 2**31 - 1
WORKER_COUNTS = ("replicas", "minReplicas", "maxReplicas", "numOfHosts")

HEAD_GROUP = "headgroup"
AUTOSCALER = {"name": "autoscaler", "image": "autoscaler"}
AUTOSCALER_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
WAITING = {"name": "wait-gcs-ready", "image": "wait"}
WAITING_REQUESTS = {"cpu": "200m", "memory": "256Mi"}
"""The containers that KubeRay adds to heads with an autoscaler and to workers, and what they request."""


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


RAY_CLUSTERS = Kind(
    RayCluster,
    decode_ray_cluster,
    pods=ray_pods,
    label=RAY_CLUSTER,
    recognize=ray_cluster,
    suspend=("suspend",),
)
RAY_JOBS = Kind(RayJob, decode_ray_job)
