"""Decode Pods (core/v1).

The fields from which the effective requests are computed (containers, overhead, container statuses) are decoded as
plain dicts. Tolerations and selector expressions have the model's own field names and become model values at once.
Invariant: a pod that can't be read in full has the reason in ``problem``. Requests that can't be read count as one pod
slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from fluence_extender.cluster.decode.ends import ended_at
from fluence_extender.kinds.workload import stated_duration
from fluence_extender.model.names import ASKS_FOR_NODES, DEFAULT_SCHEDULER, HOSTNAME, REQUIRE_PREFIX
from fluence_extender.model.pod import (
    ENDED,
    ClaimRef,
    HostPort,
    NodeTerm,
    Owner,
    Pod,
    PodTerm,
    Requirement,
    SpreadRule,
    alone_on_node,
)
from fluence_extender.model.requests import SPEC_FIELDS, STATUS_FIELDS, effective_requests
from fluence_extender.model.resources import PODS, Resources
from fluence_extender.model.selectors import holds
from fluence_extender.model.taints import Toleration
from fluence_extender.objects.fields import Int64, LabelSelector, NodeSelector, Time
from fluence_extender.objects.meta import Metadata, report_unreadable, tolerant_decoder

UNREADABLE = Resources({PODS: 1})
MOST_CACHED = 4096
LARGEST_CACHED = 16_384
"""The most bytes of a form whose requests are cached. Without a limit the cache could hold gigabytes."""

MOST_RULES = 128
"""The most tolerations, node selectors, and terms and expressions of affinity of a pod, which nodes are checked for;
and the most ``require-<attr>`` annotations, which devices are checked for."""
MOST_VALUES = 2048
"""The most values of all these expressions together."""
MOST_PORTS = 256
"""The most host ports of a pod."""
LONGEST_MESSAGE = 400
REJECTED_PREFIX = "Pod was rejected: "
UNADMITTED = "UnexpectedAdmissionError"
OS_LABEL = "kubernetes.io/os"
"""The label that each kubelet writes on its node."""

SCHEDULE_ANYWAY = "ScheduleAnyway"

UNSCHEDULABLE = ("PodScheduled", "False", "Unschedulable")
GATED = ("PodScheduled", "False", "SchedulingGated")
SCHEDULER_ERROR = ("PodScheduled", "False", "SchedulerError")
"""Type, status and reason of the conditions by which kube-scheduler reports that the pod fits no node, and that a
scheduling attempt or the pod's Binding failed."""


class Amounts(TypedDict, total=False):
    """core/v1 ResourceRequirements."""

    requests: dict[str, Any] | None
    limits: dict[str, Any] | None


class Port(TypedDict, total=False):
    """core/v1 ContainerPort."""

    hostPort: Int64 | None
    hostIP: str | None
    protocol: str | None


class RestartRule(TypedDict, total=False):
    """core/v1 ContainerRestartRule."""

    action: str | None


class Container(TypedDict, total=False):
    """core/v1 Container."""

    name: str
    resources: Amounts | None
    restartPolicy: str | None
    restartPolicyRules: list[RestartRule] | None
    ports: list[Port] | None


class NodeAffinity(msgspec.Struct):
    """core/v1 NodeAffinity; kube-scheduler handles preferences."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinityTerm(msgspec.Struct):
    """core/v1 PodAffinityTerm: the selection of pods."""

    selector: LabelSelector | None = msgspec.field(name="labelSelector", default=None)
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = msgspec.field(name="namespaceSelector", default=None)
    topology_key: str = msgspec.field(name="topologyKey", default="")
    match_keys: list[str] | None = msgspec.field(name="matchLabelKeys", default=None)
    mismatch_keys: list[str] | None = msgspec.field(name="mismatchLabelKeys", default=None)


class PodAffinity(msgspec.Struct):
    """core/v1 PodAffinity and PodAntiAffinity: the required terms."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(msgspec.Struct):
    """core/v1 Affinity."""

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
    """core/v1 Volume: the types of volumes that kube-scheduler's filters read."""

    persistentVolumeClaim: dict[str, Any] | None
    ephemeral: dict[str, Any] | None
    csi: dict[str, Any] | None
    awsElasticBlockStore: dict[str, Any] | None
    azureDisk: dict[str, Any] | None
    azureFile: dict[str, Any] | None
    cinder: dict[str, Any] | None
    gcePersistentDisk: dict[str, Any] | None
    iscsi: dict[str, Any] | None
    portworxVolume: dict[str, Any] | None
    rbd: dict[str, Any] | None
    vsphereVolume: dict[str, Any] | None


class SpreadConstraint(msgspec.Struct):
    """core/v1 TopologySpreadConstraint."""

    key: str = msgspec.field(name="topologyKey", default="")
    max_skew: Int64 = msgspec.field(name="maxSkew", default=1)
    when: str | None = msgspec.field(name="whenUnsatisfiable", default=None)
    selector: LabelSelector | None = msgspec.field(name="labelSelector", default=None)
    min_domains: Int64 | None = msgspec.field(name="minDomains", default=None)
    match_keys: list[str] | None = msgspec.field(name="matchLabelKeys", default=None)
    affinity_policy: str | None = msgspec.field(name="nodeAffinityPolicy", default=None)
    taints_policy: str | None = msgspec.field(name="nodeTaintsPolicy", default=None)


class ClaimReference(msgspec.Struct, gc=False):
    """core/v1 PodResourceClaim."""

    name: str
    claim: str | None = msgspec.field(name="resourceClaimName", default=None)
    template: str | None = msgspec.field(name="resourceClaimTemplateName", default=None)


class MadeClaim(msgspec.Struct, gc=False):
    """core/v1 PodResourceClaimStatus: the claim that was made of a template."""

    name: str
    claim: str | None = msgspec.field(name="resourceClaimName", default=None)


class OperatingSystem(TypedDict, total=False):
    """core/v1 PodOS."""

    name: str | None


class PodSpec(TypedDict, total=False):
    """core/v1 PodSpec."""

    schedulerName: str
    nodeName: str
    priority: Int64 | None
    priorityClassName: str | None
    preemptionPolicy: str | None
    schedulingGates: list[Gate] | None
    schedulingGroup: SchedulingGroup | None
    tolerations: tuple[Toleration, ...] | None
    nodeSelector: dict[str, str] | None
    hostNetwork: bool | None
    hostUsers: bool | None
    os: OperatingSystem | None
    affinity: Affinity | None
    topologySpreadConstraints: list[SpreadConstraint] | None
    volumes: list[Volume] | None
    resourceClaims: list[ClaimReference] | None
    containers: list[Container] | None
    initContainers: list[Container] | None
    overhead: dict[str, Any] | None
    resources: Amounts | None
    activeDeadlineSeconds: Int64 | None


class ContainerStatus(TypedDict, total=False):
    """core/v1 ContainerStatus: how far a resize has come."""

    name: str
    resources: Amounts | None
    allocatedResources: dict[str, Any] | None


class Condition(TypedDict, total=False):
    """core/v1 PodCondition and NodeCondition."""

    type: str
    status: str
    reason: str | None
    message: str | None
    lastTransitionTime: Time | None


class ClaimStatus(TypedDict, total=False):
    """core/v1 NodeAllocatableResourceClaimStatus: what a resource claim holds of the node itself."""

    resources: dict[str, Any] | None


class PodStatus(TypedDict, total=False):
    """core/v1 PodStatus."""

    phase: str
    reason: str | None
    message: str | None
    startTime: Time | None
    nominatedNodeName: str | None
    resize: str | None
    resources: Amounts | None
    allocatedResources: dict[str, Any] | None
    conditions: list[Condition] | None
    containerStatuses: list[ContainerStatus] | None
    initContainerStatuses: list[ContainerStatus] | None
    nodeAllocatableResourceClaimStatuses: list[ClaimStatus] | None
    resourceClaimStatuses: list[MadeClaim] | None


Requests = tuple[Resources, Mapping[str, int], str]
"""A pod's requests, its devices by type, and why its requests can't be read, "" if they can."""

_requests_by_form: dict[bytes, Requests] = {}
_packed = msgspec.msgpack.Encoder().encode
_pod = tolerant_decoder("Pod", PodSpec, PodStatus)


def decode_pod(raw: bytes) -> Pod:
    """Decode a Pod."""
    meta, spec, status, problem = _pod(raw)
    annotations = meta.annotations or {}
    requests, devices, fault = _requests(spec, status)
    if fault:
        report_unreadable("Pod", meta, fault)
    tolerations, (node_selector, contradiction) = spec.get("tolerations") or (), _node_selector(spec)
    affinity, host_ports = _node_affinity(spec.get("affinity")), _host_ports(spec, meta)
    near = _pod_affinity(spec, meta.namespace)
    terms, spread = _terms(spec, meta, "near"), _spread(spec, meta.labels or {})
    apart = _terms(spec, meta, "apart")
    rules = len(tolerations) + len(node_selector) + _rules_about_pods((*terms, *apart, *spread))
    if excess := _excess(rules, affinity, host_ports, annotations):
        tolerations, node_selector, affinity, problem = (), {}, None, problem or excess
        near, terms, spread = (), (), ()
    refusal, since = _condition(status, UNSCHEDULABLE)
    asks = refusal.startswith(ASKS_FOR_NODES)
    gates = tuple(gate["name"] for gate in spec.get("schedulingGates") or ())
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        annotations=annotations,
        scheduler=spec.get("schedulerName") or DEFAULT_SCHEDULER,
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        phase=status.get("phase") or "Pending",
        deleting=meta.deletion_timestamp is not None,
        gates=gates,
        group=(spec.get("schedulingGroup") or {}).get("podGroupName") or "",
        owner=_owner(meta),
        requests=requests,
        devices=devices,
        tolerations=tolerations,
        node_selector=node_selector,
        affinity=affinity,
        host_ports=host_ports,
        priority=spec.get("priority") or 0,
        priority_class=spec.get("priorityClassName") or "",
        preempts=spec.get("preemptionPolicy") != "Never",
        created=meta.created,
        resource_version=meta.resource_version,
        problem=problem or fault or contradiction,
        refusal="" if asks else refusal,
        failure=_condition(status, SCHEDULER_ERROR)[0],
        told=asks or bool(_condition(status, GATED)[0]),
        asks_since=since if asks else 0.0,
        rejection=_rejection(status),
        ready=is_ready(status.get("conditions")),
        started=started.timestamp() if (started := status.get("startTime")) else 0.0,
        ended=ended_at(raw) if status.get("phase") in ENDED else 0.0,
        duration=stated_duration(meta.annotations, meta.labels, spec.get("activeDeadlineSeconds")),
        interdependent=is_interdependent(spec),
        pod_affinity=near,
        apart=apart,
        near=terms,
        spread=spread,
        features=_features(spec),
        claim_refs=_claim_refs(spec, status) if spec.get("resourceClaims") else (),
        size=len(raw),
    )


def _claim_refs(spec: PodSpec, status: PodStatus) -> tuple[ClaimRef, ...]:
    """Return the resource claims that the pod names, without templates from which it needs no claim."""
    made = {one.name: one.claim for one in status.get("resourceClaimStatuses") or ()}
    return tuple(
        ClaimRef(one.name, one.claim or made.get(one.name) or "", one.template or "")
        for one in spec.get("resourceClaims") or ()
        if not (one.template and made.get(one.name, "") is None)
    )


def is_ready(conditions: Iterable[Condition] | None) -> bool:
    """Return whether the Ready condition of a pod or node is true."""
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions or ())


def _rejection(status: PodStatus) -> str:
    """Return why the kubelet rejected the pod at admission, "" if it didn't.

    Source: Kubernetes pkg/kubelet, rejectPod and lifecycle/predicate.
    """
    reason, message = status.get("reason") or "", status.get("message") or ""
    known = reason == UNADMITTED or reason.startswith("OutOf") or message.startswith(REJECTED_PREFIX)
    if status.get("phase") != "Failed" or not known:
        return ""
    why = message.removeprefix(REJECTED_PREFIX).strip() or "no message"
    return f"{reason}: {why}"[:LONGEST_MESSAGE] if reason else why[:LONGEST_MESSAGE]


def _condition(status: PodStatus, wanted: tuple[str, str, str]) -> tuple[str, float]:
    """Return the message of the condition with this type, status and reason, and since when it holds; "" for none."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status"), condition.get("reason")) == wanted:
            since = condition.get("lastTransitionTime")
            return (condition.get("message") or "")[:LONGEST_MESSAGE], since.timestamp() if since else 0.0
    return "", 0.0


def _requests(spec: PodSpec, status: Mapping[str, Any]) -> Requests:
    """Return the effective requests.

    Many pods have the same form, so each form is computed only once.
    """
    try:
        form = _packed(
            ([spec.get(name) for name in SPEC_FIELDS], [status.get(name) for name in STATUS_FIELDS])
        )
    except OverflowError:
        # MessagePack can't hold a bare number of more than 64 bits.
        return _compute_requests(spec, status)
    known = _requests_by_form.get(form)
    if known is None and len(form) > LARGEST_CACHED:
        return _compute_requests(spec, status)
    if known is None:
        if len(_requests_by_form) >= MOST_CACHED:
            _requests_by_form.clear()
        known = _requests_by_form[form] = _compute_requests(spec, status)
    return known


def _compute_requests(spec: PodSpec, status: Mapping[str, Any]) -> Requests:
    try:
        requests, devices = effective_requests(spec, status)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        return UNREADABLE, {}, str(error) or type(error).__name__
    return requests, devices, ""


def _owner(meta: Metadata) -> Owner | None:
    for reference in meta.owner_references or ():
        if reference.controller:
            return Owner(reference.kind, reference.name, reference.uid, reference.api_version)
    return None


def _node_selector(spec: PodSpec) -> tuple[dict[str, str], str]:
    """Return the labels that the pod's node needs, its operating system included, and why no node can have them all.

    kube-scheduler doesn't look at ``spec.os``, but each kubelet rejects pods of another system than the one that it
    writes on its node.
    """
    own, system = spec.get("nodeSelector") or {}, (spec.get("os") or {}).get("name")
    if not system:
        return own, ""
    if own.get(OS_LABEL, system) != system:
        wrong = f"its spec.os.name is {system}, but its nodeSelector asks for {OS_LABEL}={own[OS_LABEL]}"
        return own, f"{wrong}: remove one of them"
    return {**own, OS_LABEL: system}, ""


def _node_affinity(affinity: Affinity | None) -> tuple[NodeTerm, ...] | None:
    if affinity is None or affinity.node is None or affinity.node.required is None:
        return None
    return affinity.node.required.node_terms


def _excess(
    rules: int, affinity: tuple[NodeTerm, ...] | None, ports: tuple[HostPort, ...], notes: Mapping[str, str]
) -> str:
    """Return why the pod has too many rules to compare with every node or device, "" if it hasn't.

    ``rules`` is the number of rules other than node affinity. The service never plans such a pod.
    """
    values = 0
    for term in affinity or ():
        rules += 1 + len(term.expressions) + len(term.fields)
        values += sum([len(one.values) for one in (*term.expressions, *term.fields)])
    if rules > MOST_RULES:
        return f"it has {rules} tolerations, node selectors and terms of affinity: {MOST_RULES} are the most"
    if values > MOST_VALUES:
        return f"the expressions of its node affinity have {values} values: {MOST_VALUES} are the most"
    if len(ports) > MOST_PORTS:
        return f"it has {len(ports)} host ports: {MOST_PORTS} are the most"
    if (required := sum(key.startswith(REQUIRE_PREFIX) for key in notes)) > MOST_RULES:
        return (
            f"it has {required} annotations {REQUIRE_PREFIX}*: {MOST_RULES} are the most; remove the others"
        )
    return ""


def is_interdependent(spec: PodSpec) -> bool:
    """Return whether kube-scheduler's filters for this pod read volumes or resource claims."""
    return any(kind is not None for volume in spec.get("volumes") or () for kind in volume.values()) or bool(
        spec.get("resourceClaims")
    )


def _pod_affinity(spec: PodSpec, namespace: str) -> tuple[tuple[Requirement, ...], ...]:
    affinity = spec.get("affinity")
    terms = affinity.near.required if affinity is not None and affinity.near is not None else None
    return tuple(found for term in terms or () if (found := _selector(term, namespace)) is not None)


def _terms(spec: PodSpec, meta: Metadata, kind: Literal["near", "apart"]) -> tuple[PodTerm, ...]:
    """Return the terms of the pod's required affinity (near) or anti-affinity (apart).

    Terms of anti-affinity that select no pods are left out.
    """
    affinity = spec.get("affinity")
    either = getattr(affinity, kind) if affinity is not None else None
    found: list[PodTerm] = []
    for term in (either.required if either is not None else None) or ():
        if term.selector is not None:
            found.append(_term(term, meta))
        elif kind == "near":
            found.append(PodTerm(term.topology_key))
    return tuple(found)


def _rules_about_pods(rules: Iterable[PodTerm | SpreadRule]) -> int:
    """Return the number of expressions in rules about other pods; a rule without any counts as one."""
    return sum(
        max(len(rule.selector or ()) + len((isinstance(rule, PodTerm) and rule.among) or ()), 1)
        for rule in rules
    )


def _term(term: PodAffinityTerm, meta: Metadata) -> PodTerm:
    among = term.namespace_selector
    assert term.selector is not None, "a term without a selector selects no pods"
    return PodTerm(
        term.topology_key,
        _merged(
            term.selector.requirements, meta.labels or {}, term.match_keys or (), term.mismatch_keys or ()
        ),
        tuple(term.namespaces or (() if among is not None else (meta.namespace,))),
        among.requirements if among is not None else None,
    )


def _merged(
    selector: tuple[Requirement, ...],
    labels: Mapping[str, str],
    match: Iterable[str],
    mismatch: Iterable[str] = (),
) -> tuple[Requirement, ...]:
    """Return a selector with what matchLabelKeys and mismatchLabelKeys add, unless the API server has added it."""
    present = {rule.key for rule in selector}
    wanted = (("In", match), ("NotIn", mismatch))
    return selector + tuple(
        Requirement(key, operator, (labels[key],))
        for operator, keys in wanted
        for key in keys
        if key in labels and key not in present
    )


def _spread(spec: PodSpec, labels: Mapping[str, str]) -> tuple[SpreadRule, ...]:
    """Return the constraints of DoNotSchedule spread.

    Source: Kubernetes pkg/scheduler/framework/plugins/podtopologyspread, filterTopologySpreadConstraints.
    """
    return tuple(
        SpreadRule(
            one.key,
            one.max_skew,
            _merged(one.selector.requirements, labels, one.match_keys or ()) if one.selector else None,
            one.min_domains or 1,
            one.affinity_policy == "Ignore",
            one.taints_policy != "Honor",
        )
        for one in spec.get("topologySpreadConstraints") or ()
        if one.when != SCHEDULE_ANYWAY
    )


def _features(spec: PodSpec) -> tuple[str, ...]:
    """Return the features that the pod's node has to declare.

    Source: k8s.io/component-helpers/nodedeclaredfeatures, InferForPodScheduling.
    """
    needed = []
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    rules = (rule for one in containers for rule in one.get("restartPolicyRules") or ())
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        needed.append("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.append("UserNamespacesHostNetworkSupport")
    return tuple(needed)


def _selector(term: PodAffinityTerm, namespace: str) -> tuple[Requirement, ...] | None:
    """Return the label selector of a term, None if it selects nothing in the pod's own namespace."""
    selector, everywhere = term.selector, term.namespace_selector is not None
    if selector is None or (term.namespaces and namespace not in term.namespaces and not everywhere):
        return None
    return selector.requirements


def _host_ports(spec: PodSpec, meta: Metadata) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars, as kube-scheduler's NodePorts counts them.

    What stands for required anti-affinity among equal pods comes after them.
    """
    ports: list[HostPort] = []
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort")
            if number:
                ports.append(HostPort(number, port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0"))
    return (*ports, *_apart_from_its_like(spec, meta))


def _apart_from_its_like(spec: PodSpec, meta: Metadata) -> Iterator[HostPort]:
    """Yield what stands for each term of required anti-affinity by node that selects the pod itself.

    Two pods with the same such term exclude each other, whatever else kube-scheduler decides. Only the
    first terms are looked at, one more than `MOST_PORTS`: kube-scheduler judges them all.
    """
    affinity = spec.get("affinity")
    terms = affinity.apart.required if affinity is not None and affinity.apart is not None else None
    for term in (terms or ())[: MOST_PORTS + 1]:
        if term.selector is None or term.namespace_selector is not None or term.topology_key != HOSTNAME:
            continue
        made = _term(term, meta)
        if meta.namespace in made.namespaces and all(
            holds(rule, meta.labels or {}) for rule in made.selector
        ):
            yield alone_on_node(made)
