"""The fields of Kubernetes objects that are read, and no others: msgspec skips the rest without building it.

What goes on to the effective requests (containers, overhead, container statuses) is decoded as plain dicts
with those keys only; tolerations, taints and selector expressions have the model's own field names and become
model values at once. API: core/v1; nulls are allowed wherever the API server may
leave a field empty.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

import msgspec

from fluence_extender.model.node import Taint
from fluence_extender.model.pod import Requirement, Toleration


class OwnerReference(msgspec.Struct, gc=False):
    """metav1.OwnerReference."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None
    api_version: str = msgspec.field(name="apiVersion", default="")


class Metadata(msgspec.Struct):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    creation_timestamp: datetime | None = msgspec.field(name="creationTimestamp", default=None)
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)
    owner_references: list[OwnerReference] | None = msgspec.field(name="ownerReferences", default=None)


class Amounts(TypedDict, total=False):
    """core/v1 ResourceRequirements."""

    requests: dict[str, Any] | None
    limits: dict[str, Any] | None


class Port(TypedDict, total=False):
    """core/v1 ContainerPort."""

    hostPort: int | None
    hostIP: str | None
    protocol: str | None


class Container(TypedDict, total=False):
    """core/v1 Container."""

    name: str
    resources: Amounts | None
    restartPolicy: str | None
    ports: list[Port] | None


class SelectorTerm(msgspec.Struct):
    """core/v1 NodeSelectorTerm."""

    match_expressions: tuple[Requirement, ...] | None = msgspec.field(name="matchExpressions", default=None)
    match_fields: tuple[Requirement, ...] | None = msgspec.field(name="matchFields", default=None)


class Selector(msgspec.Struct):
    """core/v1 NodeSelector."""

    terms: list[SelectorTerm] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class NodeAffinity(msgspec.Struct):
    """core/v1 NodeAffinity; preferences are the scheduler's business."""

    required: Selector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class LabelSelector(msgspec.Struct):
    """meta/v1 LabelSelector."""

    labels: dict[str, str] | None = msgspec.field(name="matchLabels", default=None)
    expressions: tuple[Requirement, ...] | None = msgspec.field(name="matchExpressions", default=None)


class PodAffinityTerm(msgspec.Struct):
    """core/v1 PodAffinityTerm: which pods it is about."""

    selector: LabelSelector | None = msgspec.field(name="labelSelector", default=None)
    namespaces: list[str] | None = None
    namespace_selector: dict[str, Any] | None = msgspec.field(name="namespaceSelector", default=None)


class PodAffinity(msgspec.Struct):
    """core/v1 PodAffinity and PodAntiAffinity: what must hold."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(msgspec.Struct):
    """core/v1 Affinity; what affinity between pods says is the scheduler's business."""

    node: NodeAffinity | None = msgspec.field(name="nodeAffinity", default=None)
    near: PodAffinity | None = msgspec.field(name="podAffinity", default=None)
    apart: PodAffinity | None = msgspec.field(name="podAntiAffinity", default=None)


class Gate(TypedDict):
    """core/v1 PodSchedulingGate."""

    name: str


class SchedulingGroup(TypedDict, total=False):
    """core/v1 PodSchedulingGroup."""

    podGroupName: str | None


class Volume(TypedDict, total=False):
    """core/v1 Volume: the kinds that kube-scheduler looks at."""

    persistentVolumeClaim: dict[str, Any] | None
    ephemeral: dict[str, Any] | None
    csi: dict[str, Any] | None
    awsElasticBlockStore: dict[str, Any] | None
    gcePersistentDisk: dict[str, Any] | None
    iscsi: dict[str, Any] | None
    rbd: dict[str, Any] | None


class SpreadConstraint(TypedDict, total=False):
    """core/v1 TopologySpreadConstraint."""

    whenUnsatisfiable: str | None


class PodSpec(TypedDict, total=False):
    """core/v1 PodSpec."""

    schedulerName: str
    nodeName: str
    priority: int | None
    preemptionPolicy: str | None
    schedulingGates: list[Gate] | None
    schedulingGroup: SchedulingGroup | None
    tolerations: tuple[Toleration, ...] | None
    nodeSelector: dict[str, str] | None
    affinity: Affinity | None
    topologySpreadConstraints: list[SpreadConstraint] | None
    volumes: list[Volume] | None
    resourceClaims: list[msgspec.Raw] | None
    containers: list[Container] | None
    initContainers: list[Container] | None
    overhead: dict[str, Any] | None
    resources: Amounts | None
    activeDeadlineSeconds: int | None


class ContainerStatus(TypedDict, total=False):
    """core/v1 ContainerStatus: what a resize has reached."""

    name: str
    resources: Amounts | None
    allocatedResources: dict[str, Any] | None


class Condition(TypedDict, total=False):
    """core/v1 PodCondition and NodeCondition."""

    type: str
    status: str
    reason: str | None
    message: str | None


class ClaimStatus(TypedDict, total=False):
    """core/v1 NodeAllocatableResourceClaimStatus: what a resource claim holds of the node itself."""

    resources: dict[str, Any] | None


class PodStatus(TypedDict, total=False):
    """core/v1 PodStatus."""

    phase: str
    reason: str | None
    message: str | None
    startTime: datetime | None
    nominatedNodeName: str | None
    resize: str | None
    resources: Amounts | None
    allocatedResources: dict[str, Any] | None
    conditions: list[Condition] | None
    containerStatuses: list[ContainerStatus] | None
    initContainerStatuses: list[ContainerStatus] | None
    nodeAllocatableResourceClaimStatuses: list[ClaimStatus] | None


class PodObject(msgspec.Struct):
    """core/v1 Pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus | None = None


class PodWhereabouts(TypedDict, total=False):
    """Of a PodSpec that doesn't fit its type: what is most needed."""

    schedulerName: str
    nodeName: str


class PodPhase(TypedDict, total=False):
    """Of a PodStatus that doesn't fit its type: what is most needed."""

    phase: str


class BrokenPod(msgspec.Struct):
    """core/v1 Pod of which some field isn't of its type."""

    metadata: Metadata
    spec: PodWhereabouts = {}
    status: PodPhase = {}


class NodeSpec(msgspec.Struct):
    """core/v1 NodeSpec."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class NodeStatus(msgspec.Struct):
    """core/v1 NodeStatus."""

    allocatable: dict[str, Any] | None = None
    conditions: list[Condition] | None = None


class NodeObject(msgspec.Struct):
    """core/v1 Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ConfigMapObject(msgspec.Struct):
    """core/v1 ConfigMap."""

    metadata: Metadata
    data: dict[str, str] | None = None


class Event(msgspec.Struct, gc=False):
    """metav1.WatchEvent."""

    type: str
    object: msgspec.Raw


class ListMeta(msgspec.Struct, gc=False):
    """metav1.ListMeta."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str | None = msgspec.field(name="continue", default=None)


class Page(msgspec.Struct):
    """One page of any list."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Versioned(msgspec.Struct):
    """Any object, for its version alone."""

    metadata: ListMeta
