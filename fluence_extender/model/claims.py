"""What pods claim of dynamic resource allocation (resource.k8s.io/v1): requests, their choices, and constraints.

Invariant: claims of equal pods are equal values, because names of generated claims aren't part of `ClaimSpec`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device; ``effect`` is None, NoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of a request; an empty key with Exists tolerates all taints, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Return whether it covers the taint."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to serve a request: ``count`` devices of a class (0 for all of the node) for which all selectors hold.

    ``name`` is that of a subrequest, "" where the request has one choice only.
    """

    device_class: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    tolerations: tuple[DeviceToleration, ...] = ()
    name: str = ""

    @property
    def text(self) -> str:
        """What it asks for, for messages."""
        amount = str(self.count) if self.count else "all"
        return f"{amount} {self.device_class}"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim: the first of its ``choices`` that can be served counts."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class MatchAttribute:
    """All devices of the named ``requests`` (of all, where none is named) have one value of the attribute."""

    attribute: str
    requests: frozenset[str] = frozenset()

    def covers(self, request: str, choice: str) -> bool:
        """Return whether it binds the devices of a request, or of a subrequest of it."""
        return not self.requests or request in self.requests or f"{request}/{choice}" in self.requests


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What one claim asks for. ``problem`` is why the service can't plan it, "" for most."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[MatchAttribute, ...] = ()
    problem: str = ""

    @property
    def text(self) -> str:
        """What it asks for, for messages."""
        asked = [" or ".join(one.text for one in request.choices) for request in self.requests]
        alike = [f"with one {one.attribute}" for one in self.constraints]
        return " ".join([" and ".join(asked), *alike])


Claims = tuple[ClaimSpec, ...]
"""What one pod still has to be allocated."""
