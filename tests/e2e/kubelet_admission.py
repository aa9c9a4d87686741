"""The kubelet's resource admission as arithmetic: does a pod that arrives on a node fit beside the pods already there?

Sources: Kubernetes pkg/kubelet/lifecycle/predicate.go (admission, its reasons, and that extended resources which the
node doesn't have are dropped), component-helpers resource/helpers.go (effective requests), KEP-753 (sidecars), KEP-2837
(pod-level resources). Amounts are integers: ``cpu`` in millicores, all else in whole units (bytes, pods, devices), a
fraction counting as one, as the kubelet rounds.

It shares no code with the scheduler's own accounting, because a shared mistake would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

Amounts = dict[str, int]

_SUFFIXES = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def quantity(text: str | int | float) -> Decimal:
    """Return the exact value of a Kubernetes quantity such as ``1500m``, ``2Gi``, ``1e3`` or ``4``."""
    written = str(text)
    for length in (2, 1):
        if written[-length:] in _SUFFIXES:
            return Decimal(written[:-length]) * _SUFFIXES[written[-length:]]
    return Decimal(written)


def amounts(quantities: Mapping[str, str | int] | None) -> Amounts:
    """Return a resource list as integers, each rounded up."""
    return {
        name: int((quantity(text) * (1000 if name == "cpu" else 1)).to_integral_value(ROUND_CEILING))
        for name, text in (quantities or {}).items()
    }


def effective_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod of this ``spec`` requests of its node, without the pod slot itself."""
    total: Amounts = {}
    for container in spec["containers"]:
        _add(total, _requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        running = dict(sidecars)
        _add(running, _requests(container))
        if container.get("restartPolicy") == "Always":
            _add(total, _requests(container))
            sidecars = running
        _raise_to(peak, running)
    _raise_to(total, peak)
    for name, amount in _requests(spec).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = amount
    _add(total, amounts(spec.get("overhead")))
    return total


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the kubelet rejects a pod: the first resource that doesn't suffice, with its amounts."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """The pod's ``status.reason``, such as OutOfcpu."""
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        """The pod's ``status.message``."""
        return (
            f"Pod was rejected: Node didn't have enough resource: {self.resource}, "
            f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        )


def admit(requests: Amounts, others: Iterable[Amounts], allocatable: Amounts) -> Rejection | None:
    """Return why a pod with ``requests`` doesn't fit a node of ``allocatable`` beside ``others``.

    None where it fits.
    """
    used: Amounts = {}
    count = 0
    for other in others:
        _add(used, other)
        count += 1
    if count + 1 > allocatable.get("pods", 0):
        return Rejection("pods", 1, count, allocatable.get("pods", 0))
    first = ("cpu", "memory", "ephemeral-storage")
    for name in (*first, *sorted(set(requests) - set(first))):
        amount, capacity = requests.get(name, 0), allocatable.get(name, 0)
        if _extended(name) and name not in allocatable:
            continue
        if amount > 0 and amount > capacity - used.get(name, 0):
            return Rejection(name, amount, used.get(name, 0), capacity)
    return None


def _extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _requests(holder: Mapping[str, Any]) -> Amounts:
    return amounts((holder.get("resources") or {}).get("requests"))


def _add(total: Amounts, part: Mapping[str, int]) -> None:
    for name, amount in part.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
