"""ResourceQuotas (core/v1): what a namespace may still create, and what a pod counts for in them.

The rules are those of the API server's quota admission (Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go). Amounts
have the names of quotas (``pods``, ``requests.cpu``, ``limits.memory``) and the units of `Resources`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.model.pod import QuotaCharge, Requirement


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """``room`` is what the namespace may still create of each resource. Pods count that are in all ``scopes``."""

    namespace: str
    name: str
    room: Mapping[str, int]
    scopes: tuple[Requirement, ...] = ()

    def covers(self, charge: QuotaCharge) -> bool:
        """Return whether a pod with this charge counts."""
        return all(_in_scope(charge, one) for one in self.scopes)

    def allows_more(self, before: ResourceQuota | None) -> bool:
        """Return whether pods that the quota refused in its state ``before`` may pass now."""
        if before is None or self.scopes != before.scopes:
            return before is not None
        return any(self.room.get(name, room + 1) > room for name, room in before.room.items())

    def exceeded(self, charges: Mapping[QuotaCharge, int]) -> list[str]:
        """Return the resources of which so many new pods with these charges would take more than there is."""
        requested: dict[str, int] = {}
        for charge, pods in charges.items():
            if self.covers(charge):
                for name, amount in charge.amounts.items():
                    requested[name] = requested.get(name, 0) + amount * pods
        return sorted(name for name, amount in requested.items() if 0 < amount > self.room.get(name, amount))


def _in_scope(charge: QuotaCharge, scope: Requirement) -> bool:
    match scope.key:
        case "PriorityClass":
            named = charge.priority_class in scope.values if scope.values else bool(charge.priority_class)
            return named is (scope.operator in ("In", "Exists"))
        case "NotTerminating":
            return "Terminating" not in charge.scopes
        case "NotBestEffort":
            return "BestEffort" not in charge.scopes
        case name:
            return name in charge.scopes
