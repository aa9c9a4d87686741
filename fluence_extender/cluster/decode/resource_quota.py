"""Decode ResourceQuotas (core/v1), and the amounts with which a pod counts in them.

A quota counts once its controller has written its status. Before, the API server refuses every pod that it covers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fluence_extender.cluster.decode.objects import tolerant_decoder
from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.pod import QuotaCharge, Requirement
from fluence_extender.model.quantity import InvalidQuantity, Quantity, read_amount
from fluence_extender.model.requests import InvalidRequest, effective_requests, is_extended
from fluence_extender.model.resource_quota import ResourceQuota
from fluence_extender.model.resources import PODS, Resources

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _Scope(msgspec.Struct):
    name: str = msgspec.field(name="scopeName", default="")
    operator: str = "Exists"
    values: tuple[str, ...] | None = None


class _Selector(msgspec.Struct):
    scopes: list[_Scope] | None = msgspec.field(name="matchExpressions", default=None)


class _Spec(msgspec.Struct):
    scopes: list[str] | None = None
    selector: _Selector | None = msgspec.field(name="scopeSelector", default=None)


class _Status(msgspec.Struct):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


_quota = tolerant_decoder("ResourceQuota", _Spec, _Status)


def decode_resource_quota(raw: bytes) -> ResourceQuota:
    """Decode a ResourceQuota. An amount that can't be read is no limit."""
    meta, spec, status, _ = _quota(raw)
    used, room = status.used or {}, dict[str, int]()
    for name, hard in (status.hard or {}).items():
        resource = name.removeprefix("requests.").removeprefix("limits.")
        try:
            room[name] = read_amount(resource, hard) - read_amount(resource, used.get(name, 0))
        except InvalidQuantity:
            continue
    selected = (spec.selector.scopes if spec.selector is not None else None) or ()
    scopes = [Requirement(name, "Exists") for name in spec.scopes or ()]
    scopes += [Requirement(one.name, one.operator, one.values or ()) for one in selected]
    return ResourceQuota(meta.namespace, meta.name, room, tuple(scopes))


def decode_charge(raw: bytes) -> QuotaCharge | None:
    """Return the amounts with which a new pod counts in quotas, None if its requests can't be read."""
    pod: dict[str, Any] = msgspec.json.decode(raw)
    spec, status = pod["spec"], pod.get("status") or {}
    try:
        requests, devices = effective_requests(spec)
        limits, _ = effective_requests(_with_limits(spec))
    except InvalidRequest:
        return None
    slot = Resources({PODS: 1})
    amounts = {PODS: 1, "count/pods": 1}
    amounts |= {f"requests.{name}": amount for name, amount in (requests - slot).items()}
    amounts |= {name: amount for name, amount in requests.items() if not is_extended(name)}
    amounts |= {f"limits.{name}": amount for name, amount in (limits - slot).items() if not is_extended(name)}
    amounts |= {f"requests.{RESOURCE_PREFIX}{kind}": amount for kind, amount in devices.items()}
    scopes = {
        "BestEffort": status.get("qosClass") == "BestEffort",
        "Terminating": spec.get("activeDeadlineSeconds") is not None,
        "CrossNamespacePodAffinity": _crosses_namespaces(spec.get("affinity") or {}),
    }
    of = frozenset(name for name, holds in scopes.items() if holds)
    return QuotaCharge(Resources(amounts), of, spec.get("priorityClassName") or "")


def _with_limits(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with its limits in place of its requests, because the same rules add both up."""
    parts = {
        part: [{**one, "resources": _limits(one)} for one in spec.get(part) or ()]
        for part in ("containers", "initContainers")
    }
    return {**spec, **parts, "resources": _limits(spec)}


def _limits(part: dict[str, Any]) -> dict[str, Any]:
    return {"requests": (part.get("resources") or {}).get("limits")}


def _crosses_namespaces(affinity: dict[str, Any]) -> bool:
    """Return whether a term of pod affinity or anti-affinity names or selects namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        preferred = [one.get("podAffinityTerm") or {} for one in found.get(PREFERRED) or ()]
        for term in (*(found.get(REQUIRED) or ()), *preferred):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False
