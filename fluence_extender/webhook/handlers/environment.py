"""The environment by which a program learns of its backend: variables filled from the pod's annotations.

The annotations are written when the pod is bound (or, on a consumer, when it is released), after the pod was created
and before its containers start; so their values come by the downward API, which reads an annotation that isn't there as
"". QRMI's names (QRMI_JOB_QPU_RESOURCES and QRMI_JOB_QPU_TYPES, both or neither) are aliases of ours.

Invariant: what the user's container sets itself stays. Ours come first, so that the user's own may refer to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fluence_extender.graph.virtual import VirtualResource, VirtualResources, environment_name
from fluence_extender.model.coordination import (
    BACKEND_VARIABLE,
    QRMI_BACKEND_VARIABLE,
    QRMI_NAME_VARIABLES,
    QRMI_PREFIX,
    QRMI_TYPE_ATTRIBUTE,
    QRMI_TYPE_VARIABLE,
    producer_annotation,
)
from fluence_extender.model.names import ATTRIBUTE_PREFIX, BACKEND_ANNOTATION
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft, Step
from fluence_extender.webhook.own_containers import is_own

CONTAINER_LISTS = ("initContainers", "containers")


def users_containers(draft: Draft) -> Iterator[tuple[tuple[Step, ...], Json]]:
    """The path and value of each container that isn't ours, init containers too."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(draft.spec.get(field) or ()):
            if not is_own(container):
                yield ("spec", field, index), container


def add_variables(draft: Draft, variables: Sequence[Json]) -> None:
    """Give every container of the user's those of ``variables`` that it doesn't set itself, before its own."""
    for path, container in users_containers(draft):
        own = {one.get("name") for one in container.get("env") or ()}
        missing = [one for one in variables if one["name"] not in own]
        draft.insert(*path, "env", values=missing, at=0)


def from_annotation(variable: str, annotation: str) -> Json:
    """A variable with the value that the annotation has when the container starts."""
    return from_field(variable, f"metadata.annotations['{annotation}']")


def from_field(variable: str, path: str) -> Json:
    """A variable with the value of a field of the pod."""
    return {"name": variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def backend_variables(
    resources: VirtualResources | None, types: Iterable[str], consumer: bool = False
) -> Sequence[Json]:
    """The variables of a pod that asks for ``types``; a ``consumer``'s are its producer's."""
    return _variables(tuple(attribute_keys(resources, types)), consumer)


@lru_cache(maxsize=64)
def _variables(keys: tuple[str, ...], consumer: bool) -> list[Json]:
    found: dict[str, Json] = {}
    for name, annotation in _contract(keys):
        if name not in found:
            found[name] = from_annotation(name, producer_annotation(annotation) if consumer else annotation)
    return list(found.values())


def _contract(keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield BACKEND_VARIABLE, BACKEND_ANNOTATION
    for key in keys:
        yield environment_name(key), ATTRIBUTE_PREFIX + key
    yield QRMI_BACKEND_VARIABLE, BACKEND_ANNOTATION
    if QRMI_TYPE_ATTRIBUTE in keys:
        for name in QRMI_NAME_VARIABLES:
            yield name, BACKEND_ANNOTATION
        yield QRMI_TYPE_VARIABLE, ATTRIBUTE_PREFIX + QRMI_TYPE_ATTRIBUTE
    for key in keys:
        if key != QRMI_TYPE_ATTRIBUTE and key.lower().startswith(QRMI_PREFIX):
            yield environment_name(key).removeprefix("FLUXION_"), ATTRIBUTE_PREFIX + key


def attribute_keys(resources: VirtualResources | None, types: Iterable[str]) -> list[str]:
    """Every configured attribute key, sorted, but for those that each resource of ``types`` has cleared."""
    if resources is None:
        return []
    wanted = frozenset(types)
    known: set[str] = set()
    cleared: list[set[str]] = []
    for resource in resources.resources:
        _look(resource, {}, wanted, known, cleared)
    return sorted(known - cleared[0].intersection(*cleared[1:]) if cleared else known)


def _look(
    resource: VirtualResource,
    inherited: Mapping[str, Any],
    wanted: frozenset[str],
    known: set[str],
    cleared: list[set[str]],
) -> None:
    known.update(resource.attributes)
    above = {**inherited, **resource.attributes}
    if resource.type in wanted:
        cleared.append(above.keys() - resource.attributes.keys())
    for child in resource.children:
        _look(child, above, wanted, known, cleared)
