"""The watched kinds: for each the path of its list, its decoder, and the values that the sink gets.

Several kinds are optional, so the watch finds out whether and in which version the API server serves them. PodGroup
went through v1alpha2 (Kubernetes 1.36), v1alpha3 and v1beta1 (1.37), each behind a feature gate and without conversion
between the first two (KEP-4671). The kinds of custom resources come and go with their definitions. One list of API
groups, read now and then, answers for all optional kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from fluence_extender.cluster.connection import ApiRequest, Connection
from fluence_extender.cluster.decode.devices import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_claim_template,
    decode_resource_slice,
)
from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.node import config_map_source, decode_node, decode_resources_file
from fluence_extender.cluster.decode.operators import (
    decode_job_set,
    decode_leader_worker_set,
    decode_mpi_job,
    decode_ray_cluster,
    decode_ray_job,
    decode_train_job,
)
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.decode.pod_groups import decode_coscheduling_group, decode_pod_group
from fluence_extender.cluster.decode.queue import (
    decode_kueue_queue,
    decode_namespace,
    decode_priority_class,
    decode_queue,
    decode_reservation,
)
from fluence_extender.cluster.decode.replicas import decode_replica_set, decode_stateful_set
from fluence_extender.cluster.decode.resource_quota import decode_resource_quota
from fluence_extender.cluster.errors import Gone
from fluence_extender.cluster.pacing import STANDARD, Timing
from fluence_extender.cluster.port import Changed, Deleted, Kind, Observation, ResourcesFile, Watched
from fluence_extender.model.names import DOMAIN, QUEUE_VERSION, RESOURCES_CONFIGMAP

GROUPS = "/apis"
RESOURCE = "resource.k8s.io"
ATTEMPT = "find out what is served"
Decoder = Callable[[bytes], Watched]


@dataclass(frozen=True, slots=True)
class OptionalKind:
    """A kind that the API server may serve.

    ``resource`` is its plural, ``versions`` are the versions that the decoder reads, the preferred one first.
    """

    group: str
    resource: str
    versions: tuple[str, ...]
    decode: Decoder

    @property
    def name(self) -> str:
        """Its name in messages and in RBAC rules."""
        return f"{self.resource}.{self.group}"


OPTIONAL: dict[Kind, OptionalKind] = {
    Kind.POD_GROUP: OptionalKind(
        "scheduling.k8s.io", "podgroups", ("v1", "v1beta1", "v1alpha3", "v1alpha2"), decode_pod_group
    ),
    Kind.COSCHEDULING_GROUP: OptionalKind(
        "scheduling.x-k8s.io", "podgroups", ("v1alpha1",), decode_coscheduling_group
    ),
    Kind.JOB_SET: OptionalKind("jobset.x-k8s.io", "jobsets", ("v1", "v1beta1", "v1alpha2"), decode_job_set),
    Kind.LEADER_WORKER_SET: OptionalKind(
        "leaderworkerset.x-k8s.io", "leaderworkersets", ("v1",), decode_leader_worker_set
    ),
    Kind.MPI_JOB: OptionalKind("kubeflow.org", "mpijobs", ("v2beta1",), decode_mpi_job),
    Kind.RAY_CLUSTER: OptionalKind("ray.io", "rayclusters", ("v1",), decode_ray_cluster),
    Kind.TRAIN_JOB: OptionalKind("trainer.kubeflow.org", "trainjobs", ("v1alpha1",), decode_train_job),
    Kind.RAY_JOB: OptionalKind("ray.io", "rayjobs", ("v1",), decode_ray_job),
    Kind.QUEUE: OptionalKind(DOMAIN, "queues", (QUEUE_VERSION,), decode_queue),
    Kind.RESERVATION: OptionalKind(DOMAIN, "reservations", (QUEUE_VERSION,), decode_reservation),
    Kind.KUEUE_QUEUE: OptionalKind(
        "kueue.x-k8s.io", "localqueues", ("v1beta2", "v1beta1"), decode_kueue_queue
    ),
    Kind.RESOURCE_SLICE: OptionalKind(RESOURCE, "resourceslices", ("v1",), decode_resource_slice),
    Kind.DEVICE_CLASS: OptionalKind(RESOURCE, "deviceclasses", ("v1",), decode_device_class),
    Kind.RESOURCE_CLAIM: OptionalKind(RESOURCE, "resourceclaims", ("v1",), decode_resource_claim),
    Kind.RESOURCE_CLAIM_TEMPLATE: OptionalKind(
        RESOURCE, "resourceclaimtemplates", ("v1",), decode_resource_claim_template
    ),
}


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
        wanted = OPTIONAL[kind]
        served = (await self._groups()).get(wanted.group, frozenset())
        for version in wanted.versions:
            path = f"{GROUPS}/{wanted.group}/{version}"
            if version in served and await self._has(path, wanted.resource):
                return f"{path}/{wanted.resource}"
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
        return Changed(self.kind, self.absent[0]) if self.absent else Deleted(self.kind, last)


def _at(path: str) -> Callable[[], Awaitable[str | None]]:
    async def locate() -> str | None:
        return path

    return locate


def sources(connection: Connection, timing: Timing = STANDARD) -> list[Source]:
    """Return the nodes, pods and their usual owners of the whole cluster, and the workloads that it may serve."""
    discovery = Discovery(connection, timing.rediscover / 2)

    return [
        Source(Kind.NODE, "nodes", _at("/api/v1/nodes"), decode_node),
        Source(Kind.POD, "pods", _at("/api/v1/pods"), decode_pod),
        Source(Kind.JOB, "jobs.batch", _at("/apis/batch/v1/jobs"), decode_job),
        Source(Kind.REPLICA_SET, "replicasets.apps", _at("/apis/apps/v1/replicasets"), decode_replica_set),
        Source(
            Kind.STATEFUL_SET, "statefulsets.apps", _at("/apis/apps/v1/statefulsets"), decode_stateful_set
        ),
        Source(Kind.NAMESPACE, "namespaces", _at("/api/v1/namespaces"), decode_namespace),
        Source(
            Kind.PRIORITY_CLASS,
            "priorityclasses.scheduling.k8s.io",
            _at("/apis/scheduling.k8s.io/v1/priorityclasses"),
            decode_priority_class,
        ),
        Source(Kind.RESOURCE_QUOTA, "resourcequotas", _at("/api/v1/resourcequotas"), decode_resource_quota),
        *(
            Source(kind, one.name, partial(discovery.find, kind), one.decode)
            for kind, one in OPTIONAL.items()
        ),
    ]


def config_map(namespace: str) -> Source:
    """Return the ConfigMap that holds resources.yaml; while there is none, it is a `ResourcesFile` without text."""
    return Source(
        Kind.RESOURCES_FILE,
        f"configmaps/{RESOURCES_CONFIGMAP} in namespace {namespace}",
        _at(f"/api/v1/namespaces/{namespace}/configmaps"),
        decode_resources_file,
        selector=f"metadata.name={RESOURCES_CONFIGMAP}",
        absent=(ResourcesFile(config_map_source(namespace, RESOURCES_CONFIGMAP), None),),
    )
