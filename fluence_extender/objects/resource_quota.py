"""ResourceQuotas (core/v1): what a namespace may still create, and which pods count in them.

The rules are those of the API server's quota admission (Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go). Amounts
have the names of quotas (``pods``, ``requests.cpu``, ``limits.memory``) and the units of `Resources`. A quota counts
once its controller has written its status. Before, the API server refuses every pod that it covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from fluence_extender.model.pod import QuotaCharge, Requirement
from fluence_extender.model.quantity import InvalidQuantity, read_amount
from fluence_extender.objects.reading import At, Reads, reader


class _Scope(msgspec.Struct):
    name: str = msgspec.field(name="scopeName", default="")
    operator: str = "Exists"
    values: tuple[str, ...] | None = None


class _Amounts(msgspec.Struct):
    hard: dict[str, Any] | None = None
    used: dict[str, Any] | None = None


def _scopes(names: list[str]) -> tuple[Requirement, ...]:
    return tuple(Requirement(name, "Exists") for name in names)


def _selected(scopes: list[_Scope]) -> tuple[Requirement, ...]:
    return tuple(Requirement(scope.name, scope.operator, scope.values or ()) for scope in scopes)


def _room(amounts: _Amounts) -> Mapping[str, int]:
    """Return what is left of each amount. An amount that can't be read is no limit."""
    used, room = amounts.used or {}, dict[str, int]()
    for name, hard in (amounts.hard or {}).items():
        resource = name.removeprefix("requests.").removeprefix("limits.")
        with suppress(InvalidQuantity):
            room[name] = read_amount(resource, hard) - read_amount(resource, used.get(name, 0))
    return room


class ResourceQuota(msgspec.Struct, frozen=True):
    """``room`` is what the namespace may still create of each resource. Pods count that are in all scopes.

    The scopes are those with a name alone, and the ``selected`` ones.
    """

    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    room: Annotated[Mapping[str, int], At("status"), Reads(_room, _Amounts)] = {}
    scopes: Annotated[tuple[Requirement, ...], Reads(_scopes, list[str])] = ()
    selected: Annotated[
        tuple[Requirement, ...], At("spec.scopeSelector.matchExpressions"), Reads(_selected, list[_Scope])
    ] = ()

    def covers(self, charge: QuotaCharge) -> bool:
        """Return whether a pod with this charge counts."""
        return all(_in_scope(charge, scope) for scope in (*self.scopes, *self.selected))

    def allows_more(self, before: ResourceQuota | None) -> bool:
        """Return whether pods that the quota refused in its state ``before`` may pass now."""
        if before is None or (self.scopes, self.selected) != (before.scopes, before.selected):
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


read_resource_quota = reader(ResourceQuota)
