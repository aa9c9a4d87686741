"""A Kubernetes node, reduced to what placement reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.model.devices import CounterId, NodeDevice
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.model.taints import Taint


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    ``allocatable`` is exact, in the units of `Resources`, and holds the node's pod limit under ``pods``. ``ready`` is
    the node's Ready condition, ``unschedulable`` its cordon. ``problem`` is why the node can't be read in full, ""
    where it can. ``created`` is when it joined, in seconds since the epoch, 0 if that isn't known. ``devices`` are
    those that drivers publish for it, held or not; ``by_devices`` are the resources of ``allocatable`` that count them.
    ``counters`` are what is left of the counters from which they take, apart from what the held ones among them have.
    ``features`` are those that its kubelet declares (KEP-5328). ``guards`` are the annotations of `KEEPING` that it
    has, and ``kept`` those that the service has set; neither is compared, because they change nothing for pods.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Resources = NOTHING
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    problem: str = ""
    created: float = 0.0
    devices: tuple[NodeDevice, ...] = ()
    by_devices: frozenset[str] = frozenset()
    counters: Mapping[CounterId, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    guards: tuple[str, ...] = field(default=(), compare=False)
    kept: tuple[str, ...] = field(default=(), compare=False)

    def has_by_itself(self, resource: str) -> bool:
        """Return whether it has an extended resource that isn't a count of devices."""
        return self.allocatable[resource] > 0 and resource not in self.by_devices
