"""Decode the amounts with which a pod counts in ResourceQuotas (core/v1)."""

from __future__ import annotations

from typing import Any

import msgspec

from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.pod import QuotaCharge
from fluence_extender.model.requests import InvalidRequest, effective_requests, is_extended
from fluence_extender.model.resources import PODS, Resources

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


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
