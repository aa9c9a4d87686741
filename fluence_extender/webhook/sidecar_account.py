"""Keep the account of sidecars: in each namespace with a sidecar a ServiceAccount, a Role, a RoleBinding and a token.

The Role grants all calls of a sidecar: it reads and lists pods of its namespace, annotates its own pod and removes a
gate. The pod keeps the account that its user has chosen. A sidecar with this account would give its rights to the
user's containers. So it has a token of its own in a Secret, which only the sidecar mounts.

These objects are made once the pod exists, so a review alone creates nothing. The pod is gated until it has a place,
and the kubelet starts no container of it before the Secret exists.

The token ends an hour after it was made, or with the Secret. It is renewed at half that time while the namespace has a
sidecar. Invariants: two replicas that make an object at the same time get the same result. An object that isn't ours is
used unchanged.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from fluence_extender.cluster.errors import Conflict
from fluence_extender.cluster.port import Json, Objects, Observation, follow_pods
from fluence_extender.cluster.reconciler import Reconciler
from fluence_extender.model.coordination import (
    OBSERVE_LABEL,
    PRODUCER,
    QPU,
    ROLE_ANNOTATION,
    SIDECAR_ACCOUNT,
    TOKEN_KEY,
)
from fluence_extender.model.names import CREATED_BY_ANNOTATION, WEBHOOK_NAME
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

RBAC = "rbac.authorization.k8s.io"
RULES: list[Json] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]
TRIES = 3
"""The number of tries to write an object that another replica changes at the same time."""

TOKEN_LASTS = 3600
"""The requested lifetime of a token in seconds. API servers may choose another one."""
RENEW_BELOW = TOKEN_LASTS / 2
SHORTEST_LOOK = 60.0
"""The fewest seconds between two checks of a token."""


class SidecarAccountReconciler(Reconciler[str]):
    """Keeps the account in each namespace that has a sidecar; ``now`` returns seconds since the epoch."""

    def __init__(self, objects: Objects, now: Callable[[], float] = time.time) -> None:
        super().__init__("the account of sidecars")
        self._objects = objects
        self._now = now
        self._namespace_of: dict[str, str] = {}

    def observe(self, seen: Observation) -> None:
        """Note an observation, of whatever kind."""
        follow_pods(seen, self._namespace_of, self._put, self._drop)

    async def reconcile(self, namespace: str) -> float | None:
        """Create the missing objects of the account, correct those that differ, and renew the token."""
        if namespace not in self._namespace_of.values():
            return None
        for path, wanted in manifests(namespace):
            await self._make_or_correct(path, wanted)
        return await self._keep_token(namespace)

    def _put(self, pod: Pod) -> None:
        if not has_sidecar(pod):
            self._drop(pod.uid)
        elif pod.uid not in self._namespace_of:
            self._namespace_of[pod.uid] = pod.namespace
            self.enqueue((pod.namespace,))

    def _drop(self, uid: str) -> None:
        self._namespace_of.pop(uid, None)

    async def _make_or_correct(self, path: str, wanted: Json) -> None:
        for _ in range(TRIES):
            found = await self._objects.read(path)
            try:
                if found is None:
                    await self._objects.create(path, wanted)
                    log.info("an object of the sidecars' account is made", path=path)
                elif (correction := corrected(found, wanted)) is not None:
                    await self._objects.replace(path, correction)
                    log.info("an object of the sidecars' account is corrected", path=path)
            except Conflict:
                continue
            return

    async def _keep_token(self, namespace: str) -> float | None:
        """Renew the token if that is due. Return the seconds until it is due, None if the Secret isn't ours."""
        core = f"/api/v1/namespaces/{namespace}"
        path = f"{core}/secrets/{SIDECAR_ACCOUNT}"
        secret = await self._objects.read(path) or await self._objects.create(path, _secret(namespace))
        if not _is_ours(secret):
            log.warning("the Secret of sidecars isn't ours and is used as it is", namespace=namespace)
            return None
        stored = (secret.get("data") or {}).get(TOKEN_KEY, "")
        left = seconds_left(_decoded(stored), self._now())
        if left < RENEW_BELOW:
            request = _token_request(secret["metadata"]["uid"])
            answer = await self._objects.post(f"{core}/serviceaccounts/{SIDECAR_ACCOUNT}/token", request)
            token = str(answer["status"]["token"]).encode()
            data = {TOKEN_KEY: base64.b64encode(token).decode()}
            await self._objects.replace(path, {**secret, "data": data})
            left = seconds_left(token, self._now())
        return max(left - RENEW_BELOW, SHORTEST_LOOK)


def has_sidecar(pod: Pod) -> bool:
    """Return whether admission gives the pod a sidecar, and the pod hasn't ended."""
    coordinated = pod.annotations.get(ROLE_ANNOTATION) == PRODUCER or pod.labels.get(OBSERVE_LABEL) == "true"
    return pod.ours and not pod.finished and QPU in pod.devices and coordinated


def manifests(namespace: str) -> list[tuple[str, Json]]:
    """Return path and content of the account, its Role and its RoleBinding, in the order in which they are made."""
    metadata = _metadata(namespace)
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
        (f"/api/v1/namespaces/{namespace}/serviceaccounts/{SIDECAR_ACCOUNT}", account),
        (f"{rbac}/roles/{SIDECAR_ACCOUNT}", role),
        (f"{rbac}/rolebindings/{SIDECAR_ACCOUNT}", binding),
    ]


def corrected(found: Json, wanted: Mapping[str, Any]) -> Json | None:
    """Return ``found`` with the content it should have, None if it has that content or isn't ours."""
    content = {key: wanted[key] for key in ("rules", "subjects") if key in wanted}
    if not _is_ours(found) or all(_same_items(found.get(key), value) for key, value in content.items()):
        return None
    return {**found, **content}


def seconds_left(token: bytes, now: float) -> float:
    """Return for how many seconds a token (RFC 7519) is valid, 0 if it can't be read."""
    try:
        claims = token.split(b".")[1]
        expires = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))["exp"]
        return max(float(expires) - now, 0.0)
    except (ValueError, LookupError, TypeError):
        return 0.0


def _metadata(namespace: str) -> Json:
    return {
        "name": SIDECAR_ACCOUNT,
        "namespace": namespace,
        "labels": {"app": "fluence"},
        "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
    }


def _secret(namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": _metadata(namespace)}


def _token_request(secret_uid: str) -> Json:
    """Return the request for a token that ends with the Secret."""
    bound = {"apiVersion": "v1", "kind": "Secret", "name": SIDECAR_ACCOUNT, "uid": secret_uid}
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_LASTS, "boundObjectRef": bound},
    }


def _is_ours(found: Json) -> bool:
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(CREATED_BY_ANNOTATION) == WEBHOOK_NAME)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except ValueError:
        return b""


def _same_items(found: Any, wanted: list[Json]) -> bool:
    """Return whether two lists have the same items in any order."""
    return isinstance(found, list) and len(found) == len(wanted) and all(one in found for one in wanted)
