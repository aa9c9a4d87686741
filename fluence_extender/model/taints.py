"""Taints of nodes and of devices, and the tolerations with which pods and requests may use them."""

from __future__ import annotations

from dataclasses import dataclass

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
"""The effects that keep those out who don't tolerate a taint."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint (core/v1, resource.k8s.io/v1).

    ``effect`` is NoSchedule or NoExecute, and PreferNoSchedule on nodes or None on devices.
    """

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod, or of a request for devices.

    ``operator`` is Equal or Exists, or Gt or Lt on pods. An empty key with Exists tolerates all taints, an empty effect
    all effects.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
