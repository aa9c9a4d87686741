"""The pods that controllers make of their objects, numbered and labelled as the controllers do it.

A pod is given as a manifest with metadata, spec and, where it has one, its owner (kind, name, uid). Missing fields have
the defaults of their API. An object that runs repeatedly, such as a CronJob, makes the pods of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from fluence_extender.cluster.decode.operators import RayWorkerGroup, ray_workers
from fluence_extender.gangs.membership.conventions.pod_groups import COSCHEDULING_NAMES, COSCHEDULING_SIZES
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    COSCHEDULING_GROUP,
    FLUX_SIZE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    JOB_INDEX,
    JOB_NAME,
    JOB_SET_NAME,
    LONGEST_LABEL,
    LWS_GROUP_INDEX,
    LWS_NAME,
    LWS_REVISION,
    LWS_SIZE,
    LWS_WORKER_INDEX,
    MPI_OPERATOR,
    POD_INDEX,
    RAY_CLUSTER,
    RAY_GROUP,
    RAY_NODE,
    RAY_NODE_TYPE,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
    TRAINING_REPLICA_INDEX,
    TRAINING_ROLE,
)
from fluence_extender.whatif.documents import BadManifest, Manifest

Maker = Callable[[Manifest], Iterator[Manifest]]
"""Yields pods. Raises `BadManifest`, and what reading a mapping of another form raises."""


def _template(
    source: Mapping[str, Any],
    name: str,
    labels: Mapping[str, str],
    notes: Mapping[str, str],
    owner: tuple[str, str, str] | None,
) -> Manifest:
    meta = source.get("metadata") or {}
    if not source["spec"].get("containers"):
        raise BadManifest("a pod without containers")
    return {
        "metadata": {
            "name": name,
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **notes},
        },
        "spec": source["spec"],
        "owner": owner,
    }


def uid_of(kind: str, name: str) -> str:
    """Return the uid that an object of the manifests has as the owner of its pods."""
    return f"{kind.lower()}-{name}"


def _count(value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadManifest(f"{value!r} is not a number of pods")
    return value


def _single(manifest: Manifest) -> Iterator[Manifest]:
    yield _template(manifest, manifest["metadata"]["name"], {}, {}, None)


def _of_job(spec: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> Iterator[Manifest]:
    for number in range(_width(spec)):
        index = {COMPLETION_INDEX: str(number)}
        owner = ("Job", name, uid_of("Job", name))
        yield _template(spec["template"], f"{name}-{number}", {JOB_NAME: name, **labels}, index, owner)


def _width(spec: Mapping[str, Any]) -> int:
    """Return how many pods a Job has at once."""
    parallelism = _count(spec.get("parallelism"), 1)
    return min(parallelism, _count(spec.get("completions"), parallelism))


def _job(manifest: Manifest) -> Iterator[Manifest]:
    yield from _of_job(manifest["spec"], manifest["metadata"]["name"], {})


def _cron_job(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the pods of one run."""
    yield from _of_job(manifest["spec"]["jobTemplate"]["spec"], manifest["metadata"]["name"], {})


def _replicas(manifest: Manifest) -> Iterator[Manifest]:
    spec, name, kind = manifest["spec"], manifest["metadata"]["name"], manifest["kind"]
    owner = ("ReplicaSet" if kind == "Deployment" else kind, name, uid_of(kind, name))
    added = labels_for_template(manifest)
    for number in range(_count(spec.get("replicas"), 1)):
        index = {POD_INDEX: str(number)} if kind == "StatefulSet" else {}
        yield _template(spec["template"], f"{name}-{number}", {**added, **index}, {}, owner)


def _job_set(manifest: Manifest) -> Iterator[Manifest]:
    name = manifest["metadata"]["name"]
    for replicated in manifest["spec"].get("replicatedJobs") or ():
        replicas, spec = _count(replicated.get("replicas"), 1), replicated["template"]["spec"]
        # Jobs without pods aren't counted, however many there are.
        for number in range(replicas if _width(spec) else 0):
            job = f"{name}-{replicated['name']}-{number}"
            labels = {
                JOB_SET_NAME: name,
                REPLICATED_JOB: replicated["name"],
                REPLICATED_JOB_REPLICAS: str(replicas),
                JOB_INDEX: str(number),
            }
            yield from _of_job(spec, job, labels)


def _leader_worker_set(manifest: Manifest) -> Iterator[Manifest]:
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    templates = spec["leaderWorkerTemplate"]
    size = _count(templates.get("size"), 1)
    for group in range(_count(spec.get("replicas"), 1) if size else 0):
        for worker in range(size):
            leads = worker == 0 and templates.get("leaderTemplate")
            labels = {
                LWS_NAME: name,
                LWS_GROUP_INDEX: str(group),
                LWS_WORKER_INDEX: str(worker),
                LWS_REVISION: "1",
            }
            notes = {LWS_SIZE: str(size)}
            source = templates["leaderTemplate"] if leads else templates["workerTemplate"]
            pod = f"{name}-{group}" if worker == 0 else f"{name}-{group}-{worker}"
            yield _template(source, pod, labels, notes, ("StatefulSet", name, f"lws-{name}"))


def _mpi_job(manifest: Manifest) -> Iterator[Manifest]:
    name = manifest["metadata"]["name"]
    for role, replica in (manifest["spec"].get("mpiReplicaSpecs") or {}).items():
        for number in range(_count(replica.get("replicas"), 1)):
            labels = {
                TRAINING_JOB_NAME: name,
                TRAINING_OPERATOR: MPI_OPERATOR,
                TRAINING_ROLE: role.lower(),
                TRAINING_REPLICA_INDEX: str(number),
            }
            owner = ("MPIJob", name, uid_of("MPIJob", name))
            yield _template(replica["template"], f"{name}-{role.lower()}-{number}", labels, {}, owner)


def _ray_cluster(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the head and the workers that are asked for, without those that an autoscaler may add."""
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    owner = ("RayCluster", name, uid_of("RayCluster", name))

    def node(template: Mapping[str, Any], kind: str, group: str, number: str) -> Manifest:
        labels = {RAY_CLUSTER: name, RAY_NODE: "yes", RAY_NODE_TYPE: kind, RAY_GROUP: group}
        return _template(template, f"{name}-{number}", labels, {}, owner)

    yield node(spec["headGroupSpec"]["template"], "head", "headgroup", "head")
    for group in spec.get("workerGroupSpecs") or ():
        for number in range(ray_workers(msgspec.convert(group, RayWorkerGroup))):
            yield node(group["template"], "worker", group["groupName"], f"{group['groupName']}-{number}")


def as_made(manifest: Manifest) -> Manifest:
    """Return the Job that the Flux Operator makes of a MiniCluster; any other object as it is."""
    if manifest["kind"] != "MiniCluster":
        return manifest
    spec = manifest.get("spec") or {}
    pod, size = spec.get("pod") or {}, spec.get("size", 1)
    containers = [
        {"name": one.get("name") or f"container-{number}", "resources": one.get("resources") or {}}
        for number, one in enumerate(spec.get("containers") or ())
    ]
    keys = ("schedulerName", "nodeSelector")
    template = {
        "metadata": {"labels": pod.get("labels") or {}, "annotations": pod.get("annotations") or {}},
        "spec": {"containers": containers, **{key: pod[key] for key in keys if key in pod}},
    }
    job = {"completionMode": "Indexed", "parallelism": size, "completions": size, "template": template}
    return {**manifest, "apiVersion": "batch/v1", "kind": "Job", "spec": job}


MAKERS: Mapping[str, tuple[str, Maker]] = {
    "Pod": ("v1", _single),
    "Job": ("batch/v1", _job),
    "CronJob": ("batch/v1", _cron_job),
    "Deployment": ("apps/v1", _replicas),
    "ReplicaSet": ("apps/v1", _replicas),
    "ReplicationController": ("v1", _replicas),
    "StatefulSet": ("apps/v1", _replicas),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", _job_set),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", _leader_worker_set),
    "MPIJob": ("kubeflow.org/v2beta1", _mpi_job),
    "RayCluster": ("ray.io/v1", _ray_cluster),
}
"""By kind: the API that is meant where the manifest names none, in any version; and what makes the pods."""


def maker(manifest: Manifest) -> Maker | None:
    """Return what makes the pods of an object; None for an unknown kind, such as a Job of another API."""
    usual, make = MAKERS.get(manifest["kind"], ("", None))
    if make is None:
        return None
    version = manifest["apiVersion"] = str(manifest.get("apiVersion") or usual)
    return make if version.rpartition("/")[0] == usual.rpartition("/")[0] else None


LABELLED_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")


def labels_for_template(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that an admission policy adds to the template of an object with labels of flux-k8s on itself.

    These are the name of the group and its size, each unless the template has it. The policy is ``fluence-groups``
    (``deploy/base/groups.yaml``, which says why), and a test compares both on the same objects. ``manifest`` has the
    name and namespace that it is created with. Raise what reading a mapping of another form raises.
    """
    meta = manifest["metadata"]
    labels = meta.get("labels")
    if manifest["kind"] not in LABELLED_KINDS or not isinstance(labels, dict) or _of_a_controller(manifest):
        return {}
    group, size = labels.get(COSCHEDULING_GROUP), labels.get(FLUX_SIZE)
    if not group and not size:
        return {}
    template = manifest["spec"]["template"].get("metadata") or {}
    own, notes = template.get("labels") or {}, template.get("annotations") or {}
    named = any(own.get(key) for key in (*COSCHEDULING_NAMES, GROUP_LABEL))
    sized = any(key in own for key in COSCHEDULING_SIZES) or GROUP_SIZE_ANNOTATION in notes
    added = {}
    name = group or f"fluence-group-{meta['namespace']}-{meta['name']}"
    if not named and len(name) <= LONGEST_LABEL:
        added[COSCHEDULING_GROUP] = name
    if not sized and (size or not named):
        added[FLUX_SIZE] = size or str(manifest["spec"].get("replicas") or 1)
    return added


def _of_a_controller(manifest: Mapping[str, Any]) -> bool:
    """Return whether the object is a ReplicaSet that a controller, such as a Deployment, knows by its template."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return manifest["kind"] == "ReplicaSet" and any(one.get("controller") for one in owners)
