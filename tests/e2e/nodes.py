"""Nodes for one test: made on a local control plane, or picked from those a cluster has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from fluence_extender.localcluster import ControlPlane
from fluence_extender.localcluster.admission import amounts
from fluence_extender.localcluster.nodes import is_ready


class NodeFactory(Protocol):
    """Takes what `ControlPlane.add_nodes` takes and gives the nodes' names."""

    def __call__(self, count: int = 1, **shape: Any) -> list[str]: ...


@contextmanager
def local_nodes(plane: ControlPlane) -> Iterator[NodeFactory]:
    """Makes nodes, and deletes them at the end."""
    made: list[str] = []

    def make(count: int = 1, **shape: Any) -> list[str]:
        shape.setdefault("prefix", f"n{uuid.uuid4().hex[:6]}")
        names = plane.add_nodes(count, **shape)
        made.extend(names)
        return names

    yield make
    plane.delete_node(*made)


def existing_nodes(nodes: Mapping[str, Mapping[str, Any]]) -> NodeFactory:
    """Picks, among ``nodes``, those that are free for all pods and at least as large as asked; each only
    once.
    """
    free = {
        name: node
        for name, node in nodes.items()
        if is_ready(node) and not node["spec"].get("unschedulable") and not node["spec"].get("taints")
    }

    def pick(count: int = 1, **shape: Any) -> list[str]:
        asked = amounts({key: str(shape[key]) for key in ("cpu", "memory", "pods") if key in shape})
        asked |= shape.get("extended") or {}
        labels = shape.get("labels") or {}
        fitting = [name for name, node in free.items() if _covers(node, asked, labels)]
        if len(fitting) < count or shape.get("taints") or shape.get("names"):
            pytest.fail(f"this test needs {count} nodes like {shape}; of that kind the cluster has {fitting}")
        for name in fitting[:count]:
            del free[name]
        return fitting[:count]

    return pick


def _covers(node: Mapping[str, Any], asked: Mapping[str, int], labels: Mapping[str, str]) -> bool:
    have = amounts(node["status"]["allocatable"])
    wears = node["metadata"].get("labels") or {}
    large = all(have.get(name, 0) >= amount for name, amount in asked.items())
    return large and labels.items() <= wears.items()
