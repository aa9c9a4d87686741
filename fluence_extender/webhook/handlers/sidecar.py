"""Add the sidecar to a producer or an observed pod.

It is a native sidecar (KEP-753), so it keeps no pod running and fails none.

It asks the vendor with the credentials of the pod's first container, and writes with a token of its own account (see
`sidecar_account`). Invariant: only the sidecar mounts that token; the pod and the user's containers keep their account.
"""

from __future__ import annotations

from fluence_extender.model.coordination import (
    GANG_GROUP_VARIABLE,
    GROUP_VARIABLE,
    NAMESPACE_VARIABLE,
    OBSERVE_VARIABLE,
    POD_NAME_VARIABLE,
    POD_UID_VARIABLE,
    PRODUCER,
    SIDECAR_ACCOUNT,
    SIDECAR_CONTAINER,
    STAGE_CONTAINER,
    TOKEN_KEY,
    TOKEN_MOUNT,
    TOKEN_VOLUME,
)
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.webhook.containers import from_field, is_own, own_container
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.declaration import PodDeclaration
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.fluxion import backend_variables

REQUESTS = {"cpu": "100m", "memory": "256Mi"}


def add_sidecar(draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context) -> None:
    """Add the sidecar before the user's containers and after the staging one, which has pulled the image by then."""
    init_containers = draft.spec.get("initContainers") or []
    if not any(is_own(one, SIDECAR_CONTAINER) for one in init_containers):
        staged = bool(init_containers) and is_own(init_containers[0], STAGE_CONTAINER)
        sidecar = _sidecar(draft, declared, request, context)
        draft.insert("spec", "initContainers", values=[sidecar], at=int(staged))
        draft.insert("spec", "volumes", values=[_token_volume()])


def _sidecar(draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context) -> Json:
    first = (draft.spec.get("containers") or [{}])[0]
    task = (
        {"name": GANG_GROUP_VARIABLE, "value": declared.group}
        if declared.role == PRODUCER
        else {"name": OBSERVE_VARIABLE, "value": "true"}
    )
    own = [
        from_field(POD_UID_VARIABLE, "metadata.uid"),
        from_field(POD_NAME_VARIABLE, "metadata.name"),
        from_field(NAMESPACE_VARIABLE, "metadata.namespace"),
        from_field(GROUP_VARIABLE, f"metadata.labels['{GROUP_LABEL}']"),
        task,
        *backend_variables(context.resources, declared.devices),
    ]
    sidecar: Json = {
        **own_container(draft, request, context, SIDECAR_CONTAINER, REQUESTS, REQUESTS),
        "restartPolicy": "Always",
        "env": [*own, *_credentials(first, {one["name"] for one in own})],
        "volumeMounts": [{"name": TOKEN_VOLUME, "mountPath": TOKEN_MOUNT, "readOnly": True}],
    }
    secrets = [one for one in first.get("envFrom") or () if one.get("secretRef")]
    return {**sidecar, "envFrom": secrets} if secrets else sidecar


def _credentials(container: Json, taken: set[str]) -> list[Json]:
    """Return the variables that the container takes from Secrets and ConfigMaps, not those with plain values."""
    return [
        one
        for one in container.get("env") or ()
        if {"secretKeyRef", "configMapKeyRef"} & (one.get("valueFrom") or {}).keys()
        and one.get("name") not in taken
    ]


def _token_volume() -> Json:
    """Return the volume with what Kubernetes itself projects: token, certificate authority and namespace."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"secret": {"name": SIDECAR_ACCOUNT, "items": [{"key": TOKEN_KEY, "path": "token"}]}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
        },
    }
