"""Make the account of sidecars: a ServiceAccount, a Role and a RoleBinding in each namespace that has producers.

The Role grants all that a sidecar calls: it reads and lists pods of its namespace, annotates its own pod and removes a
gate. The sidecar's account takes the place of the namespace's default account in the pod, so it has the pull secrets of
that account too. Invariants: two replicas that make the account at once end with the same; an object that isn't ours is
used as it is and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from fluence_extender.cluster.errors import Conflict
from fluence_extender.cluster.port import Json, Objects
from fluence_extender.model.coordination import SIDECAR_ACCOUNT
from fluence_extender.model.names import CREATED_BY_ANNOTATION, WEBHOOK_NAME

log = structlog.get_logger(__name__)

RBAC = "rbac.authorization.k8s.io"
RULES: list[Json] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]
TRIES = 3
"""How often an object that another replica changes at the same time is read and written again."""


async def make_account(objects: Objects, namespace: str) -> None:
    """Make what is missing of the account in ``namespace`` and correct what differs. Raises `ClusterError`."""
    default = await objects.read(f"/api/v1/namespaces/{namespace}/serviceaccounts/default") or {}
    for path, wanted in manifests(namespace, default.get("imagePullSecrets") or []):
        for _ in range(TRIES):
            try:
                await _make_or_correct(objects, path, wanted)
            except Conflict:
                continue
            break


async def _make_or_correct(objects: Objects, path: str, wanted: Json) -> None:
    found = await objects.read(path)
    if found is None:
        await objects.create(path, wanted)
        log.info("an object of the sidecars' account is made", path=path)
    elif (correction := corrected(found, wanted)) is not None:
        await objects.replace(path, correction)
        log.info("an object of the sidecars' account is corrected", path=path)


def manifests(namespace: str, pull_secrets: list[Json]) -> list[tuple[str, Json]]:
    """Return path and content of the three objects, in the order in which they are made."""
    metadata: Json = {
        "name": SIDECAR_ACCOUNT,
        "namespace": namespace,
        "labels": {"app": "fluence"},
        "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": RULES}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": SIDECAR_ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": SIDECAR_ACCOUNT, "namespace": namespace}],
    }
    rbac = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    return [
        (
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{SIDECAR_ACCOUNT}",
            {**account, **({"imagePullSecrets": pull_secrets} if pull_secrets else {})},
        ),
        (f"{rbac}/roles/{SIDECAR_ACCOUNT}", role),
        (f"{rbac}/rolebindings/{SIDECAR_ACCOUNT}", binding),
    ]


def corrected(found: Json, wanted: Mapping[str, Any]) -> Json | None:
    """Return ``found`` with the content it should have, None if it has that content or isn't ours."""
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    if annotations.get(CREATED_BY_ANNOTATION) != WEBHOOK_NAME:
        return None
    content = {key: wanted[key] for key in ("rules", "subjects", "imagePullSecrets") if key in wanted}
    for key in ("subjects", "imagePullSecrets"):
        if key in content:
            # An account that a user has bound to the sidecar's role stays bound.
            content[key] = [*content[key], *(one for one in found.get(key) or () if one not in content[key])]
    if all(_same_items(found.get(key), value) for key, value in content.items()):
        return None
    return {**found, **content}


def _same_items(found: Any, wanted: list[Json]) -> bool:
    """Return whether two lists hold the same items, in whatever order."""
    return isinstance(found, list) and len(found) == len(wanted) and all(one in found for one in wanted)
