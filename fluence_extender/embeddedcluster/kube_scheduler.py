"""A small kube-scheduler: it tries pods one by one, asks its extenders, and binds in the background.

The rules that matter to an extender are kube-scheduler's. Gated pods aren't tried. The nominated node is tried alone
first. Nominated pods count as sitting on their node. Extenders are asked only about nodes that pass its own filters. A
failed attempt clears the nomination and backs off. A pod that is being bound is assumed on its node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Sink
from fluence_extender.model.names import SCHEDULER_NAME
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import CPU, MEMORY, Resources
from fluence_extender.placement.eligibility import refusal
from fluence_extender.room.holdings import ports_clash

FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 5.0
"""Seconds, as in the configuration that we generate for kube-scheduler (podMaxBackoffSeconds)."""
NEVER = float("inf")
EXTENDER_WEIGHT = 10
"""What one point of an extender's score is worth (kube-scheduler: MaxNodeScore / MaxExtenderPriority)."""


class ExtenderFailed(Exception):
    """An extender answered with an error, or didn't answer; the attempt is repeated."""


class ScheduledCluster(Protocol):
    """What a scheduler needs of the API server."""

    def pods(self) -> Sequence[Pod]:
        """Return all pods."""
        ...

    def nodes(self) -> Sequence[Node]:
        """Return all nodes."""
        ...

    def put(self, one: Pod) -> None:
        """Write a pod's status."""
        ...

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """Bind the pod. Raise `ClusterError`."""
        ...

    def watch(self, sink: Sink) -> None:
        """Send ``sink`` every change."""
        ...


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that passed all extenders, and why others didn't."""

    nodes: tuple[str, ...]
    refusal: str = ""


class Extenders:
    """The extenders of one scheduler; these here are none."""

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> Filtered:
        """Return which of ``nodes`` the pod may have. Raise `ExtenderFailed`."""
        return Filtered(tuple(nodes))

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> Mapping[str, int]:
        """Return the scores of ``nodes``, 0 to 10."""
        return {}

    @property
    def binds(self) -> bool:
        """Whether an extender binds pods."""
        return False

    async def bind(self, pod: Pod, node: str) -> None:
        """Let that extender bind the pod. Raise `ExtenderFailed`."""
        raise ExtenderFailed("no extender binds pods")


class KubeScheduler:
    """Schedules the pods of ``cluster`` whose schedulerName is ``name``; ``run`` it as a task.

    ``attempts`` counts tries. ``longest_backoff`` is in seconds.
    """

    def __init__(
        self,
        cluster: ScheduledCluster,
        extenders: Extenders,
        name: str = SCHEDULER_NAME,
        longest_backoff: float = LONGEST_BACKOFF,
    ) -> None:
        self.cluster = cluster
        self.attempts = 0
        self._extenders = extenders
        self._name = name
        self._longest_backoff = longest_backoff
        self._assumed: dict[str, str] = {}
        self._backoff: dict[str, tuple[float, float, str]] = {}
        self._binds: set[asyncio.Task[None]] = set()
        self._seen = asyncio.Event()
        cluster.watch(lambda _: self._seen.set())

    async def run(self) -> None:
        """Try pods until cancelled."""
        while True:
            self._seen.clear()
            for pod in sorted(self.cluster.pods(), key=lambda one: (-one.priority, one.created, one.uid)):
                if self._active(pod):
                    await self._attempt(pod)
            now = asyncio.get_running_loop().time()
            waits = [until for until, _, _ in self._backoff.values() if now < until < NEVER]
            next_try = min(waits, default=None)
            try:
                async with asyncio.timeout_at(next_try):
                    await self._seen.wait()
                await asyncio.sleep(0.02)
            except TimeoutError:
                continue

    @property
    def binding(self) -> bool:
        """Whether a binding is under way."""
        return bool(self._binds)

    def _active(self, pod: Pod) -> bool:
        mine = pod.scheduler == self._name
        if not mine or pod.gates or pod.node or pod.deleting or pod.finished or pod.uid in self._assumed:
            return False
        until, _, nominated = self._backoff.get(pod.uid, (0.0, 0.0, ""))
        woken = pod.nominated not in ("", nominated) and until != NEVER
        return woken or asyncio.get_running_loop().time() >= until

    async def _attempt(self, pod: Pod) -> None:
        self.attempts += 1
        node = await self._choose(pod, self._feasible(pod))
        if node:
            self._assumed[pod.uid] = node
            task = asyncio.create_task(self._bind(self._binding(pod, node), pod, node))
            self._binds.add(task)
            task.add_done_callback(self._binds.discard)
        else:
            self._failed(pod)

    async def _choose(self, pod: Pod, feasible: Sequence[str]) -> str:
        """Return the node for the pod, "" if there is none now; then the reason is in its condition."""
        if not feasible:
            count = len(self.cluster.nodes())
            self._report(pod, refusal=f"0/{count} nodes are available.")
            return ""
        try:
            if pod.nominated in feasible and (await self._extenders.filter(pod, (pod.nominated,))).nodes:
                return pod.nominated
            passed = await self._extenders.filter(pod, feasible)
            if len(passed.nodes) < 2:
                self._report(pod, refusal=passed.refusal)
                return "".join(passed.nodes)
            scores = await self._extenders.prioritize(pod, passed.nodes)
        except ExtenderFailed as failure:
            self._report(pod, failure=str(failure))
            return ""
        return max(
            passed.nodes, key=lambda node: EXTENDER_WEIGHT * scores.get(node, 0) + self._idleness(node)
        )

    def _idleness(self, name: str) -> float:
        """Return the free share of a node's CPU and memory, 0 to 100 (kube-scheduler: LeastAllocated)."""
        node = next(one for one in self.cluster.nodes() if one.name == name)
        used = Resources.total(one.requests for one in self._pods_on(node, None))
        shares = [1 - used[kind] / have for kind in (CPU, MEMORY) if (have := node.allocatable[kind])]
        return 100 * sum(shares) / max(len(shares), 1)

    def _feasible(self, pod: Pod) -> list[str]:
        nodes = self.cluster.nodes()
        return [node.name for node in nodes if refusal(pod, node) is None and self._has_room(node, pod)]

    def _has_room(self, node: Node, pod: Pod) -> bool:
        """Return whether the pod fits beside what is bound, assumed or nominated there."""
        others = list(self._pods_on(node, pod))
        used = Resources.total(one.requests for one in others)
        ports = [port for one in others for port in one.host_ports]
        return pod.requests.fits(node.allocatable - used) and not ports_clash(pod.host_ports, ports)

    def _pods_on(self, node: Node, pod: Pod | None) -> Iterator[Pod]:
        """Yield the other pods that count on the node; nominated ones count for ``pod`` if they go before it."""
        for one in self.cluster.pods():
            if one.finished or (pod is not None and one.uid == pod.uid):
                continue
            before = pod is not None and one.priority >= pod.priority and not one.deleting
            nominated = one.nominated if before else ""
            if (one.node or self._assumed.get(one.uid) or nominated) == node.name:
                yield one

    def _binding(self, pod: Pod, node: str) -> Coroutine[None, None, None]:
        if self._extenders.binds:
            return self._extenders.bind(pod, node)
        return self.cluster.bind(pod, node, {})

    async def _bind(self, binding: Coroutine[None, None, None], pod: Pod, node: str) -> None:
        try:
            await binding
        except (ExtenderFailed, ClusterError) as failure:
            self._report(pod, failure=str(failure))
            self._failed(pod)
        finally:
            self._assumed.pop(pod.uid, None)

    def _report(self, pod: Pod, refusal: str = "", failure: str = "") -> None:
        """Write into the pod's condition why the attempt failed."""
        now = self._now(pod)
        if now is not None and not now.node and (now.refusal, now.failure) != (refusal, failure):
            self.cluster.put(replace(now, refusal=refusal, failure=failure))

    def _failed(self, pod: Pod) -> None:
        now = asyncio.get_running_loop().time()
        _, last, _ = self._backoff.get(pod.uid, (0.0, FIRST_BACKOFF / 2, ""))
        wait = min(2 * last, self._longest_backoff)
        self._backoff[pod.uid] = (now + wait, wait, pod.nominated)
        self._seen.set()
        current = self._now(pod)
        if current is not None and current.nominated and not current.node:
            self.cluster.put(replace(current, nominated=""))

    def _now(self, pod: Pod) -> Pod | None:
        return next((one for one in self.cluster.pods() if one.uid == pod.uid), None)
