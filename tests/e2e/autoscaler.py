"""A small cluster autoscaler with one group of equal nodes, by the rules that Cluster Autoscaler and Karpenter publish.

It counts the pods whose condition PodScheduled is False for the reason Unschedulable and that have no node. Karpenter
leaves out those that are nominated. Neither looks at gates. What fits on the nodes that are there needs no others. Our
mark is left out of pods, as docs/operations.md has it set up.

It removes nodes of its own on which nothing runs, unless an annotation forbids it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fluence_extender.model.names import KEEPING
from tests.e2e.harness import Cluster, Manifest, annotations_of, node_of, phase_of
from tests.e2e.kubelet_admission import amounts, effective_requests
from tests.e2e.nodes import NodeFactory
from tests.localcluster.nodes import delete_nodes


def asks_for_nodes(pod: Manifest) -> bool:
    """Whether autoscalers add nodes for a pod."""
    conditions = pod["status"].get("conditions") or ()
    said = [(one["status"], one.get("reason")) for one in conditions if one["type"] == "PodScheduled"]
    waits = not node_of(pod) and not pod["status"].get("nominatedNodeName")
    return waits and "deletionTimestamp" not in pod["metadata"] and said == [("False", "Unschedulable")]


class Autoscaler:
    """Adds nodes of ``shape``, ``most`` at all and ``at_once`` in one step."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: NodeFactory,
        most: int,
        at_once: int = 100,
        **shape: Any,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._most = most
        self._at_once = at_once
        self._shape = shape
        self.added: list[str] = []

    def step(self) -> list[str]:
        """Add the nodes that are lacking now; return all that were added so far."""
        asked = [effective_requests(one["spec"]) for one in self._cluster.pods() if asks_for_nodes(one)]
        for _ in range(min(self._lacking(asked), self._at_once, self._most - len(self.added))):
            self.added += self._nodes(1, prefix="grown", **self._shape)
        return self.added

    def remove_empty(self) -> list[str]:
        """Remove its empty nodes, unless an annotation forbids it; return those that are left."""
        used = {node_of(one) for one in self._cluster.pods()}
        nodes = self._cluster.nodes()
        for name in [one for one in self.added if one not in used]:
            if all(annotations_of(nodes[name]).get(key) != "true" for key in KEEPING):
                delete_nodes(self._cluster.api, [name])
                self.added.remove(name)
        return self.added

    def _lacking(self, asked: Iterable[Mapping[str, int]]) -> int:
        """How many more nodes these pods need, placed where they fit first, those with the most cores before others."""
        pods = [one for one in self._cluster.pods() if phase_of(one) not in ("Succeeded", "Failed")]
        free = {
            name: Counter(amounts(node["status"]["allocatable"]))
            for name, node in self._cluster.nodes().items()
        }
        for pod in pods:
            if node_of(pod) in free:
                free[node_of(pod)].subtract({**effective_requests(pod["spec"]), "pods": 1})
        there = list(free.values())
        lacking = 0
        for requests in sorted(asked, key=lambda one: -one.get("cpu", 0)):
            wanted = {"pods": 1, **requests}
            if not _put(wanted, there):
                added = Counter(amounts({"pods": "110", "memory": "32Gi", **self._shape}))
                if _put(wanted, [added]):
                    there.append(added)
                    lacking += 1
        return lacking


def _put(wanted: Mapping[str, int], nodes: Iterable[Counter[str]]) -> bool:
    """Take ``wanted`` from the first node that has it; return whether one has."""
    for free in nodes:
        if all(free[name] >= amount for name, amount in wanted.items()):
            free.subtract(wanted)
            return True
    return False
