"""The watched kinds: for each the path of its list, its decoder, and the values that the sink gets.

Several kinds are optional, so the watch finds out whether and in which version the API server serves them. PodGroup
went through v1alpha2 (Kubernetes 1.36), v1alpha3 and v1beta1 (1.37), each behind a feature gate and without conversion
between the first two (KEP-4671). The kinds of custom resources come and go with their definitions. One list of API
groups, read now and then, answers for all optional kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from fluence_extender.cluster.connection import ApiRequest, Connection
from fluence_extender.cluster.decode.node import config_map_source, decode_node, decode_resources_file
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.errors import Gone
from fluence_extender.cluster.pacing import STANDARD, Timing
from fluence_extender.cluster.port import Changed, Deleted, Kind, Observation, ResourcesFile, Watched
from fluence_extender.kinds.registry import KINDS
from fluence_extender.kinds.served import Api
from fluence_extender.model.names import DOMAIN, QUEUE_VERSION, RESOURCES_CONFIGMAP
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.devices import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    read_device_class,
    read_resource_claim,
    read_resource_claim_template,
    read_resource_slice,
)
from fluence_extender.objects.queues import (
    KueueQueue,
    Namespace,
    NodeReservation,
    PriorityClass,
    Queue,
    read_kueue_queue,
    read_namespace,
    read_priority_class,
    read_queue,
    read_reservation,
)
from fluence_extender.objects.resource_quota import ResourceQuota, read_resource_quota

GROUPS = "/apis"
RESOURCE = "resource.k8s.io"
ATTEMPT = "find out what is served"
Decoder = Callable[[bytes], Watched]

REQUIRED: Mapping[Kind, tuple[str, Decoder]] = {
    Node: ("/api/v1/nodes", decode_node),
    Pod: ("/api/v1/pods", decode_pod),
    Namespace: ("/api/v1/namespaces", read_namespace),
    PriorityClass: ("/apis/scheduling.k8s.io/v1/priorityclasses", read_priority_class),
    ResourceQuota: ("/api/v1/resourcequotas", read_resource_quota),
    **{
        kind.values: (f"/apis/{kind.api.api_version}/{kind.api.plural}", kind.decode)
        for kind in KINDS
        if not kind.api.optional
    },
}
"""The kinds that every API server serves: the path of the list of all objects, and their decoder."""

OPTIONAL: Mapping[Kind, tuple[Api, Decoder]] = {
    **{kind.values: (kind.api, kind.decode) for kind in KINDS if kind.api.optional},
    Queue: (Api("Queue", DOMAIN, (QUEUE_VERSION,)), read_queue),
    NodeReservation: (Api("Reservation", DOMAIN, (QUEUE_VERSION,)), read_reservation),
    KueueQueue: (Api("LocalQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1")), read_kueue_queue),
    ResourceSlice: (Api("ResourceSlice", RESOURCE), read_resource_slice),
    DeviceClass: (Api("DeviceClass", RESOURCE), read_device_class),
    ResourceClaim: (Api("ResourceClaim", RESOURCE), read_resource_claim),
    ResourceClaimTemplate: (Api("ResourceClaimTemplate", RESOURCE), read_resource_claim_template),
}
"""The kinds that an API server may serve: the API that serves them, and their decoder."""


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class Discovery:
    """Finds out what the API server serves. The list of groups is read again after ``fresh`` seconds."""

    def __init__(self, connection: Connection, fresh: float = 0.0) -> None:
        self._connection = connection
        self._fresh = fresh
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._versions: dict[str, frozenset[str]] = {}

    async def find(self, kind: Kind) -> str | None:
        """Return the path that lists all objects of the kind, None if it isn't served. Raise `ClusterError`."""
        wanted, _ = OPTIONAL[kind]
        served = (await self._groups()).get(wanted.group, frozenset())
        for version in wanted.versions:
            path = f"{GROUPS}/{wanted.group}/{version}"
            if version in served and await self._has(path, wanted.plural):
                return f"{path}/{wanted.plural}"
        return None

    async def _groups(self) -> dict[str, frozenset[str]]:
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now - self._read_at >= self._fresh:
                self._versions = await self._read_groups()
                self._read_at = now
            return self._versions

    async def _read_groups(self) -> dict[str, frozenset[str]]:
        try:
            body = await self._connection.call(ApiRequest("GET", GROUPS, ATTEMPT))
            groups = msgspec.json.decode(body, type=_Groups).groups
        except (Gone, msgspec.MsgspecError):
            return {}
        return {group.name: frozenset(one.version for one in group.versions) for group in groups}

    async def _has(self, path: str, resource: str) -> bool:
        try:
            body = await self._connection.call(ApiRequest("GET", path, ATTEMPT))
            return any(one.name == resource for one in msgspec.json.decode(body, type=_Resources).resources)
        except (Gone, msgspec.MsgspecError):
            return False


@dataclass(frozen=True, slots=True)
class Source:
    """One kind that is watched.

    ``locate`` returns the path of its list, or None while the API server doesn't serve the kind. ``selector`` is a
    field selector. ``absent``, if given, stands for an empty list and for a deleted object.
    """

    kind: Kind
    resource: str
    locate: Callable[[], Awaitable[str | None]]
    decode: Decoder
    selector: str = ""
    absent: tuple[Watched, ...] = field(default=())

    def removal(self, last: Watched) -> Observation:
        """Return the observation of a deleted object; ``last`` is its last known state."""
        return Changed(self.absent[0]) if self.absent else Deleted(last)


def _at(path: str) -> Callable[[], Awaitable[str | None]]:
    async def locate() -> str | None:
        return path

    return locate


def sources(connection: Connection, timing: Timing = STANDARD) -> list[Source]:
    """Return the nodes, pods and their usual owners of the whole cluster, and the workloads that it may serve."""
    discovery = Discovery(connection, timing.rediscover / 2)

    return [
        *(Source(kind, _resource(path), _at(path), decode) for kind, (path, decode) in REQUIRED.items()),
        *(
            Source(kind, api.resource, partial(discovery.find, kind), decode)
            for kind, (api, decode) in OPTIONAL.items()
        ),
    ]


def _resource(path: str) -> str:
    """Return the name of a resource in messages and in RBAC rules."""
    group, _, plural = path.removeprefix("/apis/").rpartition("/")
    return plural if path.startswith("/api/") else f"{plural}.{group.partition('/')[0]}"


def config_map(namespace: str) -> Source:
    """Return the ConfigMap that holds resources.yaml; while there is none, it is a `ResourcesFile` without text."""
    return Source(
        ResourcesFile,
        f"configmaps/{RESOURCES_CONFIGMAP} in namespace {namespace}",
        _at(f"/api/v1/namespaces/{namespace}/configmaps"),
        decode_resources_file,
        selector=f"metadata.name={RESOURCES_CONFIGMAP}",
        absent=(ResourcesFile(config_map_source(namespace, RESOURCES_CONFIGMAP), None),),
    )
