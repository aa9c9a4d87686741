"""The sidecar of a producer or an observed pod: a native one (KEP-753), which keeps no pod running and fails none.

It watches the vendor's queue with the credentials of the pod's first container, and writes to consumers with its own
account. Its token is mounted by us: the pod may have turned off that its account's token is mounted.
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
    SIDECAR_COMMAND,
    SIDECAR_CONTAINER,
    STAGE_CONTAINER,
    TOKEN_MOUNT,
    TOKEN_VOLUME,
)
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.webhook.contract import Context, Json, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.environment import backend_variables, from_field
from fluence_extender.webhook.handlers.interceptor import UNPRIVILEGED, own_resources
from fluence_extender.webhook.own_containers import is_own
from fluence_extender.webhook.subject import Subject

USUAL_ACCOUNTS = (None, "", "default", SIDECAR_ACCOUNT)
ASKS = {"cpu": "100m", "memory": "256Mi"}
TOKEN_LASTS = 3607
"""Seconds; kubelet renews it before. The number is that of the tokens that Kubernetes mounts itself."""


def add_sidecar(draft: Draft, subject: Subject, request: Request, context: Context) -> None:
    """Add the sidecar, behind the container that stages (its image is there then) and before the user's."""
    inits = draft.spec.get("initContainers") or []
    if not any(is_own(one, SIDECAR_CONTAINER) for one in inits):
        staged = bool(inits) and is_own(inits[0], STAGE_CONTAINER)
        ours = _sidecar(draft, subject, request, context)
        draft.insert("spec", "initContainers", values=[ours], at=int(staged))
        draft.insert("spec", "volumes", values=[_token()])
    _account(draft, request, context)


def _account(draft: Draft, request: Request, context: Context) -> None:
    """Run under the sidecar's account, if it is there and the user has chosen none."""
    chosen = draft.spec.get("serviceAccountName")
    if chosen not in USUAL_ACCOUNTS:
        return
    if request.namespace in context.accounts:
        draft.put("spec", "serviceAccountName", value=SIDECAR_ACCOUNT)
        return
    if not chosen:
        # A pod without an account may mount no token; API servers usually fill this in before us.
        draft.put("spec", "serviceAccountName", value="default")
    if not request.dry_run and chosen != SIDECAR_ACCOUNT:
        draft.warn(
            f"ServiceAccount {SIDECAR_ACCOUNT} couldn't be made in namespace {request.namespace}, so the sidecar may "
            "not be allowed to release consumers: create it, or look at the webhook's log"
        )


def _sidecar(draft: Draft, subject: Subject, request: Request, context: Context) -> Json:
    first = (draft.spec.get("containers") or [{}])[0]
    said = (
        {"name": GANG_GROUP_VARIABLE, "value": subject.group}
        if subject.role == PRODUCER
        else {"name": OBSERVE_VARIABLE, "value": "true"}
    )
    own = [
        from_field(POD_UID_VARIABLE, "metadata.uid"),
        from_field(POD_NAME_VARIABLE, "metadata.name"),
        from_field(NAMESPACE_VARIABLE, "metadata.namespace"),
        from_field(GROUP_VARIABLE, f"metadata.labels['{GROUP_LABEL}']"),
        said,
        *backend_variables(context.resources, subject.devices),
    ]
    sidecar: Json = {
        "name": SIDECAR_CONTAINER,
        "image": context.sidecar_image,
        "imagePullPolicy": context.sidecar_pull_policy,
        "command": list(SIDECAR_COMMAND),
        "restartPolicy": "Always",
        "env": [*own, *_credentials(first, {one["name"] for one in own})],
        "resources": own_resources(draft, request, SIDECAR_CONTAINER, ASKS, ASKS),
        "volumeMounts": [{"name": TOKEN_VOLUME, "mountPath": TOKEN_MOUNT, "readOnly": True}],
        "securityContext": UNPRIVILEGED,
    }
    secrets = [one for one in first.get("envFrom") or () if one.get("secretRef")]
    return {**sidecar, "envFrom": secrets} if secrets else sidecar


def _credentials(container: Json, taken: set[str]) -> list[Json]:
    """What the container's environment takes from Secrets and ConfigMaps; plain values stay its own."""
    return [
        one
        for one in container.get("env") or ()
        if {"secretKeyRef", "configMapKeyRef"} & (one.get("valueFrom") or {}).keys()
        and one.get("name") not in taken
    ]


def _token() -> Json:
    """As Kubernetes projects it: token, authority and namespace."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LASTS}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
        },
    }
