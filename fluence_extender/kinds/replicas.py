"""The pods of what keeps a number of equal pods: Deployments, ReplicaSets, StatefulSets and LeaderWorkerSets.

Sources: Kubernetes pkg/controller/{replicaset,replication,statefulset}; LeaderWorkerSet pkg/webhooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.kinds.pod_sets import (
    Json,
    PodSet,
    SetMember,
    count_of,
    reference_to,
    template_of,
    with_claims,
)
from fluence_extender.model.names import (
    COSCHEDULING_GROUP,
    COSCHEDULING_NAMES,
    COSCHEDULING_SIZES,
    FLUX_SIZE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    LONGEST_LABEL,
    LWS_GROUP_INDEX,
    LWS_NAME,
    LWS_REVISION,
    LWS_SIZE,
    LWS_WORKER_INDEX,
    POD_INDEX,
)

CLAIMS = "volumeClaimTemplates"
LABELLED_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")


def single_pod(pod: Json) -> Iterator[PodSet]:
    """Yield a pod that no controller makes."""
    owners = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    member = SetMember(pod["metadata"]["name"], owner=owners[0] if owners else None)
    yield PodSet(template_of(pod), 1, lambda: iter((member,)))


def replica_pods(manifest: Json) -> Iterator[PodSet]:
    """Yield the pods of one template; a Deployment's are those of a ReplicaSet of its name."""
    spec, name, kind = manifest["spec"], manifest["metadata"]["name"], manifest["kind"]
    owner = reference_to(
        {**manifest, "kind": "ReplicaSet", "apiVersion": "apps/v1"} if kind == "Deployment" else manifest
    )
    added = labels_for_template(manifest)
    count = count_of(spec.get("replicas"), 1)

    def members() -> Iterator[SetMember]:
        for number in range(max(count, 1)):
            index = {POD_INDEX: str(number)} if kind == "StatefulSet" else {}
            yield SetMember(f"{name}-{number}", {**added, **index}, {}, owner)

    yield PodSet(with_claims(template_of(spec["template"]), spec.get(CLAIMS), f"{name}-0"), count, members)


def leader_worker_pods(manifest: Json) -> Iterator[PodSet]:
    """Yield the leaders, then the workers of all groups."""
    templates = manifest["spec"]["leaderWorkerTemplate"]
    size = count_of(templates.get("size"), 1)
    groups = count_of(manifest["spec"].get("replicas"), 1) if size else 0
    leader = templates.get("leaderTemplate") or templates["workerTemplate"]
    name = manifest["metadata"]["name"]
    claims = templates.get(CLAIMS)
    yield _of_groups(manifest, with_claims(template_of(leader), claims, f"{name}-0"), groups, range(1), size)
    if size > 1:
        worker = with_claims(template_of(templates["workerTemplate"]), claims, f"{name}-0-0")
        yield _of_groups(manifest, worker, groups, range(1, size), size)


def _of_groups(manifest: Json, template: Json, groups: int, workers: range, size: int) -> PodSet:
    """Return the pods with these worker indexes of each group."""
    name = manifest["metadata"]["name"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": name,
        "uid": f"lws-{name}",
        "controller": True,
        "blockOwnerDeletion": False,
    }

    def members() -> Iterator[SetMember]:
        for group in range(max(groups, 1)):
            for worker in workers:
                labels = {
                    LWS_NAME: name,
                    LWS_GROUP_INDEX: str(group),
                    LWS_WORKER_INDEX: str(worker),
                    LWS_REVISION: "1",
                }
                pod = f"{name}-{group}" if worker == 0 else f"{name}-{group}-{worker}"
                yield SetMember(pod, labels, {LWS_SIZE: str(size)}, owner)

    return PodSet(template, groups * len(workers), members)


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
