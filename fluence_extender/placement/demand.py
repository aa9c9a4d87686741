"""What a planner is asked for, and its no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import Signature, signature
from fluence_extender.placement.search import Shape


class GangRefused(Exception):
    """The gang has no place; ``reason`` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod to be placed.

    ``barred`` are the nodes that refused it lately; ``levels`` the node labels of which its PodGroup requires one
    domain; ``job_size`` is how many pods its Job has at once, where its bonds depend on that, else 0.
    """

    pod: Pod
    barred: frozenset[str] = frozenset()
    levels: tuple[str, ...] = ()
    job_size: int = 0


@dataclass(frozen=True, slots=True)
class ShapeKey:
    """Pods with equal keys are equal to placement; ``pin`` is the node that a pod's devices hang on, "" for none."""

    requests: Resources
    signature: Signature
    barred: frozenset[str]
    ports: tuple[HostPort, ...]
    pin: str


def shape_key(demand: Demand, pin: str = "") -> ShapeKey:
    """The key of a demand."""
    pod = demand.pod
    return ShapeKey(pod.requests, signature(pod), demand.barred, pod.host_ports, pin)


def grouped(demands: Sequence[Demand], pins: dict[str, str]) -> dict[ShapeKey, list[Demand]]:
    """The demands by key; ``pins`` are nodes by pod uid."""
    groups: dict[ShapeKey, list[Demand]] = {}
    for demand in demands:
        groups.setdefault(shape_key(demand, pins.get(demand.pod.uid, "")), []).append(demand)
    return groups


Group = tuple[Shape, list[Pod]]
"""Pods that are equal to placement, with their shape."""


class NoPlace(Exception):
    """There is no place for ``groups``.

    ``fallback`` says why when nothing else does, ``devices`` is why the first asker got none.
    """

    def __init__(
        self, groups: Sequence[Group], fallback: str | None = None, devices: Reason | None = None
    ) -> None:
        super().__init__(fallback or "no place")
        self.groups = groups
        self.fallback = fallback
        self.devices = devices
