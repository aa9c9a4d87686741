"""A producer's claim lives as long as its pod: once the pod is there, it owns the Lease, and both go together."""

from __future__ import annotations

import asyncio

import structlog

from fluence_extender.cluster.pods_seen import follow_pods
from fluence_extender.cluster.port import ClusterError, Objects, Observation
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.claims import is_ours, lease_path

log = structlog.get_logger(__name__)

RETRY = 2.0
"""Seconds until what failed is tried again."""


class ClaimKeeper:
    """``take`` what is seen, ``run`` as a task."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._known: set[str] = set()
        self._waiting: asyncio.Queue[Pod] = asyncio.Queue()

    def take(self, seen: Observation) -> None:
        """Take note of producers that are new."""
        follow_pods(seen, self._known, self._look, self._known.discard)

    def _look(self, pod: Pod) -> None:
        if not pod.ours or pod.uid in self._known:
            return
        if pod.annotations.get(ROLE_ANNOTATION) == PRODUCER and pod.labels.get(GROUP_LABEL):
            self._known.add(pod.uid)
            self._waiting.put_nowait(pod)

    async def run(self) -> None:
        """Hand claims to their pods until cancelled."""
        while True:
            pod = await self._waiting.get()
            try:
                await self._hand_over(pod)
            except ClusterError as error:
                log.info("a claim isn't its pod's yet", pod=pod.key, problem=str(error))
                self._waiting.put_nowait(pod)
                await asyncio.sleep(RETRY)

    async def _hand_over(self, pod: Pod) -> None:
        path = lease_path(pod.namespace, pod.labels[GROUP_LABEL])
        lease = await self._objects.read(path)
        if lease is None or not is_ours(lease) or pod.uid not in self._known:
            # Producers with an index need no claim.
            return
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        metadata = lease.get("metadata") or {}
        if metadata.get("ownerReferences") != [reference]:
            metadata = {**metadata, "ownerReferences": [reference]}
            await self._objects.replace(path, {**lease, "metadata": metadata})
