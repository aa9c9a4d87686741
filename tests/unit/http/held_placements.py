"""A service with a fixed plan behind the `Placements` port, and requests as kube-scheduler sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx

from fluence_extender.http.port import AskedPod, Location, Nowhere, On
from fluence_extender.http.state.state import (
    AllocationView,
    Amounts,
    Counts,
    DeviceView,
    EntryView,
    GangStory,
    GangView,
    Graph,
    HolderView,
    Items,
    Listing,
    MemberView,
    NodeStory,
    NodeView,
    Pieces,
    ShapeView,
    UserView,
)

CREATED = datetime(2026, 6, 30, 12, tzinfo=UTC)
LATER = CREATED + timedelta(milliseconds=125)

GANGS = (
    GangView(
        "default",
        "vqe",
        "planned",
        "",
        2,
        (MemberView("vqe-0", "u-0", "n1", "ibm-a"), MemberView("vqe-1", "u-1", "n1")),
        created=CREATED,
    ),
    GangView(
        "team",
        "big",
        "waiting",
        "waiting for members (1 of 8 exist)",
        8,
        (MemberView("big-0", "u-2"),),
        "podgroup",
        "WaitingForMembers",
    ),
)
GONE = GangView("team", "old", "gone", "its pods are gone", 1)
ASKS = (ShapeView(2, {"cpu": 1.5, "memory": 2**31, "pods": 1}, {"qpu": 1}, {"vendor": "ibm"}),)
HISTORY = (
    EntryView(CREATED, "seen", "", "", 2, LATER),
    EntryView(LATER, "planned", "", "on n1 with ibm-a", 1, LATER),
)
ALLOCATIONS = (
    AllocationView("default", "vqe-0", "u-0", "n1", 1.5, 2**31, 0, "ibm-a", {"qpu": 1}, "vqe", "planned"),
    AllocationView("default", "vqe-1", "u-1", "n1", 1, 2**30, 2, gang="vqe"),
)
WHOLE: Amounts = {"cpu": 4.0, "memory": 2**33, "pods": 110}
NODES = (
    NodeView(
        "n1",
        True,
        (),
        {"zone": "z1"},
        WHOLE,
        {"cpu": 2.5, "memory": 3 * 2**30, "pods": 2},
        {"cpu": 0.1, "pods": 1},
        {"cpu": 1.4, "memory": 5 * 2**30, "pods": 107},
    ),
    NodeView("n2", False, ("cordoned",), {}, WHOLE, {}, {}, WHOLE),
)
USERS = (
    UserView("default", "vqe-0", "u-0", "vqe", "planned", {"cpu": 1.5, "pods": 1}),
    UserView("kube-system", "agent", "u-9", "", "other", {"cpu": 0.1, "pods": 1}),
)
HOLDER = HolderView("default", "vqe-0", "u-0", "vqe", "/cluster/ibm-a/qpu0", 1, "planned")
VENDOR = {"vendor": "ibm"}
BACKENDS = (
    DeviceView("ibm-a", "ibm-a", "/cluster/ibm-a", "qdevice", "", VENDOR, 1, 1, 0, (HOLDER,), True, ()),
    DeviceView("ibm-a", "qpu0", "/cluster/ibm-a/qpu0", "qpu", "", VENDOR, 1, 1, 0, (HOLDER,), True, ()),
    DeviceView(
        "lab", "lab", "/cluster/n2/lab", "qpu", "n2", {}, 1, 0, 1, (), False, ("its node n2: cordoned",)
    ),
)
VERTICES: list[dict[str, Any]] = [{"id": str(i), "metadata": {"type": "core", "id": i}} for i in range(2500)]
EDGES: list[dict[str, Any]] = [{"source": "0", "target": str(i)} for i in range(1, 2500)]
GRAPH: dict[str, Any] = {"graph": {"nodes": VERTICES, "edges": EDGES}}

# Posts a request to a verb: the verb's name; the request, or its bytes as they are.
Post = Callable[[str, Any], Awaitable[httpx.Response]]
V = TypeVar("V")


class HeldPlacements:
    """Answers from ``plan`` (uid to location); records what it is told."""

    def __init__(self, plan: Mapping[str, Location] | None = None) -> None:
        self.plan = dict(plan or {})
        self.missing = ""
        self.leading = True
        self.asked_to_lead = 0
        self.refusals: list[tuple[str, str]] = []
        self.producer_annotation: list[tuple[str, str]] = []
        self.instead: Location | None = None
        self.bound: dict[str, str] = {}
        self.protected: frozenset[str] = frozenset()
        self.failure: Exception | None = None
        self.barrier: asyncio.Event | None = None
        self.expanded: list[bool] = []
        self.revision = "1"
        self.read = 0

    @property
    def ready(self) -> bool:
        return not self.missing

    @property
    def not_ready_reason(self) -> str:
        return self.missing

    async def settled(self) -> None:
        self.asked_to_lead += 1

    def locate(self, pod: AskedPod) -> Location:
        if self.failure is not None:
            raise self.failure
        return self.plan.get(pod.uid, Nowhere("unknown pod"))

    def refused(self, pod: AskedPod, node: str) -> None:
        self.refusals.append((pod.uid, node))

    def hand_over(self, pod: AskedPod, node: str) -> Location:
        self.producer_annotation.append((pod.uid, node))
        return self.instead or On(node)

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

    async def simulate(self, manifests: bytes, namespace: str) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"fits": True, "gangs": [], "ignored": [manifests.decode()], "notes": [namespace]}

    def gangs(self, gone: bool = False) -> Listing[GangView]:
        return self._listing((*GANGS, GONE) if gone else GANGS)

    def gang(self, namespace: str, name: str, convention: str = "") -> GangStory | None:
        for gang in (*GANGS, GONE):
            if (gang.namespace, gang.name) == (namespace, name) and convention in ("", gang.convention):
                return GangStory(gang, ASKS, HISTORY, 3, self.revision)
        return None

    def allocations(self) -> Listing[AllocationView]:
        return self._listing(ALLOCATIONS)

    def nodes(self) -> Listing[NodeView]:
        return self._listing(NODES)

    def node(self, name: str) -> NodeStory | None:
        found = [node for node in NODES if node.name == name]
        return NodeStory(found[0], USERS, self.revision) if found else None

    def backends(self) -> Listing[DeviceView]:
        return self._listing(BACKENDS)

    def graph(self, expand: bool) -> Graph:
        self.expanded.append(expand)

        async def read() -> Pieces:
            return Pieces(lambda: halves(VERTICES), lambda: halves(EDGES))

        return Graph(self.revision, read)

    def counts(self) -> Counts:
        return Counts({"planned": 1, "waiting": 1}, 2)

    def _listing(self, views: Sequence[V]) -> Listing[V]:
        self.read = 0

        def read() -> Items[V]:
            self.read += 1
            return listed(views)

        return Listing(self.revision, read)


def listed(views: Sequence[V]) -> Items[V]:
    """Items under keys of their own."""
    keys = [(f"{number:06}",) for number in range(len(views))]
    return Items(keys, lambda key: views[int(key[0])])


async def halves(items: list[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    """Two pieces, and an empty one between them."""
    for piece in (items[: len(items) // 2], [], items[len(items) // 2 :]):
        yield piece


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
