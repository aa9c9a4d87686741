"""Short ways to write pods and nodes in tests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources

GIB = 2**30
_numbers = itertools.count(1)


def asks(cpu: int = 0, gib: int = 0, **more: int) -> Resources:
    """Requests of millicores and GiB with a pod slot; other names with ``__`` for ``/`` and ``_`` for ``.``."""
    others = {name.replace("__", "/").replace("_", "."): amount for name, amount in more.items()}
    return Resources({"cpu": cpu, "memory": gib * GIB, "pods": 1, **others})


def node(name: str = "n0", cpu: int = 4000, gib: int = 16, pods: int = 110, **fields: Any) -> Node:
    """A node with ``cpu`` millicores and ``gib`` GiB; ``extra`` are further resources."""
    extra: Mapping[str, int] = fields.pop("extra", {})
    amounts = Resources({"cpu": cpu, "memory": gib * GIB, "pods": pods, **extra})
    return Node(name, allocatable=amounts, **fields)


def pod(name: str = "p", cpu: int = 1000, gib: int = 1, **fields: Any) -> Pod:
    """A pod of ours under a uid of its own."""
    fields.setdefault("requests", asks(cpu, gib))
    fields.setdefault("uid", f"{name}-{next(_numbers)}")
    return Pod("default", name, **fields)
