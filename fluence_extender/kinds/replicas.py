"""What keeps a number of equal pods: Deployments, ReplicaSets and StatefulSets (apps/v1).

Pods of any one owner (a StatefulSet, a ReplicaSet, …) are a gang if they carry a size. All of them must be created at
once: a StatefulSet needs ``podManagementPolicy`` Parallel, and without it such a gang is refused. The size is our
annotation or the label ``fluence.group-size`` of flux-k8s, which may also be a label of their Job. The ReplicaSets of
one Deployment are one owner, because a rollout replaces the pods of one by those of another: otherwise the first new
pod would wait for others that are created only once it is ready.

A cluster has thousands of ReplicaSets, because a Deployment keeps its old ones. So no other fields are kept.

Sources: Kubernetes pkg/controller/{replicaset,replication,statefulset}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.job import labels_of
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.membership import THE_POD, Membership, Workloads, alone, annotated_size, read
from fluence_extender.kinds.pod_sets import (
    CLAIMS,
    Json,
    PodSet,
    SetMember,
    count_of,
    reference_to,
    template_of,
    with_claims,
)
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Workload, stated_duration
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    COSCHEDULING_GROUP,
    COSCHEDULING_NAMES,
    COSCHEDULING_SIZES,
    FLUX_SIZE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    LONGEST_LABEL,
    POD_INDEX,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.submission import QUEUE_LABELS, submission
from fluence_extender.objects.fields import Int64
from fluence_extender.objects.meta import Unread, tolerant_decoder


@dataclass(frozen=True, slots=True)
class ReplicaSet(Workload):
    """An apps/v1 ReplicaSet.

    ``pods`` is how many pods it has at the same time, at least 1. The ReplicaSets of one Deployment all state the pods
    of the Deployment, because a rollout replaces the pods of one ReplicaSet by those of another.
    """

    api: ClassVar[Api] = served.REPLICA_SET

    pods: int


@dataclass(frozen=True, slots=True)
class StatefulSet(Workload):
    """An apps/v1 StatefulSet.

    ``pods`` is how many of its ``replicas`` are created without waiting for others, at least 1.
    """

    api: ClassVar[Api] = served.STATEFUL_SET

    pods: int
    replicas: int = 1


DEPLOYMENT_REPLICAS = "deployment.kubernetes.io/desired-replicas"
"""The annotation by which the Deployment controller notes the Deployment's replicas on each of its ReplicaSets."""

PARALLEL = "Parallel"
MOST_DIGITS = 10


class _Replicated(msgspec.Struct, rename="camel"):
    replicas: Int64 | None = None
    pod_management_policy: str = ""

    @property
    def width(self) -> int:
        """``replicas``, which is 1 by default, but at least 1."""
        return 1 if self.replicas is None else max(self.replicas, 1)


_replica_set = tolerant_decoder("ReplicaSet", _Replicated, Unread)
_stateful_set = tolerant_decoder("StatefulSet", _Replicated, Unread)


def decode_replica_set(raw: bytes) -> ReplicaSet:
    """Decode a ReplicaSet."""
    meta, spec, _, problem = _replica_set(raw)
    noted = (meta.annotations or {}).get(DEPLOYMENT_REPLICAS, "")
    pods = max(int(noted), 1) if noted.isdecimal() and len(noted) <= MOST_DIGITS else spec.width
    # Admission has written the queue's label of the Deployment into its annotations, which are copied to this.
    passed_on = {key: text for key, text in (meta.annotations or {}).items() if key in QUEUE_LABELS and text}
    said = submission({**(meta.labels or {}), **passed_on}, meta.annotations, meta.uid)
    duration = stated_duration(meta.annotations, meta.labels, None)
    return ReplicaSet(*meta.identity, pods, submission=said, duration=duration, problem=problem)


def decode_stateful_set(raw: bytes) -> StatefulSet:
    """Decode a StatefulSet. One that isn't Parallel creates each pod once the pod before it is ready."""
    meta, spec, _, problem = _stateful_set(raw)
    pods, width = spec.width if spec.pod_management_policy == PARALLEL else 1, spec.width
    said, duration = meta.submission, stated_duration(meta.annotations, meta.labels, None)
    return StatefulSet(*meta.identity, pods, width, submission=said, duration=duration, problem=problem)


TEMPLATE_HASHES = ("pod-template-hash", "rollouts-pod-template-hash")
"""The labels of pods with the version that their ReplicaSet's name ends with: by Deployments, and by Argo Rollouts."""


def sized_owner(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of an owned pod that carries a size."""
    if pod.owner is None:
        return None
    stated = annotated_size(pod)
    if stated is None and (text := labels_of(pod, workloads).get(FLUX_SIZE)) is not None:
        stated = read(THE_POD, "label", FLUX_SIZE, text)
    if stated is None:
        return None
    if stated[0] == 1:
        return alone(pod)
    deployment = deployment_of(pod)
    name, uid = (deployment, "") if deployment else (pod.owner.name, pod.owner.uid)
    return Membership(GangKey(pod.namespace, name, Convention.OWNER, uid), *stated)


def never_together(pod: Pod, membership: Membership, workloads: Workloads) -> Reason | None:
    """Return why a gang never assembles if a StatefulSet creates its pods one by one, None for any other gang.

    A gang that is named on the pods and larger than the StatefulSet may have members elsewhere. The policy
    ``fluence-stateful-gangs`` (``deploy/base/groups.yaml``) warns of the same at admission.
    """
    owner, size = pod.owner, membership.size
    if owner is None or not owner.is_a("StatefulSet", "apps") or isinstance(size, Reason) or size == 1:
        return None
    if membership.key.part:
        # Each group of a LeaderWorkerSet has pods of two StatefulSets.
        return None
    stateful_set = workloads.find(StatefulSet, pod.namespace, owner.name)
    if stateful_set is None or stateful_set.pods == stateful_set.replicas:
        return None
    if membership.key.convention is not Convention.OWNER and size > stateful_set.replicas:
        return None
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"StatefulSet {owner.name} creates each pod once the one before is ready, so its pods are never a gang of "
        f"{size}: create it anew with podManagementPolicy: Parallel, or without a size",
    )


def deployment_of(pod: Pod) -> str:
    """Return the Deployment or Rollout that makes such pods, by the name of their ReplicaSet; "" if none does."""
    owner = pod.owner
    if owner is None or not owner.is_a("ReplicaSet", "apps"):
        return ""
    versions = (f"-{pod.labels[key]}" for key in TEMPLATE_HASHES if pod.labels.get(key))
    return next(
        (owner.name.removesuffix(version) for version in versions if owner.name.endswith(version)), ""
    )


LABELLED_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")


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


REPLICA_SETS = Kind(ReplicaSet, decode_replica_set, pods=replica_pods)
STATEFUL_SETS = Kind(StatefulSet, decode_stateful_set, pods=replica_pods)
