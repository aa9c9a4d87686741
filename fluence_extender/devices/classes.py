"""The classes of devices: the names by which devices are counted and requested, and the selectors that claims get."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fluence_extender.devices.selectors import table
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.resources import Resources
from fluence_extender.objects.devices import CLASS_RESOURCE_PREFIX, DeviceClass

MOST_RESOLVED = 4096
"""The most claims that are cached with the selectors of their classes."""

Required = tuple[tuple[str, str], ...]
"""Attributes that devices must have, with their values."""


class Classes:
    """All classes by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceClass] = {}
        self._backing: dict[str, DeviceClass] = {}
        self._resolved: dict[tuple[ClaimSpec, Required], ClaimSpec] = {}

    def changed(self) -> None:
        """Take over a change of ``by_name``."""
        self._resolved.clear()
        classes = sorted(self.by_name.values(), key=lambda one: one.name, reverse=True)
        self._backing = {
            one.extended_resource: one
            for one in sorted(classes, key=lambda one: one.created)
            if one.extended_resource
        }

    @property
    def known(self) -> bool:
        """Whether the classes of all devices are known."""
        return all(table(one).complete for kind in self.by_name.values() for one in kind.selectors)

    def backing(self, resource: str) -> DeviceClass | None:
        """Return the class that backs an extended resource, None for most resources."""
        if resource.startswith(CLASS_RESOURCE_PREFIX):
            return self.by_name.get(resource.removeprefix(CLASS_RESOURCE_PREFIX))
        return self._backing.get(resource)

    def resource(self, name: str) -> str:
        """Return the name by which devices of a class, which needn't exist, are counted."""
        return (self.by_name.get(name) or DeviceClass(name)).resource

    def counted(self, requests: Resources) -> Resources:
        """Return the requests with the names by which devices are counted."""
        counts: Counter[str] = Counter()
        for name, amount in requests.items():
            backing = self.backing(name) if name.startswith(CLASS_RESOURCE_PREFIX) else None
            counts[backing.resource if backing is not None else name] += amount
        return Resources(counts)

    def requested(self, spec: ClaimSpec) -> Resources:
        """Return how many devices of each class a claim requests with any of its choices."""
        counts: Counter[str] = Counter()
        for request in spec.requests:
            if len(request.choices) == 1 and not request.choices[0].admin:
                counts[self.resource(request.choices[0].device_class)] += request.choices[0].count
        return Resources(counts)

    def resolved(self, spec: ClaimSpec, required: Required) -> ClaimSpec:
        """Return the claim with the selectors of its classes, for a pod that requires these attributes."""
        known = self._resolved.get((spec, required))
        if known is None:
            if len(self._resolved) >= MOST_RESOLVED:
                self._resolved.clear()
            known = self._resolved[spec, required] = self._with_selectors(spec, required)
        return known

    def _with_selectors(self, spec: ClaimSpec, required: Required) -> ClaimSpec:
        missing: list[str] = []

        def full(choice: Choice) -> Choice:
            known = self.by_name.get(choice.device_class)
            if known is None:
                missing.append(choice.device_class)
                return choice
            return replace(choice, selectors=(*known.selectors, *choice.selectors), requires=required)

        requests = tuple(
            replace(one, choices=tuple(full(choice) for choice in one.choices)) for one in spec.requests
        )
        problem = f"device class {missing[0]} doesn't exist" if missing else ""
        return replace(spec, requests=requests, problem=spec.problem or problem)

    def extended(self, requests: Resources, required: Required) -> list[ClaimSpec]:
        """Return the claims that kube-scheduler makes for extended resources on nodes that don't have them."""
        found: list[ClaimSpec] = []
        for name, amount in requests.items() if self.by_name else ():
            backing = self.backing(name)
            if backing is not None:
                choice = Choice(backing.name, backing.selectors, amount, requires=required)
                found.append(ClaimSpec((DeviceRequest(name, (choice,)),), (), extended=name))
        return found
