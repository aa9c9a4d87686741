"""The containers of a pod: those of its user and those that admission has added.

Invariants: the name alone doesn't make a user's container one of ours; it must also run our command. Settings of a
user's container stay. Our variables come first, so the user's variables may refer to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fluence_extender.model.coordination import (
    SIDECAR_COMMAND,
    SIDECAR_CONTAINER,
    STAGE_COMMAND,
    STAGE_CONTAINER,
)
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.draft import Draft, Step
from fluence_extender.webhook.limit_ranges import fit

COMMANDS: Mapping[str, list[str]] = {
    STAGE_CONTAINER: list(STAGE_COMMAND),
    SIDECAR_CONTAINER: list(SIDECAR_COMMAND),
}
CONTAINER_LISTS = ("initContainers", "containers")

UNPRIVILEGED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The requirements of the strictest pod security standard (restricted), and a read-only file system. The user is
that of our image."""


def is_own(container: Json, name: str = "") -> bool:
    """Return whether admission has added ``container``; if a ``name`` is given, whether it is that container."""
    named = str(container.get("name"))
    return named == (name or named) and named in COMMANDS and container.get("command") == COMMANDS[named]


def users_containers(draft: Draft) -> Iterator[tuple[tuple[Step, ...], Json]]:
    """Yield path and value of each container of the user, init containers too."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(draft.spec.get(field) or ()):
            if not is_own(container):
                yield ("spec", field, index), container


def own_container(
    draft: Draft,
    request: AdmissionRequest,
    context: Context,
    name: str,
    requests: Mapping[str, str],
    limits: Mapping[str, str],
) -> Json:
    """Return the parts that all containers of ours have in common, for the container ``name``."""
    return {
        "name": name,
        "image": context.sidecar_image,
        "imagePullPolicy": "IfNotPresent",
        "command": COMMANDS[name],
        "resources": _own_resources(draft, request, name, requests, limits),
        "securityContext": UNPRIVILEGED,
    }


def _own_resources(
    draft: Draft,
    request: AdmissionRequest,
    name: str,
    requests: Mapping[str, str],
    limits: Mapping[str, str],
) -> Json:
    """Return the resources of our container ``name``: ``requests``, and ``limits`` if all the user's containers are
    limited.

    In such a pod a quota may demand limits, and a pod of the class Guaranteed keeps its class. A pod that requests
    resources as a whole (KEP-2837) shares them with our container. The LimitRanges of the namespace come before all.
    """
    if draft.spec.get("resources"):
        return {}
    users = [(one.get("resources") or {}).get("limits") or {} for _, one in users_containers(draft)]
    limited = [resource for resource in limits if all(resource in one for one in users)]
    fitted = fit(requests, limits, limited, request.bounds or {})
    if "memory" in fitted.short:
        draft.warn(
            f"a LimitRange allows container {name} only {fitted.short['memory']} of memory, and it needs up to "
            f"{requests['memory']}, so it may be killed for lack of memory: allow more"
        )
    return fitted.resources


def add_variables(draft: Draft, variables: Sequence[Json]) -> None:
    """Add the ``variables`` that it doesn't set itself to each container of the user, before its own."""
    for path, container in users_containers(draft):
        own = {one.get("name") for one in container.get("env") or ()}
        missing = [one for one in variables if one["name"] not in own]
        draft.insert(*path, "env", values=missing, at=0)


def from_annotation(variable: str, annotation: str) -> Json:
    """Return a variable with the value that the annotation has when the container starts."""
    return from_field(variable, f"metadata.annotations['{annotation}']")


def from_field(variable: str, path: str) -> Json:
    """Return a variable with the value of a field of the pod."""
    return {"name": variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
