"""The embedded kube-scheduler with the service behind it, faults on purpose, and a judge of what it binds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace

from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.cluster.errors import ClusterError
from fluence_extender.embeddedcluster.kube_scheduler import NEVER, Extenders, KubeScheduler
from fluence_extender.http.scheduler.port import BindRefused, Nowhere, On, RequestedPod, Undecided
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from tests.core.faulty_cluster import FaultyCluster
from tests.core.link import Link

LONGEST_BACKOFF = 4.0
"""Seconds. kube-scheduler's is 10, for a barrier that waits 20: it must be shorter than the tests' barrier waits."""
RULED_OUT = "node(s) didn't match pod affinity rules"


Rule = Callable[[Pod, str, Mapping[str, str]], bool]
"""Whether a filter lets a pod onto a node; the last argument are the nodes of the other pods by name."""


class FaultyScheduler(KubeScheduler):
    """``placements`` is the extender it calls; ``refusing`` says for how many attempts a node is refused yet.

    ``rules`` stand for in-tree filters that we don't judge, such as affinity between pods.

    Pods named in ``unclaimed`` are refused before any node is tried, until their claim appears.

    ``overcommitted`` lists the pods bound beyond their node's room, which their kubelet would refuse, unless
    the node is in ``disturbed``: somebody else changed it while the pod was being bound. ``premature`` lists those that
    were bound before as many members of their gang as make it whole had reached bind, or were bound, unless the gang is
    in ``begun_elsewhere``: somebody else bound a member, and the others are completed beside it one by one; ``came``
    has the members of each gang that have reached bind. Direct pods, which the service binds, are judged alike.
    """

    def __init__(self, cluster: FaultyCluster | Link) -> None:
        super().__init__(cluster, Extenders(), longest_backoff=LONGEST_BACKOFF)
        self.placements: LivePlacements | None = None
        self.refusing: dict[str, int] = {}
        self.rules: list[Rule] = []
        self.overcommitted: list[str] = []
        self.premature: list[str] = []
        self.begun_elsewhere: set[str] = set()
        self.came: dict[str, set[str]] = {}
        self.disturbed: set[str] = set()
        self.unclaimed: set[str] = set()

    def forget(self) -> None:
        """Cancel the bind calls under way, as when the extender's process ends."""
        for task in self._binds:
            task.cancel()

    def end(self) -> None:
        """Forget everything, as when kube-scheduler's process ends."""
        self.forget()
        self._assumed.clear()
        self._backoff.clear()

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
        fitting = set(super()._feasible(pod))
        return [
            node.name
            for node in self.cluster.nodes()
            if node.name in fitting and self.refusing.get(node.name, 0) <= 0 and self._allowed(pod, node)
        ]

    async def _attempt(self, pod: Pod) -> None:
        if pod.name in self.unclaimed:
            self.attempts += 1
            self._refuse_beforehand(pod)
        else:
            await super()._attempt(pod)

    async def _choose(self, pod: Pod, feasible: Sequence[str]) -> str:
        assert self.placements is not None
        asked = RequestedPod(pod.namespace, pod.name, pod.uid, pod.scheduler)
        if not self.placements.leading:
            await self.placements.wait_for_lead()
        await self.placements.wait_for_pod(asked)
        location = self.placements.locate(asked)
        if isinstance(location, On):
            if location.node in feasible:
                return location.node
            if not feasible and self.rules:
                count = len(self.cluster.nodes())
                self._report(pod, refusal=f"0/{count} nodes are available: {count} {RULED_OUT}.")
            self.refusing[location.node] = self.refusing.get(location.node, 1) - 1
            if len(feasible) > 1:
                self.placements.refused(asked, location.node)
        else:
            assert isinstance(location, (Nowhere, Undecided))
            assert location.reason
        return ""

    def _binding(self, pod: Pod, node: str) -> Coroutine[None, None, None]:
        assert self.placements is not None
        return self.placements.bind(RequestedPod(pod.namespace, pod.name, pod.uid, pod.scheduler), node)

    def judge(self, pod: Pod, node: str) -> None:
        """Look at a direct pod that was bound."""
        self._admit(pod, node)
        if not self._come(pod):
            self.premature.append(pod.key)

    async def _bind(self, binding: Coroutine[None, None, None], pod: Pod, node: str) -> None:
        self._come(pod)
        try:
            await binding
            self._admit(pod, node)
            if not self._come(pod):
                self.premature.append(pod.key)
        except (BindRefused, ClusterError, asyncio.CancelledError) as error:
            # GangRefused, failed, or the connection is gone.
            self._report(pod, failure=str(error))
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
        # A direct one that is there when the first is bound counts from then on, whatever becomes of it.
        came.update(one.uid for one in members if one.direct)
        return len(came) >= int(size)

    def _admit(self, pod: Pod, name: str) -> None:
        there = next((node for node in self.cluster.nodes() if node.name == name), None)
        bound = [one for one in self.cluster.pods() if one.node == name and not one.finished]
        used = Resources.total(one.requests for one in bound)
        if there is not None and name not in self.disturbed and not used.fits(there.allocatable):
            self.overcommitted.append(f"{pod.key} on {name}")

    def _refuse_beforehand(self, pod: Pod) -> None:
        """The pod lacks a claim: no node is tried, nobody is asked, and only the claim's coming wakes it."""
        now = next((one for one in self.cluster.pods() if one.uid == pod.uid), None)
        if now is None:
            return
        self._backoff[pod.uid] = (NEVER, LONGEST_BACKOFF, "")
        refusal = f'persistentvolumeclaim "{pod.name}" not found'
        self.cluster.put(replace(now, nominated="", refusal=refusal, failure=""))

    def claim_appears(self, name: str) -> None:
        """Give a pod of ``unclaimed`` its claim."""
        self.unclaimed.discard(name)
        for pod in self.cluster.pods():
            if pod.name == name:
                self._backoff.pop(pod.uid, None)
        self._seen.set()
