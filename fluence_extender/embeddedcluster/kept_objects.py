"""Objects of the embedded cluster that are read and written whole, by their path, as the API server keeps them."""

from __future__ import annotations

import copy
import itertools

from fluence_extender.cluster.errors import Conflict, Gone
from fluence_extender.cluster.port import Json


class KeptObjects:
    """`port.Objects` in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Json] = {}
        self._versions = itertools.count(1)

    async def read(self, path: str) -> Json | None:
        """See `Objects.read`."""
        return copy.deepcopy(self._kept.get(path))

    async def create(self, path: str, body: Json) -> Json:
        """See `Objects.create`."""
        if path in self._kept:
            raise Conflict(f"{path} exists", 409)
        return self._put(path, body)

    async def post(self, path: str, body: Json) -> Json:
        """Refuse: no such object is served here."""
        raise Gone(f"{path} isn't served", 404)

    async def replace(self, path: str, body: Json) -> Json:
        """See `Objects.replace`."""
        stored = self._kept.get(path)
        if stored is None:
            raise Gone(f"there is no {path}", 404)
        if body["metadata"].get("resourceVersion") != stored["metadata"]["resourceVersion"]:
            raise Conflict(f"{path} has been changed", 409)
        return self._put(path, body)

    def _put(self, path: str, body: Json) -> Json:
        version = {"resourceVersion": str(next(self._versions))}
        self._kept[path] = {**copy.deepcopy(body), "metadata": {**body["metadata"], **version}}
        return copy.deepcopy(self._kept[path])
