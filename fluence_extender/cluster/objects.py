"""Objects that are created, changed and deleted whole: any object by its path, and PodGroups.

Invariant: a replacement or a deletion never undoes a write of another client, because it names the version on which it
is based.
"""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.bodies import (
    AnyPodGroup,
    pod_group_manifest,
    pod_group_path,
    pod_group_spec,
)
from fluence_extender.cluster.connection import MERGE_PATCH, ApiRequest, Connection
from fluence_extender.cluster.errors import Gone
from fluence_extender.cluster.port import Json
from fluence_extender.cluster.sources import Discovery
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.model.pod import Owner

DISCOVERY_INTERVAL = 30.0
"""Seconds until the API server is asked again which PodGroups it serves."""


class ApiObjects:
    """`port.Objects` on an API server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, path: str) -> Json | None:
        """Return the object at ``path``, None if it or its kind doesn't exist."""
        try:
            body = await self._connection.call(ApiRequest("GET", path, f"read {path}"))
        except Gone:
            return None
        found: Json = msgspec.json.decode(body)
        return found

    async def create(self, path: str, body: Json) -> Json:
        """Create the object at ``path``. Raise `Conflict` if it exists."""
        collection = path.rpartition("/")[0]
        answer = await self._connection.call(ApiRequest("POST", collection, f"create {path}", body=body))
        created: Json = msgspec.json.decode(answer)
        return created

    async def post(self, path: str, body: Json) -> Json:
        """Send ``body`` to ``path`` itself, such as a TokenRequest, and return the answer."""
        answer = await self._connection.call(ApiRequest("POST", path, f"post to {path}", body=body))
        answered: Json = msgspec.json.decode(answer)
        return answered

    async def replace(self, path: str, body: Json) -> Json:
        """Write an object that was read and altered. Raise `Conflict` if it has changed since, or `Gone`."""
        answer = await self._connection.call(ApiRequest("PUT", path, f"replace {path}", body=body))
        replaced: Json = msgspec.json.decode(answer)
        return replaced


class ApiPodGroups:
    """PodGroups of both kinds, in whichever version the API server serves them.

    Each call may raise a `ClusterError`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._discovery = Discovery(connection, DISCOVERY_INTERVAL)

    async def make(
        self,
        kind: type[AnyPodGroup],
        name: tuple[str, str],
        size: int,
        owner: Owner | None = None,
        priority_class: str = "",
    ) -> None:
        """Create a PodGroup with the webhook's mark.

        An API server on which PodGroups have no priority drops the class.
        Raise `Conflict` if one of that name exists, and `Gone` if no PodGroups are served.
        """
        listed = await self._listed(kind)
        body = pod_group_manifest(listed, kind, name, size, owner)
        if kind is PodGroup and priority_class:
            body["spec"]["priorityClassName"] = priority_class
        attempt = f"create PodGroup {name[0]}/{name[1]}"
        await self._connection.call(ApiRequest("POST", pod_group_path(listed, name[0]), attempt, body=body))

    async def resize(self, group: AnyPodGroup, size: int) -> None:
        """Change the size of a PodGroup. Raise `errors.Invalid` if it can't be changed, or `Gone`."""
        body = {"metadata": {"uid": group.uid}, "spec": pod_group_spec(type(group), size)}
        attempt = f"resize PodGroup {group.namespace}/{group.name}"
        path = await self._path(group)
        await self._connection.call(ApiRequest("PATCH", path, attempt, body=body, content_type=MERGE_PATCH))

    async def remove(self, group: AnyPodGroup) -> None:
        """Delete a PodGroup in the state that was observed. Raise `Conflict` if it has changed since, or `Gone`."""
        observed = {"uid": group.uid, "resourceVersion": group.provenance.version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": observed}
        attempt = f"delete PodGroup {group.namespace}/{group.name}"
        path = await self._path(group)
        await self._connection.call(ApiRequest("DELETE", path, attempt, body=body))

    async def _path(self, group: AnyPodGroup) -> str:
        return pod_group_path(await self._listed(type(group)), group.namespace, group.name)

    async def _listed(self, kind: type[AnyPodGroup]) -> str:
        found = await self._discovery.find(PodGroup if kind is PodGroup else CoschedulingGroup)
        if found is None:
            raise Gone("no PodGroups are served any more", 404)
        return found
