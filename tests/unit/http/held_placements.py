"""A service with a fixed plan and a fixed state behind both ports, and requests as kube-scheduler sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx
from msgspec.structs import asdict, replace

from fluence_extender.api.gangs import Allocation, Entry, Gang, GangDetail, Member, Shape
from fluence_extender.api.nodes import Backend, Holder, Node, NodeDetail, NodeUser
from fluence_extender.api.queues import QueueEntry, QueueSummary, ReservedNodes
from fluence_extender.api.values import Amounts
from fluence_extender.http.metrics import QueueCount
from fluence_extender.http.scheduler.port import Location, Nowhere, On, RequestedPod
from fluence_extender.http.state.listings import GraphExport, Items, Listing, Pieces, Single
from fluence_extender.http.state.service import ServiceState
from fluence_extender.model.access import CallerSight
from fluence_extender.model.gang import Convention, HistoryKind
from fluence_extender.whatif.simulator import Permit, See

CREATED = datetime(2026, 6, 30, 12, tzinfo=UTC)
LATER = CREATED + timedelta(milliseconds=125)

GANGS = (
    Gang(
        namespace="default",
        name="vqe",
        convention=Convention.LABEL,
        owner="Job/vqe",
        state="planned",
        reason="",
        why="",
        size=2,
        created=CREATED,
        expected_start=None,
        started=None,
        expected_end=None,
        queue="default",
        user="ada",
        position=None,
        preemptions=0,
        preempted=None,
        members=(Member("vqe-0", "u-0", "n1", "ibm-a"), Member("vqe-1", "u-1", "n1", "")),
        former=(),
        quantum=None,
    ),
    Gang(
        namespace="team",
        name="big",
        convention=Convention.POD_GROUP,
        owner="",
        state="waiting",
        reason="waiting for members (1 of 8 exist)",
        why="WaitingForMembers",
        size=8,
        created=None,
        expected_start=None,
        started=None,
        expected_end=None,
        queue="physics",
        user="grace",
        position=2,
        preemptions=0,
        preempted=None,
        members=(Member("big-0", "u-2", "", ""),),
        former=(),
        quantum=None,
    ),
)
GONE = replace(GANGS[1], name="old", state="gone", reason="its pods are gone", why="", size=1, members=())
ASKS = (Shape(2, {"cpu": 1.5, "memory": 2**31, "pods": 1}, {"qpu": 1}, {"vendor": "ibm"}),)
HISTORY = (
    Entry(CREATED, HistoryKind.SEEN, "", "", 2, LATER),
    Entry(LATER, HistoryKind.PLANNED, "", "on n1 with ibm-a", 1, LATER),
)
GPU = "gpu.example.com/n1/gpu-0"
ALLOCATIONS = (
    Allocation("default", "vqe-0", "u-0", "n1", 1.5, 2**31, 0, "ibm-a", {"qpu": 1}, (), "vqe", "planned"),
    Allocation("default", "vqe-1", "u-1", "n1", 1, 2**30, 2, "", {}, (GPU,), "vqe", "bound"),
)
WHOLE: Amounts = {"cpu": 4.0, "memory": 2**33, "pods": 110}
NODES = (
    Node(
        name="n1",
        schedulable=True,
        problems=(),
        levels={"zone": "z1"},
        allocatable=WHOLE,
        held={"cpu": 2.5, "memory": 3 * 2**30, "pods": 2},
        others={"cpu": 0.1, "pods": 1},
        free={"cpu": 1.4, "memory": 5 * 2**30, "pods": 107},
        devices={GPU: "held"},
    ),
    Node("n2", False, ("cordoned",), {}, WHOLE, {}, {}, WHOLE, {}),
)
USERS = (
    NodeUser("default", "vqe-0", "u-0", "vqe", "ada", "planned", {"cpu": 1.5, "pods": 1}),
    NodeUser("kube-system", "agent", "u-9", "", "", "other", {"cpu": 0.1, "pods": 1}),
)
HOLDER = Holder("default", "vqe-0", "u-0", "vqe", "/cluster/ibm-a/qpu0", 1, "planned")
VENDOR = {"vendor": "ibm"}
BACKENDS = (
    Backend("ibm-a", "ibm-a", "/cluster/ibm-a", "qdevice", "", VENDOR, 1, 1, 0, (HOLDER,), 0, True, ()),
    Backend("ibm-a", "qpu0", "/cluster/ibm-a/qpu0", "qpu", "", VENDOR, 1, 1, 0, (HOLDER,), 0, True, ()),
    Backend(
        "lab", "lab", "/cluster/n2/lab", "qpu", "n2", {}, 1, 0, 1, (), 0, False, ("its node n2: cordoned",)
    ),
)
NO_QUOTA: tuple[str, float, dict[str, str], dict[str, str], dict[str, str], dict[str, str], float] = (
    "",
    1.0,
    {},
    {},
    {},
    {},
    0.0,
)
QUEUES = (
    QueueSummary("default", "None", 2, 1, {}, "default/vqe", LATER, CREATED, (), *NO_QUOTA, False),
    QueueSummary(
        "physics",
        "Hold",
        0,
        0,
        {"running": 4},
        "",
        None,
        None,
        ("spec.maxDuration: no time",),
        *NO_QUOTA,
        True,
    ),
)
LINE = (
    QueueEntry(
        1,
        "default",
        "vqe",
        Convention.LABEL,
        "default",
        "ada",
        5,
        CREATED,
        False,
        "",
        "",
        LATER,
        ("n1", "n2"),
    ),
    QueueEntry(
        2, "team", "big", Convention.POD_GROUP, "physics", "eve", 0, None, True, "held: so", "Held", None, ()
    ),
)
RESERVED = (
    ReservedNodes("gang", "default", "vqe", LATER, None, 2, ("n1", "n2"), (), ""),
    ReservedNodes("reservation", "", "upgrade", CREATED, LATER, 1, ("n2",), ("physics",), "firmware"),
)
VERTICES: list[dict[str, Any]] = [{"id": str(i), "metadata": {"type": "core", "id": i}} for i in range(2500)]
EDGES: list[dict[str, Any]] = [{"source": "0", "target": str(i)} for i in range(1, 2500)]
GRAPH: dict[str, Any] = {"graph": {"nodes": VERTICES, "edges": EDGES}}

# Posts a request to a verb: the name of the verb; the request, or its bytes as they are.
Post = Callable[[str, Any], Awaitable[httpx.Response]]
V = TypeVar("V")


class HeldPlacements(ServiceState):
    """Answers from ``plan`` (uid to location) and records the calls it gets."""

    def __init__(self, plan: Mapping[str, Location] | None = None) -> None:
        self.readiness = self
        self.plan = dict(plan or {})
        self.missing = ""
        self.leading = True
        self.lead_requests = 0
        self.refusals: list[tuple[str, str]] = []
        self.bound: dict[str, str] = {}
        self.protected: frozenset[str] = frozenset()
        self.failure: Exception | None = None
        self.barrier: asyncio.Event | None = None
        self.pods_awaited: list[str] = []
        self.revision = "1"
        self.read = 0

    @property
    def not_ready_reason(self) -> str:
        return self.missing

    async def wait_for_lead(self) -> None:
        self.lead_requests += 1

    async def wait_for_pod(self, pod: RequestedPod) -> None:
        self.pods_awaited.append(pod.uid)

    def locate(self, pod: RequestedPod) -> Location:
        if self.failure is not None:
            raise self.failure
        return self.plan.get(pod.uid, Nowhere("unknown pod"))

    def refused(self, pod: RequestedPod, node: str) -> None:
        self.refusals.append((pod.uid, node))

    async def bind(self, pod: RequestedPod, node: str) -> None:
        if self.barrier is not None:
            await self.barrier.wait()
        if self.failure is not None:
            raise self.failure
        self.bound[pod.uid] = node

    def may_evict(self, uids: Sequence[str]) -> bool:
        if self.failure is not None:
            raise self.failure
        return not self.protected.intersection(uids)

    async def simulate(
        self, manifests: bytes, namespace: str, client: str, permit: Permit, see: See
    ) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"fits": True, "gangs": [], "ignored": [manifests.decode()], "notes": [namespace]}

    def gangs(self, gone: bool, sight: CallerSight) -> Listing[Gang]:
        return self._listing((*GANGS, GONE) if gone else GANGS)

    def named_about(self, namespace: str, name: str, convention: str) -> frozenset[str]:
        return frozenset()

    def gang(
        self, namespace: str, name: str, convention: str, sight: CallerSight
    ) -> Single[GangDetail] | None:
        for gang in (*GANGS, GONE):
            if (gang.namespace, gang.name) == (namespace, name) and convention in ("", gang.convention):
                detail = GangDetail(
                    **asdict(gang),
                    notes=(),
                    asks=ASKS,
                    fitting=None,
                    lacking=(),
                    history=HISTORY,
                    forgotten=3,
                    leading=self.leading,
                )
                return Single(self.revision, detail)
        return None

    def allocations(self) -> Listing[Allocation]:
        return self._listing(ALLOCATIONS)

    def nodes(self) -> Listing[Node]:
        return self._listing(NODES)

    def node(self, name: str) -> Single[NodeDetail] | None:
        for node in NODES:
            if node.name == name:
                detail = NodeDetail(**asdict(node), pods=USERS, hidden=0, leading=self.leading)
                return Single(self.revision, detail)
        return None

    def backends(self) -> Listing[Backend]:
        return self._listing(BACKENDS)

    def queues(self) -> Listing[QueueSummary]:
        return self._listing(QUEUES)

    def line(self, sight: CallerSight) -> Listing[QueueEntry]:
        return self._listing(LINE)

    def reservations(self, with_nodes: bool) -> Listing[ReservedNodes]:
        return self._listing(
            [one if with_nodes or one.kind == "gang" else replace(one, nodes=()) for one in RESERVED]
        )

    def queue_counts(self) -> dict[str, QueueCount]:
        return {"default": QueueCount(2, 1, 60.0)}

    def untried_for(self) -> float:
        return 1.5

    def graph(self) -> GraphExport:

        async def read() -> Pieces:
            return Pieces(lambda: halves(VERTICES), lambda: halves(EDGES))

        return GraphExport(self.revision, read)

    def namespaces(self) -> frozenset[str]:
        return frozenset(gang.namespace for gang in (*GANGS, GONE)) | self.holding_namespaces()

    def holding_namespaces(self) -> frozenset[str]:
        return frozenset(held.namespace for held in ALLOCATIONS)

    def counts(self) -> tuple[Mapping[str, int], int]:
        return {"planned": 1, "waiting": 1}, 2

    def _listing(self, items: Sequence[V]) -> Listing[V]:
        self.read = 0

        def read() -> Items[V]:
            self.read += 1
            return listed(items)

        return Listing(self.revision, read)


def listed(items: Sequence[V]) -> Items[V]:
    """Return ``items`` under keys of their own."""
    keys = [(f"{number:06}",) for number in range(len(items))]
    return Items(keys, lambda key: items[int(key[0])])


async def halves(items: list[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield two pieces, and an empty one between them."""
    for piece in (items[: len(items) // 2], [], items[len(items) // 2 :]):
        yield piece


def on(node: str) -> HeldPlacements:
    """Return a service that has planned the pod ``uid-1`` on ``node``."""
    return HeldPlacements({"uid-1": On(node)})


def pod(uid: str = "uid-1", scheduler: str = "fluence") -> dict[str, Any]:
    """Return a pod as JSON."""
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": uid, "labels": {"a": "b"}},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    }


def by_name(names: Sequence[str], requested: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the request of filter and prioritize to a nodeCacheCapable extender."""
    return {"Pod": requested or pod(), "Nodes": None, "NodeNames": list(names)}


def binding(uid: str = "uid-1", node: str = "n1") -> dict[str, str]:
    """Return the request of bind."""
    return {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": node}
