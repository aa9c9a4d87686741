"""A Kubernetes node as placement sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.model.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: ``allocatable`` is exact (see `Resources`), the pod limit in it under ``pods``."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Resources = NOTHING
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
