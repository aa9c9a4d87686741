"""The priority that pods of manifests will have: what the Priority admission plugin makes of their class.

Classes are known from the manifests, and from the cluster if that could be asked. What a class stands for that is in
neither isn't guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

KIND = "PriorityClass"

BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has (Kubernetes, pkg/apis/scheduling)."""


class PriorityClasses:
    """The PriorityClasses (scheduling.k8s.io) among ``manifests``, and those of the cluster, None where unknown."""

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
            if not self.knows(manifest):
                continue
            self._classes[str(manifest["metadata"].get("name"))] = manifest
            if manifest.get("globalDefault") is True:
                self._default = manifest

    @staticmethod
    def knows(manifest: Mapping[str, Any]) -> bool:
        """Whether this is a PriorityClass that can be read."""
        return (
            manifest.get("kind") == KIND
            and isinstance(manifest.get("metadata"), dict)
            and isinstance(manifest.get("value"), int)
        )

    def resolved(self, uid: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the ``spec`` of the pod ``uid`` with the priority and preemptionPolicy of its class."""
        name = spec.get("priorityClassName")
        found = self._classes.get(str(name)) if name else self._default
        if found is None:
            if name and "priority" not in spec:
                self._missing[uid] = str(name)
            return {**spec}
        policy = found.get("preemptionPolicy")
        return {**({"preemptionPolicy": policy} if policy else {}), **spec, "priority": found["value"]}

    def missing(self, uid: str) -> str:
        """The class that this pod names and of which nothing is known, "" for none."""
        return self._missing.get(uid, "")

    def notes(self) -> Iterator[str]:
        """What is to be told of classes that aren't known."""
        for name in sorted(set(self._missing.values())):
            if self._complete:
                yield (
                    f"{KIND} {name} is neither among the manifests nor in the cluster: the API server refuses pods "
                    "that name it"
                )
            else:
                yield f"{KIND} {name} isn't among the manifests, and the cluster's classes aren't known"
