"""Whole objects by their path: read, made, replaced. Invariant: a replacement never undoes somebody else's write."""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.port import Gone, Json


class ApiObjects:
    """Objects of the API server. Every call raises `ClusterError`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, path: str) -> Json | None:
        """The object at ``path`` as it is now, None where there is none (or no such kind)."""
        try:
            body = await self._connection.call(Request("GET", path, f"read {path}"))
        except Gone:
            return None
        found: Json = msgspec.json.decode(body)
        return found

    async def create(self, path: str, body: Json) -> Json:
        """Make the object that is to stand at ``path``. Raises `Conflict` where it is there already."""
        collection = path.rpartition("/")[0]
        answer = await self._connection.call(Request("POST", collection, f"create {path}", body=body))
        made: Json = msgspec.json.decode(answer)
        return made

    async def replace(self, path: str, body: Json) -> Json:
        """Write an object that was read and altered. Raises `Conflict` where it has changed since, `Gone`."""
        answer = await self._connection.call(Request("PUT", path, f"replace {path}", body=body))
        made: Json = msgspec.json.decode(answer)
        return made
