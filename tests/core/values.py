"""Short ways to write pods and nodes in tests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from fluence_extender.model.claims import Claims
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, GATE, SCHEDULER_NAME
from fluence_extender.model.node import Node
from fluence_extender.model.pod import (
    HostPort,
    NodeTerm,
    Owner,
    Pod,
    PodTerm,
    QuotaCharge,
    Requirement,
    SpreadRule,
)
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.room.records import Seal

GIB = 2**30
_numbers = itertools.count(1)

SEAL = Seal((b"the key of all worlds",))
"""By which the services of tests know their own records, also after a restart."""


def classed(pod: Pod) -> Pod:
    """The pod as the admission policy leaves it: direct if its node alone decides whether it may run there."""
    if pod.scheduler != SCHEDULER_NAME or pod.node or pod.interdependent or pod.claims:
        return pod
    return replace(pod, scheduler=DIRECT_SCHEDULER_NAME, gates=tuple(one for one in pod.gates if one != GATE))


class PodFields(TypedDict, total=False):
    """What may be said of a pod besides its names; see `Pod`."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler: str
    node: str
    nominated: str
    phase: str
    deleting: bool
    gates: tuple[str, ...]
    group: str
    owner: Owner | None
    requests: Resources
    devices: Mapping[str, int]
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    affinity: tuple[NodeTerm, ...] | None
    host_ports: tuple[HostPort, ...]
    priority: int
    priority_class: str
    created: float
    resource_version: str
    problem: str
    refusal: str
    failure: str
    started: float
    ended: float
    rejection: str
    ready: bool
    duration: float | None
    preempts: bool
    interdependent: bool
    pod_affinity: tuple[tuple[Requirement, ...], ...]
    claims: Claims
    claim_group: str
    apart: tuple[PodTerm, ...]
    near: tuple[PodTerm, ...]
    spread: tuple[SpreadRule, ...]
    features: tuple[str, ...]
    charge: QuotaCharge | None
    size: int


class NodeFields(TypedDict, total=False):
    """What may be said of a node besides its name and what it has; see `Node`."""

    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool
    features: frozenset[str]


def asks(cpu: int = 0, gib: int = 0, **more: int) -> Resources:
    """Requests of millicores and GiB with a pod slot; other names with ``__`` for ``/`` and ``_`` for ``.``."""
    others = {name.replace("__", "/").replace("_", "."): amount for name, amount in more.items()}
    return Resources({"cpu": cpu, "memory": gib * GIB, "pods": 1, **others})


def node(
    name: str = "n0",
    cpu: int = 4000,
    gib: int = 16,
    pods: int = 110,
    extra: Mapping[str, int] | None = None,
    **fields: Unpack[NodeFields],
) -> Node:
    """A node with ``cpu`` millicores and ``gib`` GiB; ``extra`` are further resources."""
    amounts = Resources({"cpu": cpu, "memory": gib * GIB, "pods": pods, **(extra or {})})
    return Node(name, allocatable=amounts, **fields)


def pod(
    name: str = "p", cpu: int = 1000, gib: int = 1, uid: str | None = None, **fields: Unpack[PodFields]
) -> Pod:
    """A pod of ours, by default under a uid of its own."""
    fields.setdefault("requests", asks(cpu, gib))
    return Pod("default", name, f"{name}-{next(_numbers)}" if uid is None else uid, **fields)
