"""Compute what a pod requests of its node, as kube-scheduler does.

Source of the rules: ``PodRequests`` of k8s.io/component-helpers/resource. Containers run side by side and add up. Init
containers run one after another, so only the largest counts, beside the sidecars that started before it. What resource
claims hold of the node itself is added (Kubernetes 1.36, DRANodeAllocatableResources). Pod-level requests replace the
sum for the resources that they name. Overhead is added last. While a resize is under way, the larger of the requested
and the actual amount counts.

Invariant: amounts are added exactly and rounded up once, at the very end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.quantity import (
    InvalidQuantity,
    nanos,
    nanos_to_millicores,
    nanos_to_whole,
)
from fluence_extender.model.resources import CPU, MEMORY, PODS, Resources

_Amounts = dict[str, int]
"""Resource name -> billionths."""

_HUGEPAGES_PREFIX = "hugepages-"


SPEC_FIELDS = ("containers", "initContainers", "overhead", "resources")
"""The fields of a pod's spec on which its requests depend."""

STATUS_FIELDS = (
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
    "resources",
    "allocatedResources",
    "nodeAllocatableResourceClaimStatuses",
)
"""The fields of its status on which its requests depend."""


class InvalidRequest(ValueError):
    """An amount of a pod or node can't be read; ``field`` is its path, ``problem`` says why."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


def effective_requests(
    spec: Mapping[str, Any], status: Mapping[str, Any] | None = None
) -> tuple[Resources, dict[str, int]]:
    """Return what a pod takes of its node, and its virtual devices by type (``{"qpu": 1}``).

    ``spec`` and ``status`` are the pod's, as JSON; without ``status`` a resize under way is ignored. The resources
    include ``pods`` = 1. They exclude all ``fluxion.flux-framework.org/`` names. Raise `InvalidRequest`.
    """
    observed = _Observed(_mapping(status, "status"))
    total = _containers(_mapping(spec, "spec"), observed)
    total.update(_pod_level(spec, observed))
    _add(total, _amounts(spec.get("overhead"), "spec.overhead"))
    devices = {
        name.removeprefix(RESOURCE_PREFIX): nanos_to_whole(amount)
        for name, amount in sorted(total.items())
        if name.startswith(RESOURCE_PREFIX) and amount
    }
    resources = {
        name: nanos_to_millicores(amount) if name == CPU else nanos_to_whole(amount)
        for name, amount in total.items()
        if not name.startswith(RESOURCE_PREFIX)
    }
    resources[PODS] = 1
    return Resources(resources), devices


def allocatable_resources(amounts: Mapping[str, Any] | None) -> Resources:
    """Return a node's ``status.allocatable``, each amount rounded up. Raise `InvalidRequest`.

    kube-scheduler and the kubelet round up, too (``Resource.Add`` of k8s.io/kubernetes/pkg/scheduler/framework).
    """
    rounded: dict[str, int] = {}
    for name, text in _mapping(amounts, "status.allocatable").items():
        try:
            amount = nanos(text)
            rounded[name] = nanos_to_millicores(amount) if name == CPU else nanos_to_whole(amount)
        except InvalidQuantity as error:
            raise InvalidRequest(f"status.allocatable.{name}", str(error)) from None
    return Resources(rounded)


class _Observed:
    """The amounts that a pod and its containers have now, by the pod's status."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.status = status
        pending = (
            condition.get("reason")
            for _, condition in _items(status.get("conditions"), "status.conditions")
            if condition.get("type") == "PodResizePending"
        )
        self.infeasible = next(pending, None) == "Infeasible"
        self._containers = {
            str(one.get("name")): (field, one)
            for key in ("containerStatuses", "initContainerStatuses")
            for field, one in _items(status.get(key), f"status.{key}")
        }

    def container(self, name: object, wanted: _Amounts) -> _Amounts:
        field, one = self._containers.get(str(name), ("", {}))
        return self.larger(wanted, one, field)

    def larger(self, wanted: _Amounts, given: Mapping[str, Any], field: str) -> _Amounts:
        """Return the largest of the wanted, actual and allocated amounts.

        Ignore the wanted ones if they are infeasible.
        """
        if given.get("resources") is None:
            return wanted
        amounts = {} if self.infeasible else dict(wanted)
        actual = _mapping(given["resources"], f"{field}.resources").get("requests")
        _largest(amounts, _amounts(actual, f"{field}.resources.requests"))
        _largest(amounts, _amounts(given.get("allocatedResources"), f"{field}.allocatedResources"))
        return amounts


def _containers(spec: Mapping[str, Any], observed: _Observed) -> _Amounts:
    total: _Amounts = {}
    for field, container in _items(spec.get("containers"), "spec.containers"):
        _add(total, observed.container(container.get("name"), _wanted(container, field)))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for field, container in _items(spec.get("initContainers"), "spec.initContainers"):
        wanted = _wanted(container, field)
        if container.get("restartPolicy") == "Always":
            wanted = observed.container(container.get("name"), wanted)
            _add(total, wanted)
            _add(sidecars, wanted)
        else:
            # What the sidecars alone take is in the total anyway, so only the container's own resources count here.
            _largest(peak, {name: amount + sidecars.get(name, 0) for name, amount in wanted.items()})
    _largest(total, peak)
    claims = _items(
        observed.status.get("nodeAllocatableResourceClaimStatuses"),
        "status.nodeAllocatableResourceClaimStatuses",
    )
    for field, claim in claims:
        _add(total, _amounts(claim.get("resources"), f"{field}.resources"))
    return total


def _wanted(container: Mapping[str, Any], field: str) -> _Amounts:
    """Return a container's requests.

    An extended resource without a request counts by its limit, as both must be equal.
    """
    resources = _mapping(container.get("resources"), f"{field}.resources")
    wanted = _amounts(resources.get("requests"), f"{field}.resources.requests")
    limits = _mapping(resources.get("limits"), f"{field}.resources.limits")
    extended = {name: limits[name] for name in limits if name not in wanted and is_extended(name)}
    wanted.update(_amounts(extended, f"{field}.resources.limits"))
    return wanted


def _pod_level(spec: Mapping[str, Any], observed: _Observed) -> _Amounts:
    resources = _mapping(spec.get("resources"), "spec.resources")
    wanted = {
        name: amount
        for name, amount in _amounts(resources.get("requests"), "spec.resources.requests").items()
        if name in (CPU, MEMORY) or name.startswith(_HUGEPAGES_PREFIX)
    }
    effective = observed.larger(wanted, observed.status, "status") if wanted else wanted
    return {name: effective.get(name, 0) for name in wanted}


def _amounts(value: Any, field: str) -> _Amounts:
    amounts: _Amounts = {}
    for name, text in _mapping(value, field).items():
        try:
            amount = nanos(text)
        except InvalidQuantity as error:
            raise InvalidRequest(f"{field}.{name}", str(error)) from None
        if amount < 0:
            raise InvalidRequest(f"{field}.{name}", f"{text!r} must not be negative")
        amounts[name] = amount
    return amounts


def _add(total: _Amounts, more: _Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _largest(total: _Amounts, other: _Amounts) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)


def is_extended(name: str) -> bool:
    """Return whether ``name`` is an extended resource, that is, of a domain other than Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name


def _mapping(value: Any, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(field, f"must be an object, not {type(value).__name__}")
    return value


def _items(value: Any, field: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InvalidRequest(field, f"must be a list, not {type(value).__name__}")
    for index, item in enumerate(value):
        yield f"{field}[{index}]", _mapping(item, f"{field}[{index}]")
