"""Read once, when it is needed: the version of the cluster, the Lease, our pods, and disruption budgets.

A dry run belongs here, too, because it changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import msgspec
import structlog

from fluence_extender.cluster.budgets import Budget, decode_budgets
from fluence_extender.cluster.connection import ApiRequest, Connection
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.errors import ClusterError, Gone, PodsUnknown
from fluence_extender.cluster.port import Json, Lease, OwnPods, TriedPod
from fluence_extender.model.names import SCHEDULER_NAMES
from fluence_extender.model.pod import Pod
from fluence_extender.model.requirement import NEEDS, is_too_old
from fluence_extender.objects.meta import decode_headed, decode_page

log = structlog.get_logger(__name__)

PAGE = 1000
PAGE_LIMIT = 30.0
PODS_BETWEEN_YIELDS = 256

BUDGETS_LIMIT = 3.0
"""Seconds for the list of budgets. Budgets that don't arrive in time count as unknown."""

NO_DRY_RUN = 400
"""The HTTP status for a trial that an admission webhook doesn't allow (its side effects aren't declared as none)."""

UNKNOWN_FIELD = "strict decoding error"
"""What the API server says with that status of a field that doesn't exist."""

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


class _LeaseSpec(msgspec.Struct):
    holder: str | None = msgspec.field(name="holderIdentity", default=None)
    renewed: str | None = msgspec.field(name="renewTime", default=None)
    transitions: int | None = msgspec.field(name="leaseTransitions", default=None)
    duration: int | None = msgspec.field(name="leaseDurationSeconds", default=None)


class _LeaseObject(msgspec.Struct):
    spec: _LeaseSpec | None = None


class _Version(msgspec.Struct):
    text: str = msgspec.field(name="gitVersion")


_lease = msgspec.json.Decoder(_LeaseObject).decode
_version = msgspec.json.Decoder(_Version).decode


async def warn_of_old_cluster(connection: Connection) -> None:
    """Say in the log if the cluster is older than this service needs."""
    with contextlib.suppress(ClusterError, msgspec.MsgspecError):
        raw = await connection.call(ApiRequest("GET", "/version", "read the version of the cluster"))
        version = _version(raw).text
        if is_too_old(version):
            log.warning(NEEDS, cluster=version)


async def read_lease(connection: Connection, namespace: str, name: str, limit: float) -> Lease | None:
    """Return the current Lease (a quorum read), None if there is none; wait at most ``limit`` seconds.

    Raise `ClusterError`.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    request = ApiRequest("GET", path, f"read lease {namespace}/{name}")
    try:
        spec = _lease(await connection.call(request, limit, patient=False, urgent=True)).spec or _LeaseSpec()
    except Gone:
        return None
    return Lease(spec.holder or "", spec.renewed or "", spec.transitions or 0, float(spec.duration or 0))


async def list_own_pods(connection: Connection, known: Mapping[str, str]) -> OwnPods:
    """Return all pods of this scheduler; ``known`` maps the uids of the pods that the caller has to their versions.

    A replica calls this when it begins to lead, because its watch may lag behind the writes of the previous leader. A
    list without resourceVersion is a quorum read (Kubernetes API concepts, "resource versions"), so it has every write
    that was accepted before. Later pages have the first page's version. Only pods that the caller doesn't have in that
    version are decoded, so the call costs little more than the transfer. Each name of this scheduler takes a list, and
    the answer has the version of the first, the oldest. Raise `ClusterError`.
    """
    lists = [await _list_own_pods(connection, name, known) for name in SCHEDULER_NAMES]
    return OwnPods(
        lists[0].version,
        frozenset[str]().union(*(one.uids for one in lists)),
        tuple(pod for one in lists for pod in one.changed),
    )


async def _list_own_pods(connection: Connection, scheduler: str, known: Mapping[str, str]) -> OwnPods:
    query: dict[str, str | int] = {"limit": PAGE, "fieldSelector": f"spec.schedulerName={scheduler}"}
    uids: set[str] = set()
    changed: list[Pod] = []
    read = 0
    while True:
        request = ApiRequest("GET", "/api/v1/pods", "list our pods", query)
        page = decode_page(await connection.call(request, PAGE_LIMIT))
        for raw in page.items or ():
            head = decode_headed(raw).metadata
            uids.add(head.uid)
            if known.get(head.uid) != head.resource_version:
                changed.append(decode_pod(bytes(raw)))
            read += 1
            if read % PODS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
        if not page.metadata.next_page:
            return OwnPods(page.metadata.resource_version, frozenset(uids), tuple(changed))
        query["continue"] = page.metadata.next_page


async def disruption_budgets(connection: Connection) -> tuple[Budget, ...] | None:
    """Return all PodDisruptionBudgets, None if they can't be read in time."""
    request = ApiRequest("GET", BUDGETS, "list the PodDisruptionBudgets")
    try:
        async with asyncio.timeout(BUDGETS_LIMIT):
            return decode_budgets(await connection.call(request, patient=False))
    except (ClusterError, TimeoutError) as error:
        log.warning(
            "simulations don't take PodDisruptionBudgets into account, because they can't be listed",
            error=str(error) or f"no answer within {BUDGETS_LIMIT:g} s",
        )
        return None


async def try_pod(connection: Connection, manifest: Json, attempt: str, strict: bool = False) -> TriedPod:
    """Return the pod that the API server would make of ``manifest``. One POST, a dry run.

    ``strict``: a field that doesn't exist is refused. Raise `ClusterError`, and `PodsUnknown` where a webhook allows
    no trial.
    """
    path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods"
    query = {"dryRun": "All", **({"fieldValidation": "Strict"} if strict else {})}
    try:
        answer = await connection.ask(ApiRequest("POST", path, attempt, query, manifest))
    except ClusterError as error:
        if error.status != NO_DRY_RUN or (strict and UNKNOWN_FIELD in error.words):
            raise
        raise PodsUnknown(str(error), error.status) from error
    return TriedPod(answer.body, answer.warnings)
