"""Nodes whose kubelets have rejected a pod are left out for the pods that replace it.

A kubelet may refuse what fits by the sums, for example where no NUMA node has all devices. The controller replaces the
pod at once. On the same node it would be rejected again, until its Job has failed.

Invariant: what is kept is bounded, and a pod without a controller has no replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fluence_extender.model.pod import Pod

LEFT_OUT, LONGEST = 600.0, 3600.0
"""Seconds for which a node is left out after its first rejection of an owner's pods; twice as long after each other."""

MOST_OWNERS, MOST_NODES = 1000, 1000
"""The most owners that are remembered, and the most nodes of one."""


def rejected_now(pod: Pod, before: Pod | None) -> bool:
    """Return whether the pod's kubelet has rejected it since ``before``. A pod that has run isn't rejected any more."""
    return pod.rejected and (before is None or not (before.finished or before.phase == "Running"))


@dataclass(frozen=True, slots=True)
class _LeftOut:
    until: float
    wait: float


class Rejections:
    """The nodes that are left out for the pods of an owner."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nodes: dict[str, dict[str, _LeftOut]] = {}

    def note(self, pod: Pod) -> None:
        """Take in that the kubelet of its node has rejected the pod."""
        if pod.owner is None or not pod.node:
            return
        nodes = self._nodes.pop(pod.owner.uid, {})
        self._nodes[pod.owner.uid] = nodes
        before = nodes.pop(pod.node, None)
        wait = LEFT_OUT if before is None else min(before.wait * 2, LONGEST)
        nodes[pod.node] = _LeftOut(self._clock() + wait, wait)
        if len(nodes) > MOST_NODES:
            del nodes[next(iter(nodes))]
        if len(self._nodes) > MOST_OWNERS:
            del self._nodes[next(iter(self._nodes))]

    def left_out(self, pod: Pod) -> Mapping[str, float]:
        """Return the nodes that are left out for a new pod, each with the time until then."""
        nodes = self._nodes.get(pod.owner.uid, {}) if pod.owner is not None else {}
        now = self._clock()
        return {node: one.until for node, one in nodes.items() if one.until > now}
