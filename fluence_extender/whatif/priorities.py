"""The priority that pods of manifests will have: what the Priority admission plugin makes of their class.

Classes are known from the manifests alone; one that isn't among them counts as above 0, because that is what people
name one for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KIND = "PriorityClass"
UNKNOWN = 1


class PriorityClasses:
    """The PriorityClasses (scheduling.k8s.io) among ``manifests``."""

    def __init__(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        self._classes: dict[str, Mapping[str, Any]] = {}
        self._default: Mapping[str, Any] | None = None
        for manifest in manifests:
            if not self.knows(manifest):
                continue
            self._classes[str(manifest["metadata"].get("name"))] = manifest
            if manifest.get("globalDefault") is True:
                self._default = manifest

    @staticmethod
    def knows(manifest: Mapping[str, Any]) -> bool:
        """Whether this is a PriorityClass that can be read."""
        return (
            manifest["kind"] == KIND
            and isinstance(manifest.get("metadata"), dict)
            and isinstance(manifest.get("value"), int)
        )

    def resolved(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a pod's ``spec`` with the priority and preemptionPolicy of its class."""
        name = spec.get("priorityClassName")
        found = self._classes.get(str(name)) if name else self._default
        if found is None:
            return {"priority": UNKNOWN, **spec} if name else {**spec}
        policy = found.get("preemptionPolicy")
        return {**({"preemptionPolicy": policy} if policy else {}), **spec, "priority": found["value"]}
