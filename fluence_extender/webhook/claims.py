"""Who produces in a shared group whose pods are all alike, and how many pods an owner wants.

The first pod to be admitted produces. That it was the first is settled by a Lease named like the producer's group,
which only one request can make, and which its pod owns once it is there. A claim whose pod is going or has ended is
void, and after a moment so is one whose pod never came (another admission refused it). It goes to whoever asks next;
taking it over carries the version that was read, so that again only one can.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from fluence_extender.cluster.port import ClusterError, Conflict, Objects
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION, producer_group
from fluence_extender.model.names import CREATED_BY_ANNOTATION, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.notation import format_micro_time
from fluence_extender.model.pod import ENDED
from fluence_extender.webhook.contract import Json, Owned, Unclaimed

log = structlog.get_logger(__name__)

ARRIVES_WITHIN = 15.0
"""Seconds after which the pod of a claim exists, or never will: admission and storage take no longer (10 s each)."""
FRESH = 1.0
"""Seconds for which an owner is believed: it creates its pods in a burst."""
TRIES = 3
"""How often a claim that has changed while it was looked at is looked at again."""
MOST_KEPT = 1000
OWNERS = {"Job": "batch/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


def lease_path(namespace: str, group: str) -> str:
    """Where the claim to be the one pod of a producer's ``group`` stands."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{group}"


def is_ours(lease: Json) -> bool:
    """Whether the Lease is a claim, and not some other program's that goes by the same name."""
    annotations = (lease.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(CREATED_BY_ANNOTATION) == WEBHOOK_NAME)


class ApiClaims:
    """Asks the API server; ``now`` gives seconds since the epoch."""

    def __init__(self, objects: Objects, now: Callable[[], float]) -> None:
        self._objects = objects
        self._now = now
        self._owned: dict[str, tuple[Owned | None, float]] = {}

    async def claim(self, namespace: str, group: str, uid: str) -> bool:
        """Whether the request ``uid`` is the producer of ``group``. Raises `Unclaimed`."""
        name = producer_group(group)
        for _ in range(TRIES):
            try:
                return await self._claim(namespace, name, uid)
            except Conflict:
                # Another request was faster, or the claim went with its pod meanwhile: what is there now says which.
                continue
            except ClusterError as error:
                log.warning("a producer can't be chosen", group=f"{namespace}/{group}", problem=str(error))
                raise Unclaimed(str(error)) from error
        return False

    async def _claim(self, namespace: str, name: str, uid: str) -> bool:
        path = lease_path(namespace, name)
        lease = await self._objects.read(path)
        if lease is None:
            await self._objects.create(path, self._lease(namespace, name, uid))
            return True
        if not is_ours(lease):
            log.warning("a producer can't be chosen: its Lease is somebody else's", lease=path)
            raise Unclaimed(f"there is a Lease {name} that isn't ours: remove it, or rename the group")
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == uid:
            # The same request, asked again.
            return True
        arrived = bool((lease.get("metadata") or {}).get("ownerReferences"))
        fresh = self._now() - _seconds(spec.get("renewTime")) < ARRIVES_WITHIN
        if (fresh and not arrived) or await self._there(namespace, name):
            return False
        wanted = self._lease(namespace, name, uid)
        metadata = {key: value for key, value in lease["metadata"].items() if key != "ownerReferences"}
        await self._objects.replace(path, {**lease, "metadata": metadata, "spec": wanted["spec"]})
        return True

    async def _there(self, namespace: str, group: str) -> bool:
        """Whether the group has a producer that hasn't ended and isn't going."""
        query = f"labelSelector={GROUP_LABEL.replace('/', '%2F')}%3D{group}"
        found = await self._objects.read(f"/api/v1/namespaces/{namespace}/pods?{query}") or {}
        pods = found.get("items") or []
        return any(
            (pod["metadata"].get("annotations") or {}).get(ROLE_ANNOTATION) == PRODUCER
            and (pod.get("status") or {}).get("phase") not in ENDED
            and "deletionTimestamp" not in pod["metadata"]
            for pod in pods
        )

    def _lease(self, namespace: str, name: str, uid: str) -> Json:
        claimed = format_micro_time(datetime.fromtimestamp(self._now(), UTC))
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": "fluence", GROUP_LABEL: name},
                "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
            },
            "spec": {"holderIdentity": uid, "renewTime": claimed},
        }

    async def owned(self, namespace: str, kind: str, name: str) -> Owned | None:
        """What a Job, ReplicaSet or StatefulSet wants; None where that can't be found out. Doesn't raise."""
        path = f"/apis/{OWNERS[kind]}/namespaces/{namespace}/{kind.lower()}s/{name}"
        said, until = self._owned.get(path, (None, 0.0))
        if self._now() < until:
            return said
        try:
            found = await self._objects.read(path)
        except ClusterError as error:
            log.warning("an owner can't be asked what it wants", owner=path, problem=str(error))
            return None
        wanted = None if found is None else wants(kind, found.get("spec") or {})
        if len(self._owned) >= MOST_KEPT:
            self._owned.clear()
        self._owned[path] = wanted, self._now() + FRESH
        return wanted


def wants(kind: str, spec: Json) -> Owned:
    """What the spec of an owner says of its pods; only a StatefulSet begins to count where it likes (KEP-3335)."""
    first = _number((spec.get("ordinals") or {}).get("start"), 0) if kind == "StatefulSet" else 0
    return Owned(at_once(kind, spec), first)


def at_once(kind: str, spec: Json) -> int:
    """How many pods there are before any of them has run: a StatefulSet that isn't Parallel makes one by one."""
    if kind == "StatefulSet" and spec.get("podManagementPolicy") != "Parallel":
        return 1
    if kind == "Job":
        parallelism = _number(spec.get("parallelism"), 1)
        return min(parallelism, _number(spec.get("completions"), parallelism))
    return _number(spec.get("replicas"), 1)


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _seconds(text: Any) -> float:
    """A MicroTime as seconds since the epoch, 0 for what isn't one."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
