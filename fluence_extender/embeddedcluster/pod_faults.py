"""Why the API server refuses a pod, as far as planning could go wrong without it.

Sources: Kubernetes pkg/apis/core/validation (validateResourceRequirements, validateRestartPolicy). The fields of pods
are those of the official client's models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kubernetes.client import models

from fluence_extender.cluster.port import Json
from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.model.requests import is_extended

POLICIES = ("Always", "OnFailure", "Never")
WHOLE = 10**9
"""A whole amount, in billionths."""

LIST = re.compile(r"[Ll]ist\[(\w+)\]")


def unknown_fields(pod: Json) -> Iterator[str]:
    """Yield the fields of a pod that don't exist."""
    return (f'unknown field "{field}"' for field in _unknown(pod["spec"], "V1PodSpec", "spec"))


def faults(pod: Json) -> Iterator[str]:
    """Yield what is wrong with the values of a pod after its admission."""
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    if policy not in POLICIES:
        yield f'spec.restartPolicy: Unsupported value: "{policy}": supported values: {", ".join(POLICIES)}'
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            yield from _of_resources(container.get("resources") or {}, f"spec.{kind}[{number}].resources")
    yield from _of_resources(spec.get("resources") or {}, "spec.resources")


def _of_resources(resources: Mapping[str, Any], at: str) -> Iterator[str]:
    amounts: dict[str, dict[str, int]] = {}
    for field in ("requests", "limits"):
        amounts[field] = {}
        for name, text in (resources.get(field) or {}).items():
            try:
                amount = amounts[field][name] = nanos(text)
            except InvalidQuantity as error:
                yield f"{at}.{field}[{name}]: Invalid value: {text!r}: {error}"
                continue
            if amount < 0:
                yield f"{at}.{field}[{name}]: Invalid value: {text!r}: must be greater than or equal to 0"
            elif is_extended(name) and amount % WHOLE:
                yield f"{at}.{field}[{name}]: Invalid value: {text!r}: must be an integer"
    for name, amount in amounts["requests"].items():
        limit = amounts["limits"].get(name)
        if limit is None:
            if is_extended(name):
                yield f"{at}.limits[{name}]: Required value: Limit must be set for non overcommitable resources"
        elif is_extended(name) and amount != limit:
            yield f"{at}.requests[{name}]: Invalid value: must be equal to {name} limit"
        elif amount > limit:
            yield f"{at}.requests[{name}]: Invalid value: must be less than or equal to {name} limit"


def _unknown(value: Mapping[str, Any], model: str, at: str) -> Iterator[str]:
    """Yield the paths of the fields of ``value`` that the model doesn't have."""
    fields = _fields(model)
    for name, inner in value.items():
        kind = fields.get(name)
        if kind is None:
            yield f"{at}.{name}"
            continue
        if (listed := LIST.fullmatch(kind)) and isinstance(inner, list):
            for number, item in enumerate(inner):
                if isinstance(item, dict) and hasattr(models, listed[1]):
                    yield from _unknown(item, listed[1], f"{at}.{name}[{number}]")
        elif isinstance(inner, dict) and hasattr(models, kind):
            yield from _unknown(inner, kind, f"{at}.{name}")


@cache
def _fields(model: str) -> Mapping[str, str]:
    """Return the fields of a model by their names in JSON, with their types."""
    made = getattr(models, model)
    names: Mapping[str, str] = made.attribute_map
    types: Mapping[str, str] = made.openapi_types
    return {names[key]: types[key] for key in names}
