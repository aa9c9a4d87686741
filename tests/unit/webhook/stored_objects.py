"""Objects stored as an API server stores them: with versions, and refusing writes of an older version."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.webhook.lookups import ApiLookups
from fluence_extender.webhook.producers import ProducerClaims

Json = dict[str, Any]


class StoredObjects:
    """``before`` is called before each call with its verb and path, and may raise the answer; ``token`` returns the
    answer to a TokenRequest.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda verb, path: None
        self.token: Callable[[Json], str] = lambda body: ""
        self._version = 0

    async def read(self, path: str) -> Json | None:
        self._called("read", path)
        return copy.deepcopy(self.objects.get(path))

    async def create(self, path: str, body: Json) -> Json:
        self._called("create", path)
        if path in self.objects:
            raise Conflict("already exists", 409)
        return self.put(path, body)

    async def replace(self, path: str, body: Json) -> Json:
        self._called("replace", path)
        stored = self.objects[path]
        if body["metadata"].get("resourceVersion") != stored["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified", 409)
        return self.put(path, body)

    async def post(self, path: str, body: Json) -> Json:
        self._called("post", path)
        return {"status": {"token": self.token(body)}}

    def put(self, path: str, body: Json) -> Json:
        """Store an object as another program would."""
        self._version += 1
        kept = copy.deepcopy(body)
        kept.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        kept["metadata"].setdefault("uid", f"uid-{self._version}")
        self.objects[path] = kept
        return copy.deepcopy(kept)

    def writes(self) -> list[tuple[str, str]]:
        return [call for call in self.calls if call[0] != "read"]

    def _called(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        self.before(verb, path)


def lookups_on(objects: StoredObjects, clock: Callable[[], float]) -> ApiLookups:
    """Return lookups on ``objects``, with one clock for everything."""
    return ApiLookups(objects, ProducerClaims(objects, "fluence-system", clock), clock)


def refusing(verb: str, error: ClusterError | None = None) -> Callable[[str, str], None]:
    """Return a ``before`` that answers each call of this verb with an error."""

    def before(called: str, path: str) -> None:
        if called == verb:
            raise error or Denied(f"{verb} is forbidden (HTTP 403)", 403)

    return before


def unreachable(verb: str, path: str) -> None:
    raise ClusterError("the API server can't be reached")
