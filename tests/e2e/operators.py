"""The kinds by which other projects' objects say how large a gang is, as small as a definition can be.

The operators themselves aren't here: tests write the objects and pods that they would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from tests.e2e.harness import Manifest, wait_for
from tests.localcluster import Api, ApiError

KINDS = {
    "CoschedulingGroup": ("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    "MPIJob": ("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"),
    "MiniCluster": ("flux-framework.org", "v1alpha2", "miniclusters", "MiniCluster"),
    "RayCluster": ("ray.io", "v1", "rayclusters", "RayCluster"),
    "RayJob": ("ray.io", "v1", "rayjobs", "RayJob"),
    "RayService": ("ray.io", "v1", "rayservices", "RayService"),
    "TrainJob": ("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
}
LOOSE: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEMPLATE: Manifest = {"type": "object", "properties": {"metadata": LOOSE, "spec": LOOSE}}
TEXT, FLAG, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "format": "int32"}
CLUSTER = {
    "suspend": FLAG,
    "managedBy": TEXT,
    "enableInTreeAutoscaling": FLAG,
    "headGroupSpec": {**LOOSE, "required": ["template"], "properties": {"template": TEMPLATE}},
    "workerGroupSpecs": {
        "type": "array",
        "items": {
            **LOOSE,
            "required": ["groupName", "maxReplicas", "minReplicas", "template"],
            "properties": {
                "groupName": TEXT,
                "suspend": FLAG,
                "template": TEMPLATE,
                "maxReplicas": {**NUMBER, "default": 2147483647},
                "minReplicas": {**NUMBER, "default": 0},
                "replicas": {**NUMBER, "default": 0},
                "numOfHosts": {**NUMBER, "default": 1},
            },
        },
    },
}
SPECS: dict[str, Manifest] = {
    "RayCluster": {"required": ["headGroupSpec"], "properties": CLUSTER},
    "RayJob": {
        "properties": {
            "suspend": FLAG,
            "activeDeadlineSeconds": NUMBER,
            "rayClusterSpec": {**LOOSE, "properties": CLUSTER},
        },
    },
    "MPIJob": {
        "required": ["mpiReplicaSpecs"],
        "properties": {
            "launcherCreationPolicy": {
                **TEXT,
                "enum": ["AtStartup", "WaitForWorkersReady"],
                "default": "AtStartup",
            },
            "runPolicy": {
                "type": "object",
                "properties": {
                    "suspend": {**FLAG, "default": False},
                    "managedBy": TEXT,
                    "activeDeadlineSeconds": NUMBER,
                    "cleanPodPolicy": TEXT,
                    "schedulingPolicy": LOOSE,
                },
            },
            "mpiReplicaSpecs": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"replicas": NUMBER, "restartPolicy": TEXT, "template": TEMPLATE},
                },
            },
        },
    },
    "MiniCluster": {
        "required": ["containers"],
        "properties": {
            "size": {**NUMBER, "default": 1},
            "tasks": {**NUMBER, "default": 1},
            "network": {**LOOSE, "properties": {"disableAffinity": FLAG, "headlessName": TEXT}},
            "pod": {**LOOSE, "properties": {"schedulerName": TEXT, "labels": LOOSE, "annotations": LOOSE}},
            "containers": {
                "type": "array",
                "items": {
                    **LOOSE,
                    "required": ["image"],
                    "properties": {
                        "name": TEXT,
                        "image": TEXT,
                        "command": TEXT,
                        "runFlux": FLAG,
                        "resources": {"type": "object", "properties": {"limits": LOOSE, "requests": LOOSE}},
                    },
                },
            },
        },
    },
    "TrainJob": {
        "properties": {
            "suspend": {**FLAG, "default": False},
            "activeDeadlineSeconds": {"type": "integer", "format": "int64"},
            "runtimeRef": LOOSE,
            "runtimePatches": {"type": "array", "items": LOOSE},
        },
    },
}
"""What is defined more closely, as the projects publish it: the fields by which objects wait and have pods."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(kind: str) -> Manifest:
    """A CustomResourceDefinition that keeps whatever it is given."""
    group, version, plural, name = KINDS[kind]
    spec = {**LOOSE, **SPECS.get(kind, {})}
    approved = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
    annotations = {"api-approved.kubernetes.io": approved} if group.endswith("k8s.io") else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": name, "plural": plural, "singular": name.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {**LOOSE, "properties": {"spec": spec, "status": LOOSE}}},
                }
            ],
        },
    }


@contextmanager
def installed(api: Api, *kinds: str) -> Iterator[None]:
    """While this lasts the API server serves these kinds."""
    for kind in kinds:
        api.apply(definition(kind))
        group, version, plural, _ = KINDS[kind]
        path = f"/apis/{group}/{version}/{plural}"
        wait_for(partial(api.get, path), what=f"{path} to be served")
        wait_for(partial(_takes_objects, api, kind), what=f"the policies to know {kind}")
    try:
        yield
    finally:
        names = [f"{plural}.{group}" for group, _, plural, _ in (KINDS[kind] for kind in kinds)]
        for name in names:
            with suppress(ApiError):
                api.delete(f"{DEFINITIONS}/{name}")

        def left() -> set[str]:
            return {one["metadata"]["name"] for one in api.get(DEFINITIONS)["items"]} & set(names)

        # One that is on its way out would take along what is made of it anew.
        wait_for(lambda: not left(), what="the definitions to go", seen=left)


def written(kind: str, name: str, **spec: Any) -> Manifest:
    """An object of one of the kinds; ``labels`` go to its metadata."""
    group, version, _, written_kind = KINDS[kind]
    labels = spec.pop("labels", {})
    return {
        "apiVersion": f"{group}/{version}",
        "kind": written_kind,
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _takes_objects(api: Api, kind: str) -> bool:
    """Whether an object that is well formed would be created: admission learns of new kinds a while after the rest."""
    group, version, plural, name = KINDS[kind]
    probe = {"apiVersion": f"{group}/{version}", "kind": name, "metadata": {"name": "probe"}}
    path = f"/apis/{group}/{version}/namespaces/default/{plural}"
    try:
        api.request("POST", path, probe, query={"dryRun": "All"})
    except ApiError as error:
        return error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
    return True
