"""The account of sidecars: a ServiceAccount, a Role and a RoleBinding in each namespace that has producers.

They are made when the first pod that needs them is admitted, and looked at again now and then as others are. What the
Role grants is all that a sidecar calls: it reads and lists pods of its namespace, annotates its own, removes a gate.
The pull secrets of the namespace's default account are the sidecar account's too, which takes its place in the pod.
Invariants: two replicas that make them at once agree; an object that isn't ours is used as it is and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from fluence_extender.cluster.cached import Cached
from fluence_extender.cluster.port import ClusterError, Conflict, Json, Objects
from fluence_extender.model.coordination import SIDECAR_ACCOUNT
from fluence_extender.model.names import CREATED_BY_ANNOTATION, WEBHOOK_NAME

log = structlog.get_logger(__name__)

RBAC = "rbac.authorization.k8s.io"
RULES: list[Json] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]
FRESH = 60.0
"""Seconds for which what was found is believed."""
REFUSED = 5.0
"""Seconds until a failure is followed by another try: admissions wait for it."""
TRIES = 3


class SidecarAccounts:
    """See the module docstring; ``clock`` gives seconds."""

    def __init__(self, objects: Objects, clock: Callable[[], float]) -> None:
        self._objects = objects
        self._answers = Cached(self._made, clock)

    async def ensure(self, namespace: str) -> bool:
        """Whether the account is there with its rights; made where it isn't. Doesn't raise for the API server."""
        return await self._answers.of(namespace)

    async def _made(self, namespace: str) -> tuple[bool, float]:
        try:
            await self._make(namespace)
        except ClusterError as error:
            log.warning("the account of sidecars can't be made", namespace=namespace, error=str(error))
            return False, REFUSED
        return True, FRESH

    async def _make(self, namespace: str) -> None:
        default = await self._objects.read(f"/api/v1/namespaces/{namespace}/serviceaccounts/default") or {}
        for path, body in manifests(namespace, default.get("imagePullSecrets") or []):
            await self._settle(path, body)

    async def _settle(self, path: str, wanted: Json) -> None:
        for _ in range(TRIES):
            try:
                found = await self._objects.read(path)
                if found is None:
                    await self._objects.create(path, wanted)
                    log.info("made for sidecars", path=path)
                elif (mended := corrected(found, wanted)) is not None:
                    await self._objects.replace(path, mended)
                    log.info("mended for sidecars", path=path)
                return
            except Conflict:
                continue


def manifests(namespace: str, pull_secrets: list[Json]) -> list[tuple[str, Json]]:
    """Path and content of the three objects, in the order in which they are made."""
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
    """``found`` with what it should say; None where it says so, or isn't ours."""
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    if annotations.get(CREATED_BY_ANNOTATION) != WEBHOOK_NAME:
        return None
    said = {key: wanted[key] for key in ("rules", "subjects", "imagePullSecrets") if key in wanted}
    for key in ("subjects", "imagePullSecrets"):
        if key in said:
            # Whoever binds an account of their own to the sidecar's role keeps that.
            said[key] = [*said[key], *(one for one in found.get(key) or () if one not in said[key])]
    if all(_alike(found.get(key), value) for key, value in said.items()):
        return None
    return {**found, **said}


def _alike(found: Any, wanted: list[Json]) -> bool:
    """Whether two lists hold the same, in whatever order."""
    return isinstance(found, list) and len(found) == len(wanted) and all(one in found for one in wanted)
