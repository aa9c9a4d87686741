"""Nodes for one test: made on a local control plane, or picked from those a cluster has."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from fluence_extender.localcluster import ControlPlane
from fluence_extender.localcluster.admission import amounts, effective_requests
from fluence_extender.localcluster.nodes import is_ready


class NodeFactory(Protocol):
    """Takes what `ControlPlane.add_nodes` takes and gives the nodes' names; ``unseen`` nodes aren't waited for."""

    def __call__(self, count: int = 1, **shape: Any) -> list[str]: ...


@contextmanager
def local_nodes(plane: ControlPlane, known: Callable[[], None]) -> Iterator[NodeFactory]:
    """Makes nodes, waits by ``known`` until they are seen by whom it may concern, and deletes them at the end."""
    made: list[str] = []

    def make(count: int = 1, *, unseen: bool = False, **shape: Any) -> list[str]:
        shape.setdefault("prefix", f"n{uuid.uuid4().hex[:6]}")
        names = plane.add_nodes(count, **shape)
        made.extend(names)
        if not unseen:
            known()
        return names

    yield make
    plane.delete_node(*made)


def existing_nodes(nodes: Mapping[str, Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> NodeFactory:
    """Picks, among ``nodes``, those open to all pods with at least the asked room beside ``pods``; each once."""
    free = {
        name: (node["metadata"].get("labels") or {}, Counter(amounts(node["status"]["allocatable"])))
        for name, node in nodes.items()
        if is_ready(node) and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
    }
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in free and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            free[node][1].subtract({**effective_requests(pod["spec"]), "pods": 1})

    def pick(count: int = 1, **shape: Any) -> list[str]:
        asked = amounts({key: str(shape[key]) for key in ("cpu", "memory", "pods") if key in shape})
        asked |= shape.get("extended") or {}
        wanted = (shape.get("labels") or {}).items()
        fitting = [
            name
            for name, (labels, room) in free.items()
            if wanted <= labels.items() and all(room[key] >= amount for key, amount in asked.items())
        ]
        if len(fitting) < count or shape.get("taints") or shape.get("names"):
            pytest.fail(f"this test needs {count} nodes like {shape}; of that kind the cluster has {fitting}")
        for name in fitting[:count]:
            del free[name]
        return fitting[:count]

    return pick
