"""Give pods that request virtual resources the environment that names their backend and its attributes.

The variables are filled from the pod's annotations. These are written when the pod is bound (or, for a consumer, when
it is released), after the pod was created and before its containers start. So the values come from the downward API,
which reads a missing annotation as "". QRMI's names (QRMI_JOB_QPU_RESOURCES and QRMI_JOB_QPU_TYPES, both or neither)
repeat ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fluence_extender.graph.virtual import VirtualResource, VirtualResources, environment_name
from fluence_extender.model.coordination import (
    BACKEND_VARIABLE,
    CONSUMER,
    QPU,
    QRMI_BACKEND_VARIABLE,
    QRMI_NAME_VARIABLES,
    QRMI_PREFIX,
    QRMI_TYPE_ATTRIBUTE,
    QRMI_TYPE_VARIABLE,
    producer_annotation,
)
from fluence_extender.model.names import ATTRIBUTE_PREFIX, BACKEND_ANNOTATION
from fluence_extender.webhook.containers import add_variables, from_annotation
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.declaration import PodDeclaration
from fluence_extender.webhook.draft import Draft


def handle(draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context) -> None:
    """Give each container the environment of the pod's backend, or of its producer's."""
    own = declared.devices.keys() - ({QPU} if declared.role == CONSUMER else set())
    if own:
        add_variables(draft, backend_variables(context.resources, own))
    elif declared.role == CONSUMER:
        add_variables(draft, backend_variables(context.resources, (QPU,), consumer=True))


def backend_variables(
    resources: VirtualResources | None, types: Iterable[str], consumer: bool = False
) -> Sequence[Json]:
    """Return the variables of a pod that requests ``types``. A ``consumer`` has those of its producer."""
    return _variables(tuple(attribute_keys(resources, types)), consumer)


@lru_cache(maxsize=64)
def _variables(keys: tuple[str, ...], consumer: bool) -> list[Json]:
    found: dict[str, Json] = {}
    for name, annotation in _sources(keys):
        if name not in found:
            found[name] = from_annotation(name, producer_annotation(annotation) if consumer else annotation)
    return list(found.values())


def _sources(keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each variable with the annotation that fills it; of two with one name the first counts."""
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
    """Return every configured attribute key, sorted, except those that each resource of ``types`` has cleared."""
    if resources is None:
        return []
    wanted = frozenset(types)
    known: set[str] = set()
    cleared: list[set[str]] = []
    for resource in resources.resources:
        _collect(resource, {}, wanted, known, cleared)
    return sorted(known - cleared[0].intersection(*cleared[1:]) if cleared else known)


def _collect(
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
        _collect(child, above, wanted, known, cleared)
