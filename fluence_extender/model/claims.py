"""What pods claim of dynamic resource allocation (resource.k8s.io/v1): requests, their choices, and constraints.

Invariant: claims of equal pods are equal values, because names of generated claims aren't part of `ClaimSpec`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fluence_extender.model.quantity import in_exact_binary, nanos_to_whole
from fluence_extender.model.taints import Toleration


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to serve a request: ``count`` devices of a class (0 for all of the node) for which all selectors hold.

    ``name`` is the name of a subrequest, "" if the request has only one choice. ``capacity`` is what the choice
    needs of each device, by the device's names, in billionths. ``requires`` names attributes, with the value that each
    device must have. With ``admin`` access, a choice gets devices although others have them.
    """

    device_class: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    name: str = ""
    capacity: tuple[tuple[str, int], ...] = ()
    requires: tuple[tuple[str, str], ...] = ()
    admin: bool = False

    @property
    def text(self) -> str:
        """What the choice asks for, in words for messages."""
        amount = str(self.count) if self.count else "all"
        parts = [f"{in_exact_binary(nanos_to_whole(amount))} {name}" for name, amount in self.capacity]
        required = [f"{name}={value}" for name, value in self.requires]
        admin = ["admin access"] if self.admin else []
        wanted = [*admin, *parts, *required]
        return " ".join([amount, self.device_class, *(["with", *wanted] if wanted else [])])


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim: the first of its ``choices`` that can be served counts."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class AttributeConstraint:
    """A constraint: all devices of the named ``requests``, or of all requests if none is named, agree on an attribute.

    If it is ``distinct``, each device has to have another value instead.
    """

    attribute: str
    requests: frozenset[str] = frozenset()
    distinct: bool = False

    def covers(self, request: str, choice: str) -> bool:
        """Return whether the constraint concerns the devices of a request, or of a subrequest of it."""
        return not self.requests or request in self.requests or f"{request}/{choice}" in self.requests


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What one claim asks for. ``problem`` is why the service can't plan it, "" for most.

    ``shared`` is the key of a claim that several pods name and whose devices they all get, "" for other claims.
    ``extended`` is the extended resource for which kube-scheduler makes the claim, "" for none. It makes no claim on a
    node that has the resource by itself.
    """

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[AttributeConstraint, ...] = ()
    problem: str = ""
    shared: str = ""
    extended: str = ""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Compute the hash once: claims are the keys of what is remembered of nodes."""
        parts = self.requests, self.constraints, self.problem, self.shared, self.extended
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def text(self) -> str:
        """What the claim asks for, in words for messages."""
        texts = [" or ".join(one.text for one in request.choices) for request in self.requests]
        alike = [f"with {'different' if one.distinct else 'one'} {one.attribute}" for one in self.constraints]
        return " ".join([" and ".join(texts), *alike])


Claims = tuple[ClaimSpec, ...]
"""What one pod still has to be allocated."""
