"""Which version of PodGroup the API server serves, if any.

PodGroup went through v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37), each behind a switch and without
conversion between the first two, so the version is asked for (KEP-4671).
"""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.port import Gone

GROUP = "/apis/scheduling.k8s.io"
RESOURCE = "podgroups"
ATTEMPT = "find out which PodGroups are served"
PREFERRED = ("v1", "v1beta1", "v1alpha3", "v1alpha2")


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] = []


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


async def find_pod_groups(connection: Connection) -> str | None:
    """The path under which all PodGroups are listed; None where none are served. Raises `ClusterError`."""
    try:
        group = msgspec.json.decode(await connection.call(Request("GET", GROUP, ATTEMPT)), type=_Group)
    except (Gone, msgspec.MsgspecError):
        return None
    served = {version.version for version in group.versions}
    for version in PREFERRED:
        if version in served and await _has_pod_groups(connection, version):
            return f"{GROUP}/{version}/{RESOURCE}"
    return None


async def _has_pod_groups(connection: Connection, version: str) -> bool:
    try:
        body = await connection.call(Request("GET", f"{GROUP}/{version}", ATTEMPT))
        return any(
            resource.name == RESOURCE for resource in msgspec.json.decode(body, type=_Resources).resources
        )
    except (Gone, msgspec.MsgspecError):
        return False
