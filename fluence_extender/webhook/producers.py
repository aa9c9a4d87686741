"""Choose the producer of a shared group whose pods are all equal: the first pod that is admitted.

The producer record settles which pod that is. It is a Lease named like the producer's group, which only one request
can create. Once the producer's pod exists it owns the Lease, so both go together. A record is void once its pod is
terminating or has ended, or if its pod hasn't appeared after some seconds (another admission refused it). The next
request takes a void record over.

Invariant: a group has one producer, however many replicas admit its pods at once. A record is taken over with the
version that was read, so only one request can do so.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict
from fluence_extender.cluster.port import Objects, Observation, follow_pods
from fluence_extender.cluster.reconciler import Reconciler
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION, producer_group
from fluence_extender.model.names import CREATED_BY_ANNOTATION, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.notation import format_micro_time
from fluence_extender.model.pod import ENDED, Pod
from fluence_extender.webhook.contract import Json, ProducerUnknown

log = structlog.get_logger(__name__)

ARRIVES_WITHIN = 15.0
"""Seconds after which a recorded pod exists or never will: admission and storage take 10 s at most."""
TRIES = 3
"""How often a record that changes while it is being read is read again."""


def lease_path(namespace: str, group: str) -> str:
    """Return the path of the producer record; ``group`` is the producer's own group."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{group}"


def is_producer_record(lease: Json) -> bool:
    """Return whether the Lease is a producer record, not another program's Lease of the same name."""
    annotations = (lease.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(CREATED_BY_ANNOTATION) == WEBHOOK_NAME)


class ProducerRecords:
    """The producer records on the API server; ``now`` returns seconds since the epoch."""

    def __init__(self, objects: Objects, now: Callable[[], float]) -> None:
        self._objects = objects
        self._now = now

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        """Return whether the request ``uid`` is the producer of ``group``, after recording it if there is none.

        Raises `ProducerUnknown`.
        """
        name = producer_group(group)
        for _ in range(TRIES):
            try:
                return await self._read_or_record(namespace, name, uid)
            except Conflict:
                # Another request was faster, or the record has gone with its pod. The new record says which.
                continue
            except ClusterError as error:
                log.warning("a producer can't be chosen", group=f"{namespace}/{group}", problem=str(error))
                raise ProducerUnknown(str(error)) from error
        return False

    async def _read_or_record(self, namespace: str, name: str, uid: str) -> bool:
        path = lease_path(namespace, name)
        lease = await self._objects.read(path)
        if lease is None:
            await self._objects.create(path, self._lease(namespace, name, uid))
            return True
        if not is_producer_record(lease):
            log.warning("a producer can't be chosen: its Lease belongs to another program", lease=path)
            raise ProducerUnknown(f"there is a Lease {name} that isn't ours: remove it, or rename the group")
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == uid:
            # The API server sent the same request again.
            return True
        pod_exists = bool((lease.get("metadata") or {}).get("ownerReferences"))
        fresh = self._now() - _seconds(spec.get("renewTime")) < ARRIVES_WITHIN
        if (fresh and not pod_exists) or await self._has_live_producer(namespace, name):
            return False
        wanted = self._lease(namespace, name, uid)
        metadata = {key: value for key, value in lease["metadata"].items() if key != "ownerReferences"}
        await self._objects.replace(path, {**lease, "metadata": metadata, "spec": wanted["spec"]})
        return True

    async def _has_live_producer(self, namespace: str, group: str) -> bool:
        """Return whether the group has a producer that has neither ended nor is terminating."""
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
        recorded = format_micro_time(datetime.fromtimestamp(self._now(), UTC))
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": "fluence", GROUP_LABEL: name},
                "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
            },
            "spec": {"holderIdentity": uid, "renewTime": recorded},
        }


class ProducerRecordReconciler(Reconciler[str]):
    """Makes each producer's pod the owner of its record; the keys are the uids of the pods."""

    def __init__(self, objects: Objects) -> None:
        super().__init__("a producer record")
        self._objects = objects
        self._producers: dict[str, Pod] = {}

    def observe(self, seen: Observation) -> None:
        """Note an observation, of whatever kind."""
        follow_pods(seen, self._producers, self._put, self._drop)

    async def reconcile(self, uid: str) -> None:
        """Let the pod own the record of its group. A producer that is known by its index needs no record."""
        pod = self._producers.get(uid)
        if pod is None:
            return
        path = lease_path(pod.namespace, pod.labels[GROUP_LABEL])
        lease = await self._objects.read(path)
        if lease is None or not is_producer_record(lease) or uid not in self._producers:
            return
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        metadata = lease.get("metadata") or {}
        if metadata.get("ownerReferences") != [reference]:
            metadata = {**metadata, "ownerReferences": [reference]}
            await self._objects.replace(path, {**lease, "metadata": metadata})

    def _put(self, pod: Pod) -> None:
        if not pod.ours or pod.uid in self._producers:
            return
        if pod.annotations.get(ROLE_ANNOTATION) == PRODUCER and pod.labels.get(GROUP_LABEL):
            self._producers[pod.uid] = pod
            self.enqueue((pod.uid,))

    def _drop(self, uid: str) -> None:
        self._producers.pop(uid, None)


def _seconds(text: Any) -> float:
    """Return a MicroTime as seconds since the epoch, 0 if it isn't one."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
