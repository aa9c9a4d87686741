"""Pods of ours, and whether each is to be marked for our bind verb."""

from __future__ import annotations

from typing import Any

from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    BACKEND_ANNOTATION,
    GROUP_LABEL,
    SCHEDULER_NAME,
)

Manifest = dict[str, Any]
DEVICE = "fluxion.flux-framework.org/annealer"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
SPREAD = {"maxSkew": 1, **NEAR}
CONTAINER: Manifest = {"name": "main", "image": "app"}
CONTROLLED = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


def pod(metadata: dict[str, Any] | None = None, port: int = 0, asks: str = "", **spec: Any) -> Manifest:
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "marks", **(metadata or {})},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [dict(CONTAINER)], **spec},
    }
    container = body["spec"]["containers"][0]
    if port:
        container["ports"] = [{"containerPort": 80, "hostPort": port}]
    if asks:
        container["resources"] = {"limits": {asks: "1"}, "requests": {asks: "1"}}
    return body


def labelled(**more: Any) -> Manifest:
    return pod({"labels": {GROUP_LABEL: "g"}, **more})


def volume(**source: Any) -> Manifest:
    return pod(volumes=[{"name": "v", **source}])


VOLUMES: dict[str, dict[str, Any]] = {
    "persistentVolumeClaim": {"claimName": "c"},
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        }
    },
    "csi": {"driver": "example.org"},
    "awsElasticBlockStore": {"volumeID": "v"},
    "gcePersistentDisk": {"pdName": "v"},
    "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:v", "lun": 0},
    "rbd": {"monitors": ["10.0.0.1:6789"], "image": "v"},
}

PODS = {
    **{f"with a volume of kind {kind}": (volume(**{kind: said}), True) for kind, said in VOLUMES.items()},
    "plain": (pod(), False),
    "a gang's, of no controller": (labelled(), True),
    "a coscheduling group's": (pod({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}), True),
    "a group's by the label before": (pod({"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}), True),
    "a group's by the label before that": (
        pod({"labels": {"pod-group.scheduling.sigs.k8s.io/name": "g"}}),
        True,
    ),
    "a gang's, of a controller": (labelled(ownerReferences=[CONTROLLED]), False),
    "a gang's, which Kueue counts": (
        pod({"labels": {GROUP_LABEL: "g", "kueue.x-k8s.io/queue-name": "q"}}),
        False,
    ),
    "a native group's": (pod(schedulingGroup={"podGroupName": "g"}), True),
    "with a device": (pod(asks=DEVICE), True),
    "with a device in an init container": (
        pod(
            initContainers=[
                {
                    "name": "before",
                    "image": "app",
                    "resources": {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}},
                }
            ]
        ),
        True,
    ),
    "with resources that are null": (
        pod(
            {"labels": {GROUP_LABEL: "g"}, "annotations": None, "ownerReferences": None},
            containers=[{"name": "main", "image": "app", "resources": None, "ports": None}],
            initContainers=None,
            affinity=None,
            volumes=None,
        ),
        True,
    ),
    "with a gpu": (pod(asks="nvidia.com/gpu"), False),
    "with stamps": (pod({"annotations": {BACKEND_ANNOTATION: "fez", ALLOCATION_ANNOTATION: "[]"}}), True),
    "with an attribute": (pod({"annotations": {"fluence.flux-framework.org/attr-vendor": "ibm"}}), True),
    "with 1001 annotations": (pod({"annotations": {f"a/{number}": "" for number in range(1001)}}), True),
    "with 1001 volumes": (
        pod(volumes=[{"name": f"v{number}", "emptyDir": {}} for number in range(1001)]),
        True,
    ),
    "with 1001 ports": (
        pod(containers=[CONTAINER | {"ports": [{"containerPort": number + 1} for number in range(1001)]}]),
        True,
    ),
    "with a wish": (pod({"annotations": {"fluence.flux-framework.org/require-vendor": "ibm"}}), False),
    "with an empty folder": (volume(emptyDir={}), False),
    "with a port of its own": (pod(port=0), False),
    "with a port of the host": (pod(port=8080), True),
    "near others": (pod(affinity={"podAffinity": {REQUIRED: [NEAR]}}), True),
    "away from others": (pod(affinity={"podAntiAffinity": {REQUIRED: [NEAR]}}), True),
    "on some nodes": (
        pod(
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
                    }
                }
            }
        ),
        False,
    ),
    "spread": (pod(topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule", **SPREAD}]), True),
    "spread if that can be": (
        pod(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway", **SPREAD}]),
        False,
    ),
}
