"""Read and patch pods on the API server, with the rights of `webhook.sidecar_account`: get, list and patch of pods.

Each patch carries the pod's uid and may be repeated. A strategic merge patch identifies a gate by its name, so other
gates stay, whatever their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote

import msgspec

from fluence_extender.cluster.connection import STRATEGIC_PATCH, ApiRequest, Connection
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.cluster.port import Json
from fluence_extender.model.coordination import READY_GATE
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.objects.meta import decode_page

PAGE = 500

T = TypeVar("T")


class ApiReleases:
    """Releases consumers of any namespace, over a `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod`` and remove `READY_GATE`, in one step."""
        removal = {"$patch": "delete", "name": READY_GATE}
        await self._patch(
            _path(pod.namespace, pod.name),
            f"remove gate {READY_GATE} of pod {pod.key}",
            {**_annotated(pod.uid, annotations), "spec": {"schedulingGates": [removal]}},
        )

    async def annotate(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Annotate ``pod``."""
        path = _path(pod.namespace, pod.name)
        await self._patch(path, f"annotate pod {pod.key}", _annotated(pod.uid, annotations))

    async def _patch(self, path: str, attempt: str, body: Json) -> None:
        await self._connection.call(ApiRequest("PATCH", path, attempt, None, body, STRATEGIC_PATCH))


class ApiPods(ApiReleases):
    """`release.Pods` over a `Connection`."""

    def __init__(self, connection: Connection, namespace: str, name: str, uid: str) -> None:
        super().__init__(connection)
        self._namespace = namespace
        self._name = name
        self._uid = uid

    async def own(self) -> Pod:
        """Return the pod that this process runs in."""
        return await self._read(self._name)

    async def annotate_own(self, annotations: Mapping[str, str]) -> None:
        """Annotate the pod that this process runs in."""
        path = _path(self._namespace, self._name)
        await self._patch(path, f"annotate our own pod {self._name}", _annotated(self._uid, annotations))

    async def group(self, name: str) -> list[Pod]:
        """Return the pods with the group's label."""
        found: list[Pod] = []
        query: dict[str, str | int] = {"labelSelector": f"{GROUP_LABEL}={name}", "limit": PAGE}
        while True:
            request = ApiRequest("GET", _path(self._namespace), f"list the pods of group {name}", query)
            page = _decoded(decode_page, await self._connection.call(request))
            found += [_decoded(decode_pod, bytes(one)) for one in page.items or ()]
            if not page.metadata.next_page:
                return found
            query["continue"] = page.metadata.next_page

    async def named(self, names: Sequence[str]) -> list[Pod]:
        """Return the pods with these names, without those that don't exist."""
        found: list[Pod] = []
        for name in names:
            with suppress(Gone):
                found.append(await self._read(name))
        return found

    async def _read(self, name: str) -> Pod:
        request = ApiRequest("GET", _path(self._namespace, name), f"read pod {name}")
        return _decoded(decode_pod, await self._connection.call(request))


def _path(namespace: str, name: str = "") -> str:
    """Return the path of the pods of a namespace, or of the pod with that name."""
    pods = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    return f"{pods}/{quote(name, safe='')}" if name else pods


def _annotated(uid: str, annotations: Mapping[str, str]) -> Json:
    return {"metadata": {"uid": uid, "annotations": dict(annotations)}}


def _decoded(decode: Callable[[bytes], T], raw: bytes) -> T:
    try:
        return decode(raw)
    except msgspec.MsgspecError as error:
        raise ClusterError(f"the API server's answer can't be read: {error}") from error
