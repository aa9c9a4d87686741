"""A service with a fixed plan behind the `Placements` port, and requests as kube-scheduler sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fluence_extender.extender.port import (
    AllocationView,
    AskedPod,
    GangView,
    Location,
    MemberView,
    Nowhere,
    On,
)

GANGS = (
    GangView(
        "default",
        "vqe",
        "planned",
        "",
        2,
        (MemberView("vqe-0", "u-0", "n1", "ibm-a"), MemberView("vqe-1", "u-1", "n1")),
    ),
    GangView(
        "team", "big", "waiting", "waiting for members (1 of 8 exist)", 8, (MemberView("big-0", "u-2"),)
    ),
)
ALLOCATIONS = (
    AllocationView("default", "vqe-0", "u-0", "n1", 1.5, 2**31, 0, "ibm-a", {"qpu": 1}),
    AllocationView("default", "vqe-1", "u-1", "n1", 1, 2**30, 2),
)
GRAPH: dict[str, Any] = {
    "graph": {
        "nodes": [{"id": str(i), "metadata": {"type": "core", "id": i}} for i in range(2500)],
        "edges": [{"source": "0", "target": str(i)} for i in range(1, 2500)],
    }
}


class HeldPlacements:
    """Answers from ``plan`` (uid to location); records what it is told."""

    def __init__(self, plan: Mapping[str, Location] | None = None) -> None:
        self.plan = dict(plan or {})
        self.missing = ""
        self.refusals: list[tuple[str, str]] = []
        self.bound: dict[str, str] = {}
        self.protected: frozenset[str] = frozenset()
        self.failure: Exception | None = None
        self.barrier: asyncio.Event | None = None
        self.expanded: list[bool] = []

    @property
    def ready(self) -> bool:
        return not self.missing

    @property
    def not_ready_reason(self) -> str:
        return self.missing

    def locate(self, pod: AskedPod) -> Location:
        if self.failure is not None:
            raise self.failure
        return self.plan.get(pod.uid, Nowhere("unknown pod"))

    def refused(self, pod: AskedPod, node: str) -> None:
        self.refusals.append((pod.uid, node))

    async def bind(self, pod: AskedPod, node: str) -> None:
        if self.barrier is not None:
            await self.barrier.wait()
        if self.failure is not None:
            raise self.failure
        self.bound[pod.uid] = node

    def may_evict(self, uids: Sequence[str]) -> bool:
        if self.failure is not None:
            raise self.failure
        return not self.protected.intersection(uids)

    def gangs(self) -> Sequence[GangView]:
        return GANGS

    def allocations(self) -> Sequence[AllocationView]:
        return ALLOCATIONS

    def graph(self, expand: bool) -> dict[str, Any]:
        self.expanded.append(expand)
        return GRAPH


def on(node: str) -> HeldPlacements:
    """A service that has planned the pod ``uid-1`` on ``node``."""
    return HeldPlacements({"uid-1": On(node)})


def pod(uid: str = "uid-1", scheduler: str = "fluence") -> dict[str, Any]:
    """A pod as JSON."""
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": uid, "labels": {"a": "b"}},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    }


def by_name(names: Sequence[str], asked: dict[str, Any] | None = None) -> dict[str, Any]:
    """Filter's and prioritize's request to a nodeCacheCapable extender."""
    return {"Pod": asked or pod(), "Nodes": None, "NodeNames": list(names)}


def by_node(names: Sequence[str], asked: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same with whole nodes."""
    items = [{"metadata": {"name": name, "labels": {"x": name}}, "status": {"phase": "é"}} for name in names]
    return {"Pod": asked or pod(), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def binding(uid: str = "uid-1", node: str = "n1") -> dict[str, str]:
    """Bind's request."""
    return {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": node}
