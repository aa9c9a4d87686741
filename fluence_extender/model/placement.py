"""Where a gang goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """A share of a virtual resource: ``amount`` units of ``type`` at the vertex ``path`` of ``backend``."""

    path: str
    type: str
    amount: int
    backend: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One pod's place: its node and its devices."""

    uid: str
    node: str
    devices: tuple[DeviceShare, ...] = ()

    @property
    def backend(self) -> str:
        """The name of the backend that serves the pod, "" when it asked for none; several are joined by commas."""
        return ",".join(dict.fromkeys(share.backend for share in self.devices))
