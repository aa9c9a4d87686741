"""Where preemptors go once their victims are gone, and which nodes other gangs have to avoid for that.

A preemptor's nodes are held for it. But required anti-affinity may reach beyond a node: a pod that is placed elsewhere
in the zone may keep the preemptor from its nodes, and would have to be evicted, too. If it came back each time, the
preemptor would evict it again and again.
"""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.model.pod import Pod, PodTerm
from fluence_extender.room.kept_apart import NO_NODES, KeptApart


class AwaitedPlaces:
    """The places for which the pods ``waiting`` wait, each with its node."""

    def __init__(self, kept_apart: KeptApart, waiting: Iterable[tuple[Pod, str]]) -> None:
        self._kept_apart = kept_apart
        self._waiting = list(waiting)
        self._of_waiting: dict[PodTerm, set[str]] = {}
        for pod, node in self._waiting:
            for term in pod.apart:
                self._of_waiting.setdefault(term, set()).add(node)
        self._of_others: dict[PodTerm, set[str]] = {}

    def kept_from(self, pod: Pod) -> frozenset[str]:
        """Return the nodes on which a pod and one that waits would exclude each other by anti-affinity."""
        found = NO_NODES
        for term, nodes in self._of_waiting.items():
            if self._kept_apart.selects(term, pod):
                found |= self._kept_apart.around(term.key, nodes)
        for term in pod.apart:
            if term not in self._of_others:
                counts = self._kept_apart.counts
                self._of_others[term] = {node for other, node in self._waiting if counts(term, other)}
            found |= self._kept_apart.around(term.key, self._of_others[term])
        return found
