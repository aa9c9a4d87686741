"""Choose the producer of a shared group whose pods are all equal: the first pod that is admitted.

A pod's role decides its containers, so it must be known before the pod exists. Once the producer exists, it shows that
its group has one, until it has ended or is terminating. Before, a claim says which request is about to create the
producer. All claims are in one ConfigMap of the webhook's own namespace, so the API server decides which of two
replicas comes first. A request that finds another request's claim waits for that pod. If the pod doesn't come (another
admission refused it, or the request wasn't genuine), the next request takes the claim over.

Invariants: a group has one producer even if several replicas admit its pods at once, because a claim is written with
the version that was read. Requests leave nothing behind: the number of claims is fixed, and each counts only for
seconds. A pod that waits too long is made the producer, with a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.cluster.port import Objects
from fluence_extender.http.listeners.brief_cache import BriefCache
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION, producer_group
from fluence_extender.model.names import CREATED_BY_ANNOTATION, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.pod import ENDED
from fluence_extender.webhook.contract import Json, ProducerUnknown

log = structlog.get_logger(__name__)

CLAIMS = "fluence-webhook-claims"
"""The ConfigMap. Its keys are namespace and group, its values the request and the time of the claim."""
MOST_CLAIMS = 1000
ARRIVES_WITHIN = 5.0
"""Seconds after which the pod of a claim is in the API server's lists, or won't come."""
PATIENCE = 8.0
"""The most seconds that a request waits. The API server waits `registration.DEVICES_TIMEOUT` for the answer."""
LOOK_EVERY = 0.2
"""Seconds between two looks for the pod of another request's claim."""
MOST_ANSWERS = 1000
"""The most answers of the API server that are cached, for each kind of question."""
FRESH = 0.1
"""Seconds for which a list of pods counts, because many equal pods come at once."""
TRIES = 5
"""The number of tries to write claims that another replica changes at the same time."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The request ``uid`` is about to create a producer; ``at`` is when it began, in seconds since the epoch."""

    uid: str
    at: float

    def counts(self, now: float) -> bool:
        """Return whether the claim's pod may still come."""
        return now - self.at < ARRIVES_WITHIN


class ProducerClaims:
    """The claims in the ConfigMap of ``own_namespace``; ``now`` returns seconds since the epoch."""

    def __init__(
        self,
        objects: Objects,
        own_namespace: str,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._objects = objects
        self._own_namespace = own_namespace
        self._path = f"/api/v1/namespaces/{own_namespace}/configmaps/{CLAIMS}"
        self._now = now
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._alive: BriefCache[str, bool] = BriefCache(FRESH, MOST_ANSWERS, now)

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        """Return whether the request ``uid`` is to create the producer of ``group``. Raises `ProducerUnknown`."""
        pods = _pods_path(namespace, producer_group(group))
        until = self._now() + PATIENCE
        try:
            while self._now() < until:
                if await self._alive.get(pods, lambda: self._has_live_producer(pods)):
                    return False
                if await self._claim(f"{namespace}.{group}", uid) == uid:
                    # The pod of a claim that has just become void may have come at the last moment.
                    return not await self._has_live_producer(pods)
                await self._sleep(LOOK_EVERY)
        except ClusterError as error:
            log.warning("a producer can't be chosen", group=f"{namespace}/{group}", problem=str(error))
            raise ProducerUnknown(str(error)) from error
        raise ProducerUnknown("other pods claim to be its producer and don't come")

    async def _claim(self, key: str, uid: str) -> str:
        """Return the request whose claim counts, after a new claim if there was none; "" if other writes always win."""
        async with self._turn:
            for _ in range(TRIES):
                stored = await self._objects.read(self._path)
                now, claims = self._now(), read_claims((stored or {}).get("data") or {})
                if (known := claims.get(key)) is not None and known.counts(now):
                    return known.uid
                try:
                    await self._write(stored, with_claim(claims, key, Claim(uid, now)))
                except Conflict:
                    continue
                return uid
        return ""

    async def _write(self, stored: Json | None, data: dict[str, str]) -> None:
        if stored is not None:
            await self._objects.replace(self._path, {**stored, "data": data})
            return
        metadata = {
            "name": CLAIMS,
            "namespace": self._own_namespace,
            "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
        }
        try:
            await self._objects.create(
                self._path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )
        except Denied as error:
            raise Denied(f"{error}. `kubectl apply -k deploy/webhook` makes the ConfigMap", 403) from error

    async def _has_live_producer(self, pods: str) -> bool:
        """Return whether the group has a producer that has neither ended nor is terminating."""
        found = await self._objects.read(pods) or {}
        return any(
            (pod["metadata"].get("annotations") or {}).get(ROLE_ANNOTATION) == PRODUCER
            and (pod.get("status") or {}).get("phase") not in ENDED
            and "deletionTimestamp" not in pod["metadata"]
            for pod in found.get("items") or []
        )


def read_claims(data: Mapping[str, str]) -> dict[str, Claim]:
    """Return the claims in the ``data`` of the ConfigMap, by key. What can't be read is left out."""
    found = {}
    for key, value in data.items():
        uid, _, at = value.partition(" ")
        try:
            found[key] = Claim(uid, float(at))
        except ValueError:
            continue
    return found


def with_claim(claims: Mapping[str, Claim], key: str, claim: Claim) -> dict[str, str]:
    """Return the data with ``claim`` and those of the others that count; the newest ones if there are too many."""
    counting = [(name, one) for name, one in claims.items() if name != key and one.counts(claim.at)]
    newest = sorted(counting, key=lambda item: item[1].at)[-(MOST_CLAIMS - 1) :]
    return {name: f"{one.uid} {one.at:.3f}" for name, one in [*newest, (key, claim)]}


def _pods_path(namespace: str, group: str) -> str:
    """Return the path that lists the pods with the label of ``group``, whose characters need no escape."""
    return f"/api/v1/namespaces/{namespace}/pods?labelSelector={GROUP_LABEL.replace('/', '%2F')}%3D{group}"
