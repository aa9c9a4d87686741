"""Workloads: where their pods get annotations from, and whether Fluence places them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fluence_extender.apps.kubectl.manifests import Manifest, child, text
from fluence_extender.model.names import GROUP_LABEL, SCHEDULER_NAMES
from fluence_extender.selection.request import SHOTS_VARIABLE

_TEMPLATE_KEYS = frozenset({"template", "leaderTemplate", "workerTemplate"})
"""The keys of pod templates. The template of a Job, in a JobSet, has one of them as well, with a template inside."""


@dataclass(frozen=True, slots=True)
class ManifestWorkload:
    """An object and its pod templates; ``label`` is Kind/name."""

    manifest: Manifest
    label: str
    templates: tuple[Manifest, ...]

    @property
    def ours(self) -> bool:
        """Whether Fluence places its pods: they name our scheduler, or have a group label of ours."""
        places = (self.manifest, *self.templates)
        return any(
            text(one, "spec", "schedulerName") in SCHEDULER_NAMES
            or text(one, "metadata", "labels", GROUP_LABEL)
            for one in places
        )

    def variables(self, *places: Manifest) -> list[str]:
        """Return the values of N_SHOTS in the containers of ``places``; by default, of the object and its templates."""
        return [value for one in places or (self.manifest, *self.templates) for value in _variables(one)]


def workload(manifest: Manifest) -> ManifestWorkload:
    """Return a Kubernetes object as a workload; an object that makes no pods has no templates."""
    kind = text(manifest, "kind")
    name = text(manifest, "metadata", "name") or text(manifest, "metadata", "generateName")
    return ManifestWorkload(
        manifest, f"{kind or 'object'}/{name or '(unnamed)'}", tuple(_templates(manifest))
    )


def annotations_of(place: Manifest) -> dict[str, str]:
    """Return the annotations of an object or a template."""
    found = child(place, "metadata", "annotations")
    given = found.items() if isinstance(found, dict) else ()
    return {str(key): str(value) for key, value in given if isinstance(value, str)}


def _templates(holder: Manifest) -> Iterator[Manifest]:
    """Yield the pod templates anywhere in the spec of an object, in the order of the text."""
    waiting: list[tuple[object, Any]] = [("", holder.get("spec"))]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, list):
            waiting += [("", one) for one in reversed(value)]
        elif isinstance(value, dict):
            if key in _TEMPLATE_KEYS and child(value, "spec", "template") is None:
                yield value
            else:
                waiting += reversed(value.items())


def _variables(pod: Manifest) -> Iterator[str]:
    for place in ("containers", "initContainers"):
        for container in _listed(child(pod, "spec", place)):
            for variable in _listed(child(container, "env")):
                value = child(variable, "value")
                if text(variable, "name") == SHOTS_VARIABLE and isinstance(value, str):
                    yield value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
