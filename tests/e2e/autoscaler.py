"""A small cluster autoscaler with one group of equal nodes, by the rules that Cluster Autoscaler and Karpenter publish.

It counts pods whose condition PodScheduled is False for the reason Unschedulable, and that have no node. Karpenter
leaves out those that are nominated. Neither looks at gates. What fits on the nodes that are there needs no others. Our
mark is left out, as docs/operations.md has it set up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fluence_extender.localcluster.admission import amounts, effective_requests
from fluence_extender.model.names import MARK_RESOURCE
from tests.e2e.harness import Cluster, Manifest, node_of, phase_of
from tests.e2e.nodes import NodeFactory


def asks_for_nodes(pod: Manifest) -> bool:
    """Whether autoscalers add nodes for a pod."""
    conditions = pod["status"].get("conditions") or ()
    said = [(one["status"], one.get("reason")) for one in conditions if one["type"] == "PodScheduled"]
    waits = not node_of(pod) and not pod["status"].get("nominatedNodeName")
    return waits and "deletionTimestamp" not in pod["metadata"] and said == [("False", "Unschedulable")]


class Autoscaler:
    """Adds nodes of ``shape``, ``most`` at all and ``at_once`` in one step."""

    def __init__(
        self, cluster: Cluster, nodes: NodeFactory, most: int, at_once: int = 100, **shape: Any
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._most = most
        self._at_once = at_once
        self._shape = shape
        self.added: list[str] = []

    def step(self) -> list[str]:
        """Add the nodes that are lacking now; return all that were added so far."""
        new = min(self._lacking(), self._at_once, self._most - len(self.added))
        for _ in range(new):
            self.added += self._nodes(1, prefix="grown", **self._shape)
        return self.added

    def _lacking(self) -> int:
        """How many more nodes the pods that ask need, placed one after the other where they fit first."""
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
        for pod in filter(asks_for_nodes, pods):
            asked = effective_requests(pod["spec"]).items()
            wanted = {"pods": 1, **{name: amount for name, amount in asked if name != MARK_RESOURCE}}
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
