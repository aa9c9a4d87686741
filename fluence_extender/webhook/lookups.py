"""Ask the API server for facts about a pod that neither the pod nor the watches have.

Exactly one of several equal pods is the producer (see `producers`). Only the owner states how many pods a Job has, or
with which index a StatefulSet begins. And containers of ours must fit into the LimitRanges of the namespace.

Invariants: an answer counts only for a moment. A name becomes part of a path only if it is a valid object name, because
a review may not come from the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Objects
from fluence_extender.http.listeners.brief_cache import BriefCache
from fluence_extender.model.syntax import is_object_name
from fluence_extender.webhook.contract import Json, OwnedPods
from fluence_extender.webhook.limit_ranges import Bounds, read_bounds
from fluence_extender.webhook.producers import MOST_ANSWERS, ProducerClaims

log = structlog.get_logger(__name__)

FRESH = 1.0
"""Seconds for which the answer about an owner or a LimitRange counts."""
OWNERS = {"Job": "batch/v1", "StatefulSet": "apps/v1"}


class ApiLookups:
    """`admission.Lookups` on an API server; ``clock`` counts seconds."""

    def __init__(self, objects: Objects, producers: ProducerClaims, clock: Callable[[], float]) -> None:
        self._objects = objects
        self._producers = producers
        self._bounds: BriefCache[str, Bounds] = BriefCache(FRESH, MOST_ANSWERS, clock)
        self._specs: BriefCache[str, Json | None] = BriefCache(FRESH, MOST_ANSWERS, clock)

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        """Return whether the request ``uid`` is to create the producer of ``group``. Raises `ProducerUnknown`."""
        return await self._producers.is_producer(namespace, group, uid)

    async def bounds(self, namespace: str) -> Bounds:
        """Return the bounds that the LimitRanges of ``namespace`` set; none if they can't be read."""
        return await self._bounds.get(namespace, lambda: self._read_bounds(namespace))

    async def owned(self, namespace: str, kind: str, name: str) -> OwnedPods | None:
        """Return which pods a Job or StatefulSet wants, None if it can't be read."""
        if not is_object_name(name):
            return None
        path = f"/apis/{OWNERS[kind]}/namespaces/{namespace}/{kind.lower()}s/{name}"
        try:
            spec = await self._specs.get(path, lambda: self._read_spec(path))
        except ClusterError:
            return None
        return None if spec is None else owned_pods(kind, spec)

    async def _read_bounds(self, namespace: str) -> Bounds:
        try:
            found = await self._objects.read(f"/api/v1/namespaces/{namespace}/limitranges")
        except ClusterError as error:
            log.warning("LimitRanges can't be read", namespace=namespace, problem=str(error))
            found = None
        return read_bounds((found or {}).get("items") or ())

    async def _read_spec(self, path: str) -> Json | None:
        """Return an owner's spec, None if there is no such owner. Raises `ClusterError` if it can't be read."""
        try:
            found = await self._objects.read(path)
        except ClusterError as error:
            log.warning("the owner of a pod can't be read", owner=path, problem=str(error))
            raise
        return None if found is None else found.get("spec") or {}


def owned_pods(kind: str, spec: Json) -> OwnedPods:
    """Return the pods that an owner's spec asks for. Only a StatefulSet may begin with another index (KEP-3335)."""
    first = _integer((spec.get("ordinals") or {}).get("start"), 0) if kind == "StatefulSet" else 0
    parallelism = _integer(spec.get("parallelism"), 1)
    return OwnedPods(min(parallelism, _integer(spec.get("completions"), parallelism)), first)


def _integer(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default
