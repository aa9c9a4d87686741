"""A small kube-scheduler: it tries pods one by one, asks the extender, and binds in the background.

What matters here is kept: gated pods aren't tried; a nominated node is tried alone first; nominated pods count as
sitting on their node; a failed attempt clears the nomination and backs off; a pod being bound is assumed there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace

from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.cluster.errors import ClusterError
from fluence_extender.http.scheduler.port import BindRefused, Nowhere, On, RequestedPod, Undecided
from fluence_extender.ledger.accounts import ports_clash
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import refusal
from tests.core.faulty_cluster import FaultyCluster
from tests.core.link import Link

FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 4.0
"""Seconds. kube-scheduler's is 10, for a barrier that waits 20: it must be shorter than the tests' barrier waits."""
NEVER = float("inf")
RULED_OUT = "node(s) didn't match pod affinity rules"


Rule = Callable[[Pod, str, Mapping[str, str]], bool]
"""Whether a filter lets a pod onto a node; the last argument are the nodes of the other pods by name."""


class KubeScheduler:
    """``placements`` is the extender it calls; ``refusing`` says for how many attempts a node is refused yet.

    ``rules`` stand for in-tree filters that we don't judge, such as affinity between pods; ``attempts`` counts tries.

    Pods named in ``unclaimed`` are refused before any node is tried, until their claim appears.

    ``overcommitted`` lists the pods bound beyond their node's room, which their kubelet would refuse, unless
    the node is in ``disturbed``: somebody else changed it while the pod was being bound. ``premature`` lists those that
    were bound before as many members of their gang as make it whole had reached bind, or were bound, unless the gang is
    in ``begun_elsewhere``: somebody else bound a member, and the others are completed beside it one by one; ``came``
    has the members of each gang that have reached bind. With ``splits`` it binds unmarked pods itself; ``writes_take``
    are the seconds of such a Binding.
    """

    def __init__(self, cluster: FaultyCluster | Link) -> None:
        self.cluster = cluster
        self.placements: LivePlacements | None = None
        self.refusing: dict[str, int] = {}
        self.rules: list[Rule] = []
        self.attempts = 0
        self.overcommitted: list[str] = []
        self.premature: list[str] = []
        self.begun_elsewhere: set[str] = set()
        self.came: dict[str, set[str]] = {}
        self.splits = True
        self.writes_take = 0.01
        self.disturbed: set[str] = set()
        self.unclaimed: set[str] = set()
        self._assumed: dict[str, str] = {}
        self._backoff: dict[str, tuple[float, float, str]] = {}
        self._binds: set[asyncio.Task[None]] = set()
        self._own_binds: set[asyncio.Task[None]] = set()
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
        """Whether a bind call is under way."""
        return bool(self._binds or self._own_binds)

    def forget(self) -> None:
        """Cancel the bind calls under way, as when the extender's process ends."""
        for task in self._binds:
            task.cancel()

    def end(self) -> None:
        """Forget everything, as when kube-scheduler's process ends."""
        self.forget()
        for task in self._own_binds:
            task.cancel()
        self._assumed.clear()
        self._backoff.clear()

    def _active(self, pod: Pod) -> bool:
        if not pod.ours or pod.gates or pod.node or pod.deleting or pod.finished or pod.uid in self._assumed:
            return False
        until, _, nominated = self._backoff.get(pod.uid, (0.0, 0.0, ""))
        woken = pod.nominated not in ("", nominated) and until != NEVER
        return woken or asyncio.get_running_loop().time() >= until

    def room(self, node: Node, pod: Pod) -> bool:
        """Whether the pod fits beside what is bound, assumed or nominated there."""
        others = list(self._there(node, pod))
        used = Resources.total(one.requests for one in others)
        ports = [port for one in others for port in one.host_ports]
        return pod.requests.fits(node.allocatable - used) and not ports_clash(pod.host_ports, ports)

    def _there(self, node: Node, pod: Pod) -> Iterator[Pod]:
        for one in self.cluster.pods():
            if one.uid == pod.uid or one.finished:
                continue
            nominated = one.nominated if one.priority >= pod.priority and not one.deleting else ""
            if (one.node or self._assumed.get(one.uid) or nominated) == node.name:
                yield one

    def _allowed(self, pod: Pod, node: Node) -> bool:
        """Whether the rules let the pod onto the node, given who is bound or assumed where."""
        if not self.rules:
            return True
        placed = {
            one.name: where
            for one in self.cluster.pods()
            if one.uid != pod.uid and (where := one.node or self._assumed.get(one.uid))
        }
        return all(rule(pod, node.name, placed) for rule in self.rules)

    def _feasible(self, pod: Pod) -> list[str]:
        found = []
        for node in self.cluster.nodes():
            if refusal(pod, node) is not None or not self.room(node, pod):
                continue
            if self.refusing.get(node.name, 0) > 0 or not self._allowed(pod, node):
                continue
            found.append(node.name)
        return found

    async def _attempt(self, pod: Pod) -> None:
        assert self.placements is not None
        self.attempts += 1
        if pod.name in self.unclaimed:
            self._refuse_beforehand(pod)
            return
        asked = RequestedPod(pod.namespace, pod.name, pod.uid, pod.scheduler)
        feasible = self._feasible(pod)
        if pod.confined_to and not feasible:
            self._refuse_unasked(pod)
            return
        if not self.placements.leading:
            await self.placements.wait_for_lead()
        location = self.placements.locate(asked)
        if isinstance(location, On):
            if location.node in feasible:
                self._begin_to_bind(self.placements, asked, pod, location.node)
                return
            if not feasible and self.rules:
                count = len(self.cluster.nodes())
                self._say(pod, refusal=f"0/{count} nodes are available: {count} {RULED_OUT}.")
            self.refusing[location.node] = self.refusing.get(location.node, 1) - 1
            if len(feasible) > 1 or location.confined:
                self.placements.refused(asked, location.node)
        else:
            assert isinstance(location, (Nowhere, Undecided))
            assert location.reason
        self._failed(pod)

    def _begin_to_bind(self, placements: LivePlacements, asked: RequestedPod, pod: Pod, node: str) -> None:
        own = self.splits and not pod.marked
        if own and not isinstance(placements.hand_over(asked, node), On):
            self._failed(pod)
            return
        self._assumed[pod.uid] = node
        binding = self._bind_itself(pod, node) if own else placements.bind(asked, node)
        task = asyncio.create_task(self._bind(binding, pod, node))
        tasks = self._own_binds if own else self._binds
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _bind_itself(self, pod: Pod, node: str) -> None:
        await asyncio.sleep(self.writes_take)
        await self.cluster.bind(pod, node, {})

    async def _bind(self, binding: Coroutine[None, None, None], pod: Pod, node: str) -> None:
        self._come(pod)
        try:
            await binding
            self._admit(pod, node)
            if not self._come(pod):
                self.premature.append(pod.key)
        except (BindRefused, ClusterError, asyncio.CancelledError) as error:
            # GangRefused, failed, or the connection is gone.
            self._say(pod, failure=str(error))
            self._failed(pod)
        finally:
            self._assumed.pop(pod.uid, None)

    def _come(self, pod: Pod) -> bool:
        """Note that the pod has reached bind; whether as many of its gang have as its size, if it names one itself."""
        name, size = pod.labels.get(GROUP_LABEL), pod.annotations.get(GROUP_SIZE_ANNOTATION)
        if name is None or size is None or name in self.begun_elsewhere:
            return True
        came = self.came.setdefault(name, set())
        came.add(pod.uid)
        members = [one for one in self.cluster.pods() if one.labels.get(GROUP_LABEL) == name]
        came.update(one.uid for one in members if one.node)
        together = self.splits or any(one.marked for one in members)
        # An unmarked one that is there when the first is bound counts from then on, whatever becomes of it.
        came.update(one.uid for one in members if together and not one.marked)
        return len(came) >= int(size)

    def _admit(self, pod: Pod, name: str) -> None:
        there = next((node for node in self.cluster.nodes() if node.name == name), None)
        bound = [one for one in self.cluster.pods() if one.node == name and not one.finished]
        used = Resources.total(one.requests for one in bound)
        if there is not None and name not in self.disturbed and not used.fits(there.allocatable):
            self.overcommitted.append(f"{pod.key} on {name}")

    def _refuse_beforehand(self, pod: Pod) -> None:
        """The pod lacks a claim: no node is tried, nobody is asked, and only the claim's coming wakes it."""
        now = next(one for one in self.cluster.pods() if one.uid == pod.uid)
        self._backoff[pod.uid] = (NEVER, LONGEST_BACKOFF, "")
        refusal = f'persistentvolumeclaim "{pod.name}" not found'
        self.cluster.put(replace(now, nominated="", refusal=refusal, failure=""))

    def _refuse_unasked(self, pod: Pod) -> None:
        """None of the nodes that the pod is confined to is left: extenders are asked only about those that are."""
        for name in pod.confined_to:
            self.refusing[name] = self.refusing.get(name, 1) - 1
        self._say(pod, refusal="0 nodes are available")
        self._failed(pod)

    def _say(self, pod: Pod, refusal: str = "", failure: str = "") -> None:
        """Write into the pod's condition why the attempt failed."""
        now = next((one for one in self.cluster.pods() if one.uid == pod.uid), None)
        if now is not None and not now.node:
            self.cluster.put(replace(now, refusal=refusal, failure=failure))

    def claim_appears(self, name: str) -> None:
        """Give a pod of ``unclaimed`` its claim."""
        self.unclaimed.discard(name)
        for pod in self.cluster.pods():
            if pod.name == name:
                self._backoff.pop(pod.uid, None)
        self._seen.set()

    def _failed(self, pod: Pod) -> None:
        now = asyncio.get_running_loop().time()
        _, last, _ = self._backoff.get(pod.uid, (0.0, FIRST_BACKOFF / 2, ""))
        wait = min(2 * last, LONGEST_BACKOFF)
        self._backoff[pod.uid] = (now + wait, wait, pod.nominated)
        self._seen.set()
        current = next((one for one in self.cluster.pods() if one.uid == pod.uid), None)
        if current is not None and current.nominated and not current.node:
            self.cluster.put(replace(current, nominated=""))
