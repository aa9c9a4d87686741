"""Ask the API server what a pod needs that neither the pod nor the watches say.

Exactly one of several equal pods is the producer (see `producers`). The sidecar's account must exist before its pod is
created (see `sidecar_account`). Only its owner says how many pods a Job has, and which index a StatefulSet begins with.
And containers of ours must fit the LimitRanges of the namespace.

Pods come in bursts, so an answer is believed for a moment. Invariants: a caller that asks about something while it is
being asked about waits for that answer; callers that ask about different things don't wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import structlog

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Objects
from fluence_extender.webhook.contract import Json, OwnedPods
from fluence_extender.webhook.limit_ranges import Bounds, read_bounds
from fluence_extender.webhook.producers import ProducerRecords
from fluence_extender.webhook.sidecar_account import make_account

log = structlog.get_logger(__name__)

FRESH = 1.0
"""Seconds for which an owner or a LimitRange is believed."""
ACCOUNT_FRESH = 60.0
"""Seconds for which the account of sidecars is believed to exist."""
ACCOUNT_RETRY = 5.0
"""Seconds until an account that couldn't be made is tried again: admissions wait for it."""
MOST_ANSWERS = 1000
"""Answers that are kept; beyond that all of them are forgotten."""
OWNERS = {"Job": "batch/v1", "StatefulSet": "apps/v1"}

T = TypeVar("T")


class Cached(Generic[T]):
    """Answers to keys; ``find`` returns an answer and for how many seconds of ``clock`` to believe it."""

    def __init__(self, find: Callable[[str], Awaitable[tuple[T, float]]], clock: Callable[[], float]) -> None:
        self._find = find
        self._clock = clock
        self._known: dict[str, tuple[T, float]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def get(self, key: str) -> T:
        """Return the answer for ``key``. Raises what ``find`` raises, and then remembers nothing."""
        async with self._turns.setdefault(key, asyncio.Lock()):
            known = self._known.get(key)
            if known is not None and self._clock() < known[1]:
                return known[0]
            answer, seconds = await self._find(key)
            if len(self._known) >= MOST_ANSWERS:
                self._known.clear()
                self._turns = {one: turn for one, turn in self._turns.items() if turn.locked()}
            self._known[key] = answer, self._clock() + seconds
            return answer


class ApiLookups:
    """`admission.Lookups` on an API server; ``clock`` counts seconds, ``now`` returns seconds since the epoch."""

    def __init__(self, objects: Objects, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self._objects = objects
        self._producers = ProducerRecords(objects, now)
        self._accounts = Cached(self._make_account, clock)
        self._bounds = Cached(self._read_bounds, clock)
        self._owned = Cached(self._read_owner, clock)

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        """Return whether the request ``uid`` is the producer of ``group``. Raises `ProducerUnknown`."""
        return await self._producers.is_producer(namespace, group, uid)

    async def has_account(self, namespace: str) -> bool:
        """Return whether the sidecar's account exists with its rights, after making it if it doesn't."""
        return await self._accounts.get(namespace)

    async def bounds(self, namespace: str) -> Bounds:
        """Return what the LimitRanges of ``namespace`` allow containers; no bounds if they can't be read."""
        return await self._bounds.get(namespace)

    async def owned(self, namespace: str, kind: str, name: str) -> OwnedPods | None:
        """Return which pods a Job or StatefulSet wants, None if it can't be read."""
        path = f"/apis/{OWNERS[kind]}/namespaces/{namespace}/{kind.lower()}s/{name}"
        spec = await self._owned.get(path)
        return None if spec is None else owned_pods(kind, spec)

    async def _make_account(self, namespace: str) -> tuple[bool, float]:
        try:
            await make_account(self._objects, namespace)
        except ClusterError as error:
            log.warning("the account of sidecars can't be made", namespace=namespace, problem=str(error))
            return False, ACCOUNT_RETRY
        return True, ACCOUNT_FRESH

    async def _read_bounds(self, namespace: str) -> tuple[Bounds, float]:
        try:
            found = await self._objects.read(f"/api/v1/namespaces/{namespace}/limitranges")
        except ClusterError as error:
            log.warning("LimitRanges can't be read", namespace=namespace, problem=str(error))
            found = None
        return read_bounds((found or {}).get("items") or ()), FRESH

    async def _read_owner(self, path: str) -> tuple[Json | None, float]:
        """Return the owner's spec, None if there is no such owner or it can't be read."""
        try:
            found = await self._objects.read(path)
        except ClusterError as error:
            log.warning("the owner of a pod can't be read", owner=path, problem=str(error))
            return None, 0.0
        return (None if found is None else found.get("spec") or {}), FRESH


def owned_pods(kind: str, spec: Json) -> OwnedPods:
    """Return the pods that an owner's spec asks for. Only a StatefulSet may begin with another index (KEP-3335)."""
    first = _integer((spec.get("ordinals") or {}).get("start"), 0) if kind == "StatefulSet" else 0
    parallelism = _integer(spec.get("parallelism"), 1)
    return OwnedPods(min(parallelism, _integer(spec.get("completions"), parallelism)), first)


def _integer(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default
