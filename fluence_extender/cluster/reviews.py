"""Ask the API server who a client is and what the client may do: TokenReview, SubjectAccessReview, front proxy.

A review is a POST that writes nothing. A standby also makes reviews, so they use a connection without a permit.
"""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.connection import ApiRequest, Connection
from fluence_extender.cluster.errors import Gone
from fluence_extender.model.access import Caller, Right

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
FRONT_PROXY = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

LIMIT = 4.0
"""Seconds for one review; the client waits for it."""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_token_review = msgspec.json.Decoder(_TokenReview).decode
_access_review = msgspec.json.Decoder(_AccessReview).decode
_config_map = msgspec.json.Decoder(_ConfigMap).decode


class ApiReviews:
    """`gate.Reviews` on an API server. Each call may raise a `ClusterError`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def caller(self, token: str) -> Caller | None:
        """Return the owner of the bearer token, None if the API server doesn't accept it for itself."""
        # Without audiences the API server demands that the token is for one of its own.
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = _token_review(await self._post(TOKENS, "review a token", body)).status
        if not status.authenticated or not status.user.username:
            return None
        user = status.user
        extra = tuple((key, tuple(values)) for key, values in sorted((user.extra or {}).items()))
        return Caller(user.username, tuple(user.groups or ()), user.uid, extra)

    async def allowed(self, caller: Caller, right: Right) -> bool:
        """Return whether the caller has the right."""
        spec: dict[str, object] = {
            "user": caller.name,
            "groups": list(caller.groups),
            "uid": caller.uid,
            "extra": {key: list(values) for key, values in caller.extra},
        }
        if right.path:
            spec["nonResourceAttributes"] = {"verb": right.verb, "path": right.path}
        else:
            spec["resourceAttributes"] = {
                "verb": right.verb,
                "group": right.group,
                "resource": right.resource,
                "namespace": right.namespace,
            }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = _access_review(
            await self._post(ACCESS, f"review whether {caller.name} may {right}", body)
        ).status
        return status.allowed and not status.denied

    async def front_proxy(self) -> dict[str, str]:
        """Return the settings of the API server's front proxy, {} if it publishes none."""
        request = ApiRequest("GET", FRONT_PROXY, "read the settings of the front proxy")
        try:
            return _config_map(await self._connection.call(request, LIMIT)).data or {}
        except Gone:
            return {}

    async def _post(self, path: str, attempt: str, body: object) -> bytes:
        return await self._connection.call(ApiRequest("POST", path, attempt, body=body), LIMIT, patient=False)
