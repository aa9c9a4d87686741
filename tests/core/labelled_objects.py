"""Objects of ours with labels of flux-k8s of their own, and what their templates get for it."""

from __future__ import annotations

from typing import Any

from fluence_extender.model.names import (
    COSCHEDULING_GROUP,
    FLUX_SIZE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    SCHEDULER_NAME,
)

Manifest = dict[str, Any]
NAMESPACE = "labelled"
UNNAMED = f"fluence-group-{NAMESPACE}-web"
LONG = "w" * 63
GROUP, SIZE, BOTH = {COSCHEDULING_GROUP: "g"}, {FLUX_SIZE: "2"}, {COSCHEDULING_GROUP: "g", FLUX_SIZE: "2"}
CONTROLLED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}


def labelled(
    labels: dict[str, str] | None,
    kind: str = "Deployment",
    replicas: int | None = 3,
    own: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
    **metadata: Any,
) -> Manifest:
    """An object with these ``labels``, whose template has the labels ``own`` and the annotations ``notes``."""
    more = {"serviceName": "web", "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    said = {} if replicas is None else {"replicas": replicas}
    about = {"labels": {"app": "web", **(own or {})}, "annotations": notes or {}}
    containers = [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": labels, **metadata},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": about,
                "spec": {"schedulerName": SCHEDULER_NAME, "containers": containers},
            },
            **said,
            **more,
        },
    }


OBJECTS: dict[str, tuple[Manifest, dict[str, str]]] = {
    "without labels": (labelled(None), {}),
    "with others' labels": (labelled({"app": "web"}), {}),
    "with both": (labelled(BOTH), BOTH),
    "a ReplicaSet": (labelled(BOTH, "ReplicaSet"), BOTH),
    "a ReplicaSet of a Deployment": (labelled(BOTH, "ReplicaSet", ownerReferences=[CONTROLLED]), {}),
    "a Deployment of an operator": (labelled(BOTH, ownerReferences=[CONTROLLED]), BOTH),
    "a StatefulSet": (labelled(BOTH, "StatefulSet"), BOTH),
    "with a group": (labelled(GROUP), {COSCHEDULING_GROUP: "g", FLUX_SIZE: "3"}),
    "with a size": (labelled(SIZE), {COSCHEDULING_GROUP: UNNAMED, FLUX_SIZE: "2"}),
    "with a size that is none": (
        labelled({FLUX_SIZE: "two"}),
        {COSCHEDULING_GROUP: UNNAMED, FLUX_SIZE: "two"},
    ),
    "with a size, and a name too long for a group": (labelled(SIZE, name=LONG), SIZE),
    "with labels that are empty": (labelled({COSCHEDULING_GROUP: "", FLUX_SIZE: ""}), {}),
    "with a size and an empty group": (
        labelled({COSCHEDULING_GROUP: "", FLUX_SIZE: "2"}),
        {COSCHEDULING_GROUP: UNNAMED, FLUX_SIZE: "2"},
    ),
    "without replicas": (labelled(GROUP, replicas=0), {COSCHEDULING_GROUP: "g", FLUX_SIZE: "1"}),
    "with replicas unsaid": (labelled(GROUP, replicas=None), {COSCHEDULING_GROUP: "g", FLUX_SIZE: "1"}),
    "whose template says both": (labelled(BOTH, own={COSCHEDULING_GROUP: "h", FLUX_SIZE: "5"}), {}),
    "whose template says its size": (labelled(BOTH, own={FLUX_SIZE: "5"}), GROUP),
    "whose template says its size by annotation": (
        labelled(GROUP, notes={GROUP_SIZE_ANNOTATION: "5"}),
        GROUP,
    ),
    "whose template says its size otherwise": (
        labelled(GROUP, own={"pod-group.scheduling.sigs.k8s.io/min-available": "5"}),
        GROUP,
    ),
    "whose template says its group": (labelled(BOTH, own={COSCHEDULING_GROUP: "h"}), SIZE),
    "whose template says its group, and no size": (labelled(GROUP, own=GROUP), {}),
    "whose template says a group of ours": (labelled(GROUP, own={GROUP_LABEL: "h"}), {}),
}
