"""The controllers that aren't here, as far as the pods and Jobs that they create.

They are those of JobSet and LeaderWorkerSet, the MPI Operator, KubeRay, and the Flux Operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.core import manifests
from tests.e2e.harness import Manifest


def played(owner: Manifest) -> list[Manifest]:
    """What the controller of ``owner`` creates for it, all at once; nothing for kinds that Kubernetes itself serves."""
    play = CONTROLLERS.get(owner["kind"])
    return list(play(owner)) if play else []


def _pod(like: Manifest, template: Manifest) -> Manifest:
    """A pod with the name, labels and annotations of ``like``, and the spec and metadata of the template."""
    meta, own = like["metadata"], template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": meta["name"],
            "labels": own.get("labels", {}) | meta["labels"],
            "annotations": own.get("annotations", {}) | meta["annotations"],
        },
        "spec": template["spec"],
    }


def _job_set(owner: Manifest) -> Iterator[Manifest]:
    name, replicated = owner["metadata"]["name"], owner["spec"]["replicatedJobs"]
    total = sum(one["replicas"] for one in replicated)
    for one in replicated:
        for number in range(one["replicas"]):
            like = manifests.job_set_pod(name, one["name"], number, 0, one["replicas"], total)
            keys, notes = (
                {key: value for key, value in like["metadata"][part].items() if key.startswith("jobset.")}
                for part in ("labels", "annotations")
            )
            spec = one["template"]["spec"]
            template = spec["template"]
            yield {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": f"{name}-{one['name']}-{number}", "labels": keys, "annotations": notes},
                "spec": {
                    **spec,
                    "completionMode": "Indexed",
                    "template": {**template, "metadata": {"labels": keys, "annotations": notes}},
                },
            }


def _leader_worker_set(owner: Manifest) -> Iterator[Manifest]:
    name, template = owner["metadata"]["name"], owner["spec"]["leaderWorkerTemplate"]
    for group in range(owner["spec"]["replicas"]):
        for worker in range(template["size"]):
            like = manifests.leader_worker_pod(name, group, worker, template["size"])
            yield _pod(like, template["workerTemplate"])


def _mpi_job(owner: Manifest) -> Iterator[Manifest]:
    name, specs = owner["metadata"]["name"], owner["spec"]["mpiReplicaSpecs"]
    for number in range(specs["Worker"]["replicas"]):
        yield _pod(manifests.mpi_pod(name, number), specs["Worker"]["template"])
    yield _pod(manifests.mpi_pod(name, None), specs["Launcher"]["template"])


def _ray_cluster(owner: Manifest) -> Iterator[Manifest]:
    name, spec = owner["metadata"]["name"], owner["spec"]
    yield _pod(manifests.ray_pod(name, f"{name}-head", "head"), spec["headGroupSpec"]["template"])
    for group in spec["workerGroupSpecs"]:
        for number in range(group["replicas"]):
            like = manifests.ray_pod(name, f"{name}-{group['groupName']}-{number}")
            yield _pod(like, group["template"])


def _mini_cluster(owner: Manifest) -> Iterator[Manifest]:
    name, spec = owner["metadata"]["name"], owner["spec"]
    keys = {"app.kubernetes.io/name": name, "namespace": "any"}
    containers = [
        {"name": one["name"], "image": one["image"], "resources": one["resources"]}
        for one in spec["containers"]
    ]
    pod = {
        "schedulerName": spec["pod"]["schedulerName"],
        "subdomain": "flux-service",
        "setHostnameAsFQDN": False,
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "flux-view", "image": "flux-view"}],
        "containers": containers,
    }
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": keys},
        "spec": {
            "completionMode": "Indexed",
            "completions": spec["size"],
            "parallelism": spec["size"],
            "backoffLimit": 100,
            "template": {"metadata": {"name": name, "labels": keys}, "spec": pod},
        },
    }


CONTROLLERS: dict[str, Callable[[Manifest], Iterator[Manifest]]] = {
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "MPIJob": _mpi_job,
    "MiniCluster": _mini_cluster,
    "RayCluster": _ray_cluster,
}
