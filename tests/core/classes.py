"""Pods of ours, and whether each is to be a filtered one: kube-scheduler's filters look at what we don't judge."""

from __future__ import annotations

from typing import Any

from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    BACKEND_ANNOTATION,
    GATE,
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
        "metadata": {"name": "classes", **(metadata or {})},
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


JUDGED_VOLUMES: dict[str, dict[str, Any]] = {
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
    "cinder": {"volumeID": "v"},
    "fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0},
}
PLAIN_VOLUMES: dict[str, dict[str, Any]] = {
    "emptyDir": {},
    "configMap": {"name": "c"},
    "secret": {"secretName": "s"},
    "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
    "projected": {"sources": [{"configMap": {"name": "c"}}]},
    "hostPath": {"path": "/data"},
    "nfs": {"server": "10.0.0.1", "path": "/data"},
    "image": {"reference": "data:1"},
}
MANY = [{"name": f"v{number}", "emptyDir": {}} for number in range(1001)]
SPREAD_WIDELY = [
    {"whenUnsatisfiable": "ScheduleAnyway", **SPREAD, "topologyKey": f"key-{number}"}
    for number in range(1001)
]

PODS: dict[str, tuple[Manifest, bool]] = {
    **{f"with a volume of kind {kind}": (volume(**{kind: it}), True) for kind, it in JUDGED_VOLUMES.items()},
    **{f"with a volume of kind {kind}": (volume(**{kind: it}), False) for kind, it in PLAIN_VOLUMES.items()},
    "plain": (pod(), False),
    "with the gate": (pod(schedulingGates=[{"name": GATE}]), True),
    "with the gate of others": (pod(schedulingGates=[{"name": "example.com/quota"}]), False),
    "with a volume without a source": (volume(), False),
    "a gang's, of no controller": (labelled(), False),
    "a coscheduling group's": (pod({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}), False),
    "a gang's, of a controller": (labelled(ownerReferences=[CONTROLLED]), False),
    "a gang's, which Kueue counts": (
        pod({"labels": {GROUP_LABEL: "g", "kueue.x-k8s.io/queue-name": "q"}}),
        False,
    ),
    "a native group's": (pod(schedulingGroup={"podGroupName": "g"}), False),
    "with a device": (pod(asks=DEVICE), False),
    "with resources that are null": (
        pod(
            {"labels": {GROUP_LABEL: "g"}, "annotations": None, "ownerReferences": None},
            containers=[{"name": "main", "image": "app", "resources": None, "ports": None}],
            initContainers=None,
            affinity=None,
            volumes=None,
        ),
        False,
    ),
    "with a gpu": (pod(asks="nvidia.com/gpu"), False),
    "with stamps": (pod({"annotations": {BACKEND_ANNOTATION: "fez", ALLOCATION_ANNOTATION: "[]"}}), False),
    "with 1000 annotations": (pod({"annotations": {f"a/{number}": "" for number in range(999)}}), False),
    "with 1001 annotations": (pod({"annotations": {f"a/{number}": "" for number in range(1001)}}), True),
    "with 1001 volumes": (pod(volumes=MANY), True),
    "with 1001 wishes how to be spread": (pod(topologySpreadConstraints=SPREAD_WIDELY), False),
    "with 1001 containers": (
        pod(
            containers=[CONTAINER | {"name": f"c{number}"} for number in range(500)],
            initContainers=[CONTAINER | {"name": f"i{number}"} for number in range(501)],
        ),
        True,
    ),
    "with a wish": (pod({"annotations": {"fluence.flux-framework.org/require-vendor": "ibm"}}), False),
    "with a port of its own": (pod(port=0), False),
    "with a port of the host": (pod(port=8080), False),
    "near others": (pod(affinity={"podAffinity": {REQUIRED: [NEAR]}}), False),
    "near others if that can be": (
        pod(
            affinity={
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": NEAR}
                    ]
                }
            }
        ),
        False,
    ),
    "away from others": (pod(affinity={"podAntiAffinity": {REQUIRED: [NEAR]}}), False),
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
    "spread": (pod(topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule", **SPREAD}]), False),
    "spread if that can be": (
        pod(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway", **SPREAD}]),
        False,
    ),
    "with a resource claim": (
        pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]),
        True,
    ),
}
