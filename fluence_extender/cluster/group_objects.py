"""PodGroups as objects: made, resized and removed, in whichever version the API server serves them."""

from __future__ import annotations

from typing import Any

from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.discovery import Discovery
from fluence_extender.cluster.port import Gone, Kind
from fluence_extender.model.names import CREATED_BY_ANNOTATION, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.pod import Owner
from fluence_extender.model.workload import CoschedulingGroup, PodGroup

Group = PodGroup | CoschedulingGroup
MERGE_PATCH = "application/merge-patch+json"
FRESH = 30.0
"""Seconds for which what is served is believed."""


class ApiPodGroups:
    """PodGroups of both kinds; every call raises a `ClusterError` subclass or was accepted."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._discovery = Discovery(connection, FRESH)

    async def make(self, kind: type[Group], name: tuple[str, str], size: int, owner: Owner | None) -> None:
        """Make a group with our mark. Raises `Conflict` where there is one of that name, `Gone` where none can be."""
        listed = await self._listed(kind)
        body = manifest(listed, kind, name, size, owner)
        attempt = f"create PodGroup {name[0]}/{name[1]}"
        await self._connection.call(Request("POST", _folder(listed, name[0]), attempt, body=body))

    async def resize(self, group: Group, size: int) -> None:
        """Change its size. Raises `errors.Invalid` where that can't be changed, `Gone`."""
        listed = await self._listed(type(group))
        body = {"metadata": {"uid": group.uid}, "spec": _sized(type(group), size)}
        attempt = f"resize PodGroup {group.namespace}/{group.name}"
        path = f"{_folder(listed, group.namespace)}/{group.name}"
        await self._connection.call(Request("PATCH", path, attempt, body=body, content_type=MERGE_PATCH))

    async def remove(self, group: Group) -> None:
        """Remove it as it was seen: a group that somebody has edited since is left alone. Raises `Conflict`, `Gone`."""
        listed = await self._listed(type(group))
        seen = {"uid": group.uid, "resourceVersion": group.provenance.version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen}
        attempt = f"delete PodGroup {group.namespace}/{group.name}"
        path = f"{_folder(listed, group.namespace)}/{group.name}"
        await self._connection.call(Request("DELETE", path, attempt, body=body))

    async def _listed(self, kind: type[Group]) -> str:
        found = await self._discovery.find(Kind.POD_GROUP if kind is PodGroup else Kind.COSCHEDULING_GROUP)
        if found is None:
            raise Gone("no PodGroups are served any more", 404)
        return found


def manifest(
    listed: str, kind: type[Group], name: tuple[str, str], size: int, owner: Owner | None
) -> dict[str, Any]:
    """The group as it is made; ``listed`` is the path under which all groups are listed."""
    metadata: dict[str, Any] = {
        "name": name[1],
        "namespace": name[0],
        "labels": {"app": "fluence", GROUP_LABEL: name[1]},
        "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
    }
    if owner is not None:
        reference = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
        }
        metadata["ownerReferences"] = [reference]
    version = listed.removeprefix("/apis/").rpartition("/")[0]
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": _sized(kind, size)}


def _sized(kind: type[Group], size: int) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": size}}} if kind is PodGroup else {"minMember": size}


def _folder(listed: str, namespace: str) -> str:
    api, _, resource = listed.rpartition("/")
    return f"{api}/namespaces/{namespace}/{resource}"
