"""Nodes for one test: made on a local control plane, or picked from those a cluster has, and filled if need be."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from tests.e2e.harness import Cluster, Manifest, Namespace, pod
from tests.e2e.kubelet_admission import Amounts, amounts, effective_requests
from tests.localcluster import ControlPlane
from tests.localcluster.nodes import is_ready


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


def existing_nodes(nodes: Mapping[str, Manifest], pods: Iterable[Manifest]) -> NodeFactory:
    """Picks, among ``nodes``, those open to all pods with at least the asked room beside ``pods``; each once."""
    free = _room(nodes, pods)

    def pick(count: int = 1, **shape: Any) -> list[str]:
        asked = amounts({key: str(shape[key]) for key in ("cpu", "memory", "pods") if key in shape})
        asked |= shape.get("extended") or {}
        wanted = (shape.get("labels") or {}).items()
        fitting = [
            name
            for name, room in free.items()
            if wanted <= (nodes[name]["metadata"].get("labels") or {}).items() and _has(room, asked)
        ]
        if len(fitting) < count or shape.get("taints") or shape.get("names"):
            pytest.fail(f"this test needs {count} nodes like {shape}; of that kind the cluster has {fitting}")
        for name in fitting[:count]:
            del free[name]
        return fitting[:count]

    return pick


class FilledNodes:
    """Picks nodes of a cluster, and fills all: those it gives have exactly the asked room, and no other has any.

    The pods that fill them are in the namespace ``filling``. A node keeps the memory that isn't asked about. Devices
    (``extended``) are added to the node, as an admin may do, until `close`.
    """

    def __init__(self, cluster: Cluster, filling: Namespace) -> None:
        self._cluster = cluster
        self._filling = filling
        self._free = _room(cluster.nodes(), cluster.pods())
        self._devices: list[tuple[str, str]] = []
        self._given: set[str] = set()
        for name in self._free:
            self._fill(name, {"cpu": 0})

    def __call__(self, count: int = 1, **shape: Any) -> list[str]:
        """Give nodes in the order of their names; ``prefix`` is for nodes that are made."""
        asked = amounts({key: str(shape[key]) for key in ("cpu", "memory") if key in shape})
        others = sorted(self._free.keys() - self._given)
        fitting = [name for name in others if _has(self._free[name], asked)][:count]
        if len(fitting) < count or shape.keys() - {"cpu", "memory", "extended", "prefix"}:
            pytest.fail(f"this test needs {count} nodes with the room {shape}; of {others} fit {fitting}")
        for name in fitting:
            self._given.add(name)
            for device, amount in (shape.get("extended") or {}).items():
                self._devices.append((name, device))
                self._advertise(name, device, str(amount))
            self._filling.delete_pod(name)
            self._fill(name, asked)
        return fitting

    def close(self) -> None:
        """Take the devices away again."""
        for name, device in self._devices:
            self._advertise(name, device, None)

    def _fill(self, name: str, asked: Amounts) -> None:
        rest = {key: self._free[name][key] - amount for key, amount in asked.items()}
        cpu = f"{rest.pop('cpu')}m"
        self._filling.create(pod(name, cpu=cpu, requests=rest, nodeName=name))

    def _advertise(self, name: str, device: str, amount: str | None) -> None:
        both = {part: {device: amount} for part in ("capacity", "allocatable")}
        self._cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": both})


def _room(nodes: Mapping[str, Manifest], pods: Iterable[Manifest]) -> dict[str, Counter[str]]:
    """Return what ``pods`` leave of the nodes that are open to all."""
    free = {
        name: Counter(amounts(node["status"]["allocatable"]))
        for name, node in nodes.items()
        if is_ready(node) and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
    }
    for one in pods:
        node = one["spec"].get("nodeName")
        if node in free and one["status"].get("phase") not in ("Succeeded", "Failed"):
            free[node].subtract({**effective_requests(one["spec"]), "pods": 1})
    return free


def _has(room: Mapping[str, int], asked: Amounts) -> bool:
    return all(room.get(key, 0) >= amount for key, amount in asked.items())
