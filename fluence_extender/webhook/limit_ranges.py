"""The LimitRanges of namespaces, as admission needs them: read when a pod is given containers of ours."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fluence_extender.cluster.cached import Cached
from fluence_extender.cluster.port import ClusterError, Objects
from fluence_extender.webhook.bounds import read_bounds
from fluence_extender.webhook.contract import Bounds

log = structlog.get_logger(__name__)

FRESH = 1.0
"""Seconds for which what was read is believed: a namespace's pods come in bursts."""


class ApiLimitRanges:
    """Asks the API server; ``clock`` gives seconds."""

    def __init__(self, objects: Objects, clock: Callable[[], float]) -> None:
        self._objects = objects
        self._known = Cached(self._find, clock)

    async def bounds(self, namespace: str) -> Bounds:
        """What containers in ``namespace`` are bound to; nothing where that can't be found out."""
        return await self._known.of(namespace)

    async def _find(self, namespace: str) -> tuple[Bounds, float]:
        try:
            found = await self._objects.read(f"/api/v1/namespaces/{namespace}/limitranges")
        except ClusterError as error:
            log.warning("LimitRanges can't be read", namespace=namespace, problem=str(error))
            found = None
        return read_bounds((found or {}).get("items") or ()), FRESH
