"""The priority that the pods of manifests will have, as the Priority admission plugin sets it from their class.

Classes come from the manifests, and from the cluster if it could be read. The value of any other class is unknown and
is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

KIND = "PriorityClass"

BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes of every cluster (Kubernetes, pkg/apis/scheduling)."""


class PriorityClasses:
    """The PriorityClasses (scheduling.k8s.io) among ``manifests`` and those of the ``cluster``, None if unknown."""

    def __init__(
        self, manifests: Iterable[Mapping[str, Any]], cluster: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self._classes: dict[str, Mapping[str, Any]] = {
            name: {"value": value} for name, value in BUILT_IN.items()
        }
        self._default: Mapping[str, Any] | None = None
        self._complete = cluster is not None
        self._missing: dict[str, str] = {}
        for manifest in chain(cluster or (), manifests):
            if not self.is_class(manifest):
                continue
            self._classes[str(manifest["metadata"].get("name"))] = manifest
            if manifest.get("globalDefault") is True:
                self._default = manifest

    @staticmethod
    def is_class(manifest: Mapping[str, Any]) -> bool:
        """Return whether this is a readable PriorityClass."""
        return (
            manifest.get("kind") == KIND
            and isinstance(manifest.get("metadata"), dict)
            and isinstance(manifest.get("value"), int)
        )

    def resolved(self, uid: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the ``spec`` of the pod ``uid`` with the priority and preemptionPolicy of its class."""
        name = spec.get("priorityClassName")
        found = self._classes.get(str(name)) if name else self._default
        if found is None:
            if name and "priority" not in spec:
                self._missing[uid] = str(name)
            return {**spec}
        policy = found.get("preemptionPolicy")
        return {**({"preemptionPolicy": policy} if policy else {}), **spec, "priority": found["value"]}

    def missing(self, uid: str) -> str:
        """Return the class that this pod names and that isn't known, "" if there is none."""
        return self._missing.get(uid, "")

    def notes(self) -> Iterator[str]:
        """Yield a sentence about each class that isn't known."""
        for name in sorted(set(self._missing.values())):
            if self._complete:
                yield (
                    f"{KIND} {name} is neither in the manifests nor in the cluster: the API server refuses pods "
                    "that name it"
                )
            else:
                yield f"{KIND} {name} is not in the manifests, and the classes of the cluster are not known"
