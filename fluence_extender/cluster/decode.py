"""From the API server's JSON to the model's values.

Invariant: an object the API server sent never stops a watch. A pod whose requests can't be read comes out
with its identity, node and phase, one pod slot as its requests, and the reason in ``problem``; a node whose
allocatable is missing or absurd comes out with nothing to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from fluence_extender.cluster import wire
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.names import DURATION_ANNOTATION, MARKS, RESOURCES_KEY
from fluence_extender.model.node import Node
from fluence_extender.model.notation import parse_duration
from fluence_extender.model.pod import HostPort, NodeTerm, Owner, Pod, Requirement
from fluence_extender.model.requests import (
    SPEC_FIELDS,
    STATUS_FIELDS,
    allocatable_resources,
    effective_requests,
)
from fluence_extender.model.resources import NOTHING, PODS, Resources

log = structlog.get_logger(__name__)

DEFAULT_SCHEDULER = "default-scheduler"
UNREADABLE = Resources({PODS: 1})
KEPT_FORMS = 4096

Requests = tuple[Resources, Mapping[str, int], str]
"""What a pod takes of its node, its devices by type, and what is wrong with that, "" when nothing is."""

_forms: dict[bytes, Requests] = {}
_packed = msgspec.msgpack.Encoder().encode

_pod = msgspec.json.Decoder(wire.PodObject).decode
_node = msgspec.json.Decoder(wire.NodeObject).decode
_config_map = msgspec.json.Decoder(wire.ConfigMapObject).decode
_broken_pod = msgspec.json.Decoder(wire.BrokenPod).decode


UNSCHEDULABLE = ("PodScheduled", "False", "Unschedulable")
FAILED = ("PodScheduled", "False", "SchedulerError")
"""Conditions by which kube-scheduler says that the pod fits nowhere, and that an attempt or its Binding failed."""

LONGEST_REFUSAL = 400

ACCOUNT = b'"managedFields":[{'
APPLIED = b'"operation":"Apply"'
"""How an entry of metadata.managedFields says that it comes of a server-side apply (metav1.ManagedFieldsEntry)."""


def decode_pod(raw: bytes) -> Pod:
    """A core/v1 Pod. Raises `msgspec.MsgspecError` only where there is no readable metadata."""
    try:
        decoded = _pod(raw)
    except msgspec.ValidationError as error:
        return _unreadable(_broken_pod(raw), str(error))
    meta, spec, status = decoded.metadata, decoded.spec, decoded.status or {}
    requests, devices, problem = _requests(spec, status)
    if problem:
        log.warning("a pod's requests can't be read", pod=f"{meta.namespace}/{meta.name}", problem=problem)
    created = meta.creation_timestamp
    gates = tuple(gate["name"] for gate in spec.get("schedulingGates") or ())
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
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
        tolerations=spec.get("tolerations") or (),
        node_selector=spec.get("nodeSelector") or {},
        affinity=_affinity(spec.get("affinity")),
        host_ports=_host_ports(spec),
        priority=spec.get("priority") or 0,
        preempts=spec.get("preemptionPolicy") != "Never",
        created=created.timestamp() if created else 0.0,
        resource_version=meta.resource_version,
        problem=problem,
        refusal=_said(status, UNSCHEDULABLE),
        failure=_said(status, FAILED),
        rejected=_rejected(status),
        ready=_is_ready(status),
        started=started.timestamp() if (started := status.get("startTime")) else 0.0,
        duration=_duration(meta.annotations, spec.get("activeDeadlineSeconds")),
        interdependent=_interdependent(spec),
        marked=_marked(spec),
        has_managed_fields=bool(gates) and ACCOUNT in raw and APPLIED not in raw,
        pod_affinity=_sought(spec, meta.namespace),
    )


def _duration(annotations: Mapping[str, str] | None, deadline: int | None) -> float | None:
    """How long the pod runs: what its annotation says, and no longer than its deadline."""
    said = (
        parse_duration(annotations[DURATION_ANNOTATION])
        if annotations and DURATION_ANNOTATION in annotations
        else None
    )
    if deadline is None or deadline <= 0:
        return said
    return float(deadline) if said is None else min(said, float(deadline))


def _rejected(status: wire.PodStatus) -> bool:
    """Whether kubelet has refused the pod at admission (Kubernetes pkg/kubelet, rejectPod and lifecycle/predicate)."""
    if status.get("phase") != "Failed":
        return False
    reason, message = status.get("reason") or "", status.get("message") or ""
    return reason.startswith("OutOf") or message.startswith("Pod was rejected: ")


def _is_ready(status: wire.PodStatus) -> bool:
    return any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()
    )


def _said(status: wire.PodStatus, what: tuple[str, str, str]) -> str:
    """The message of a condition of this type, status and reason, "" where there is none."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status"), condition.get("reason")) == what:
            return (condition.get("message") or "")[:LONGEST_REFUSAL]
    return ""


def _requests(spec: wire.PodSpec, status: Mapping[str, Any]) -> Requests:
    """The effective requests. Pods come in large numbers of one form, so each form is worked out once."""
    try:
        form = _packed(
            ([spec.get(name) for name in SPEC_FIELDS], [status.get(name) for name in STATUS_FIELDS])
        )
    except OverflowError:
        # A bare number of more than 64 bits.
        return _worked_out(spec, status)
    known = _forms.get(form)
    if known is None:
        if len(_forms) >= KEPT_FORMS:
            _forms.clear()
        known = _forms[form] = _worked_out(spec, status)
    return known


def _worked_out(spec: wire.PodSpec, status: Mapping[str, Any]) -> Requests:
    try:
        requests, devices = effective_requests(spec, status)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        return UNREADABLE, {}, str(error) or type(error).__name__
    return requests, devices, ""


def _unreadable(broken: wire.BrokenPod, problem: str) -> Pod:
    meta = broken.metadata
    log.warning("a pod can't be read", pod=f"{meta.namespace}/{meta.name}", problem=problem)
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        scheduler=broken.spec.get("schedulerName", DEFAULT_SCHEDULER),
        node=broken.spec.get("nodeName", ""),
        phase=broken.status.get("phase", "Pending"),
        deleting=meta.deletion_timestamp is not None,
        requests=UNREADABLE,
        resource_version=meta.resource_version,
        problem=problem,
    )


def _owner(meta: wire.Metadata) -> Owner | None:
    for reference in meta.owner_references or ():
        if reference.controller:
            return Owner(reference.kind, reference.name, reference.uid, reference.api_version)
    return None


def _affinity(affinity: wire.Affinity | None) -> tuple[NodeTerm, ...] | None:
    if affinity is None or affinity.node is None or affinity.node.required is None:
        return None
    terms = affinity.node.required.terms or ()
    return tuple(NodeTerm(term.match_expressions or (), term.match_fields or ()) for term in terms)


def _interdependent(spec: wire.PodSpec) -> bool:
    affinity = spec.get("affinity")
    between = (affinity.near, affinity.apart) if affinity is not None else ()
    spread = spec.get("topologySpreadConstraints") or ()
    return (
        any(one is not None and one.required for one in between)
        or any(one.get("whenUnsatisfiable") != "ScheduleAnyway" for one in spread)
        or any(kind is not None for volume in spec.get("volumes") or () for kind in volume.values())
        or bool(spec.get("resourceClaims"))
    )


def _sought(spec: wire.PodSpec, namespace: str) -> tuple[tuple[Requirement, ...], ...]:
    affinity = spec.get("affinity")
    terms = affinity.near.required if affinity is not None and affinity.near is not None else None
    return tuple(found for term in terms or () if (found := _selector(term, namespace)) is not None)


def _selector(term: wire.PodAffinityTerm, namespace: str) -> tuple[Requirement, ...] | None:
    """The label selector of a term, None where it selects nothing in the pod's own namespace."""
    selector, everywhere = term.selector, term.namespace_selector is not None
    if selector is None or (term.namespaces and namespace not in term.namespaces and not everywhere):
        return None
    labels = (selector.labels or {}).items()
    return *(Requirement(key, "In", (value,)) for key, value in labels), *(selector.expressions or ())


def _marked(spec: wire.PodSpec) -> bool:
    """Whether a container or init container asks for one of the marks, as kube-scheduler's IsInterested looks."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        asked = (container.get("resources") or {}).get("requests") or {}
        if any(mark in asked for mark in MARKS):
            return True
    return False


def _host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    """Ports of containers and sidecars, as kube-scheduler's NodePorts counts them."""
    ports: list[HostPort] = []
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort")
            if number:
                ports.append(HostPort(number, port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0"))
    return tuple(ports)


def decode_node(raw: bytes) -> Node:
    """A core/v1 Node; ready only where its Ready condition says so."""
    decoded = _node(raw)
    meta = decoded.metadata
    spec, status = decoded.spec or wire.NodeSpec(), decoded.status or wire.NodeStatus()
    conditions = status.conditions or ()
    return Node(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        allocatable=_allocatable(meta.name, status.allocatable),
        taints=spec.taints or (),
        unschedulable=bool(spec.unschedulable),
        ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions),
    )


def _allocatable(node: str, amounts: Mapping[str, Any] | None) -> Resources:
    if not amounts:
        return NOTHING
    try:
        allocatable = allocatable_resources(amounts)
    except (ValueError, TypeError, ArithmeticError) as error:
        log.warning("a node's allocatable can't be read; it gets no pods", node=node, problem=str(error))
        return NOTHING
    negative = [name for name, amount in allocatable.items() if amount < 0]
    if negative:
        log.warning(
            "a node's allocatable is negative; that resource counts as 0", node=node, resources=negative
        )
        return Resources({name: max(amount, 0) for name, amount in allocatable.items()})
    return allocatable


def decode_resources_file(raw: bytes) -> ResourcesFile:
    """The ConfigMap that holds resources.yaml; without that key its text is None, and the source says so."""
    decoded = _config_map(raw)
    text = (decoded.data or {}).get(RESOURCES_KEY)
    source = config_map_source(decoded.metadata.namespace, decoded.metadata.name)
    if text is None:
        return ResourcesFile(f"{source} (it has no key {RESOURCES_KEY})", None)
    return ResourcesFile(source, text)


def config_map_source(namespace: str, name: str) -> str:
    """How messages name a ConfigMap."""
    return f"ConfigMap {namespace}/{name}"
