"""KubeRay, the MPI Operator and the Kubeflow Trainer, as far as what they create, when, and whose it is.

KubeRay deletes the pods of a suspended RayCluster, and creates none. For a RayJob that isn't suspended it creates a
RayCluster with the RayJob's labels and annotations. The MPI Operator deletes the workers of a suspended MPIJob, and
creates none. It creates the launcher's Job at once, suspended, and resumes and suspends it with the MPIJob. The Trainer
applies a JobSet for a TrainJob at each look, with the replicated jobs of the runtime and the TrainJob's ``suspend``. It
copies none of the TrainJob's own labels.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from fluence_extender.model.names import (
    MPI_OPERATOR,
    RAY_CLUSTER,
    RAY_GROUP,
    RAY_NODE,
    RAY_NODE_TYPE,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
    TRAINING_ROLE,
)
from tests.e2e.harness import Manifest
from tests.e2e.operators import written
from tests.localcluster import Api, ApiError

EVERY = 0.2
"""Seconds between two looks."""


class PlayedOperators(threading.Thread):
    """Follows all RayJobs, RayClusters, MPIJobs and TrainJobs, except while it is ``away``.

    ``runtimes`` are the specs of the JobSets of training runtimes, by name.
    """

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self._api = api
        self._ended = threading.Event()
        self.away = False
        self.runtimes: dict[str, Manifest] = {}

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        follows = {
            "ray.io/v1/rayjobs": self._follow_ray_job,
            "ray.io/v1/rayclusters": self._follow_ray_cluster,
            "kubeflow.org/v2beta1/mpijobs": self._follow_mpi_job,
            "trainer.kubeflow.org/v1alpha1/trainjobs": self._follow_train_job,
        }
        while not self._ended.wait(EVERY):
            for resource, follow in follows.items():
                with suppress(ApiError):
                    for one in self._api.get(f"/apis/{resource}")["items"]:
                        # Conflicts and the like: it looks again.
                        with suppress(ApiError):
                            if not self.away and "deletionTimestamp" not in one["metadata"]:
                                follow(one)

    def _create(self, made: Manifest, owner: Manifest) -> None:
        made["metadata"]["ownerReferences"] = [_reference(owner)]
        with suppress(ApiError):
            self._api.create(made, owner["metadata"]["namespace"])

    def _delete_pods(self, owner: Manifest) -> None:
        """Delete the pods that ``owner`` controls itself."""
        for pod in self._api.get(f"/api/v1/namespaces/{owner['metadata']['namespace']}/pods")["items"]:
            meta = pod["metadata"]
            owners = [one["uid"] for one in meta.get("ownerReferences", ())]
            if owners == [owner["metadata"]["uid"]] and "deletionTimestamp" not in meta:
                self._api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")

    def _follow_train_job(self, owner: Manifest) -> None:
        meta, spec = owner["metadata"], owner["spec"]
        made = written("JobSet", meta["name"], **self.runtimes[spec["runtimeRef"]["name"]])
        made["metadata"] |= {"namespace": meta["namespace"], "ownerReferences": [_reference(owner)]}
        made["spec"]["suspend"] = bool(spec.get("suspend"))
        self._api.apply(made)

    def _follow_ray_job(self, owner: Manifest) -> None:
        meta, spec = owner["metadata"], owner["spec"]
        if spec.get("suspend"):
            return
        labels = {
            **meta.get("labels", {}),
            "ray.io/originated-from-cr-name": meta["name"],
            "ray.io/originated-from-crd": "RayJob",
        }
        name = f"{meta['name']}-x7k2p"
        path = f"/apis/ray.io/v1/namespaces/{meta['namespace']}/rayjobs/{meta['name']}/status"
        self._api.patch(path, {"status": {"rayClusterName": name}})
        made = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": meta.get("annotations", {}),
            },
            "spec": spec["rayClusterSpec"],
        }
        self._create(made, owner)

    def _follow_ray_cluster(self, owner: Manifest) -> None:
        name, spec = owner["metadata"]["name"], owner["spec"]
        if spec.get("suspend"):
            self._delete_pods(owner)
            return
        self._create(_ray_pod(name, f"{name}-head", "head", "headgroup", spec["headGroupSpec"]), owner)
        for group in spec.get("workerGroupSpecs", ()):
            for number in range(group["replicas"]):
                pod = f"{name}-{group['groupName']}-worker-{number}"
                self._create(_ray_pod(name, pod, "worker", group["groupName"], group), owner)

    def _follow_mpi_job(self, owner: Manifest) -> None:
        meta, specs = owner["metadata"], owner["spec"]["mpiReplicaSpecs"]
        name, suspended = meta["name"], owner["spec"].get("runPolicy", {}).get("suspend", False)
        if suspended:
            self._delete_pods(owner)
        for number in range(0 if suspended else specs["Worker"]["replicas"]):
            self._create(_mpi_pod(name, f"{name}-worker-{number}", "worker", specs), owner)
        path = f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs/{name}-launcher"
        try:
            launcher = self._api.get(path)
        except ApiError:
            pod = _mpi_pod(name, "launcher", "launcher", specs)
            template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
            job: Manifest = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": f"{name}-launcher", "labels": {"app": name}},
                "spec": {"template": template, **({"suspend": True} if suspended else {})},
            }
            self._create(job, owner)
            return
        if bool(launcher["spec"].get("suspend")) is not suspended:
            self._api.patch(path, {"spec": {"suspend": suspended}})


def _reference(owner: Manifest) -> Manifest:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod(name: str, template: Manifest, labels: dict[str, str], **spec: Any) -> Manifest:
    own = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**own.get("labels", {}), **labels},
            "annotations": own.get("annotations", {}),
        },
        "spec": {**template["spec"], **spec},
    }


def _ray_pod(cluster: str, name: str, kind: str, group: str, spec: Manifest) -> Manifest:
    labels = {RAY_CLUSTER: cluster, RAY_NODE: "yes", RAY_NODE_TYPE: kind, RAY_GROUP: group}
    return _pod(name, spec["template"], labels)


def _mpi_pod(job: str, name: str, role: str, specs: Manifest) -> Manifest:
    labels = {TRAINING_OPERATOR: MPI_OPERATOR, TRAINING_JOB_NAME: job, TRAINING_ROLE: role}
    return _pod(name, specs[role.capitalize()]["template"], labels, restartPolicy="Never")
