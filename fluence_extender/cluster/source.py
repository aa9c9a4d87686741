"""What is watched: for each kind where it is listed, how it is decoded, and how it is told to the sink."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.decode import (
    config_map_source,
    decode_node,
    decode_pod,
    decode_resources_file,
)
from fluence_extender.cluster.decode_workload import (
    decode_coscheduling_group,
    decode_job,
    decode_job_set,
    decode_leader_worker_set,
    decode_mpi_job,
    decode_pod_group,
    decode_ray_cluster,
)
from fluence_extender.cluster.discovery import OPTIONAL, Discovery
from fluence_extender.cluster.port import Changed, Deleted, Kind, Observation, ResourcesFile, Watched
from fluence_extender.cluster.timing import STANDARD, Timing
from fluence_extender.model.names import RESOURCES_CONFIGMAP


@dataclass(frozen=True, slots=True)
class Source:
    """One kind's list-watch.

    ``locate`` answers the path of the list, or None while the API server doesn't serve the kind; ``selector`` is a
    field selector; ``absent`` is what stands for an empty list, if anything does, and for a deleted object.
    """

    kind: Kind
    resource: str
    locate: Callable[[], Awaitable[str | None]]
    decode: Callable[[bytes], Watched]
    selector: str = ""
    absent: tuple[Watched, ...] = field(default=())

    def removal(self, last: Watched) -> Observation:
        """What the sink is told when an object was deleted."""
        return Changed(self.kind, self.absent[0]) if self.absent else Deleted(self.kind, last)


def _at(path: str) -> Callable[[], Awaitable[str | None]]:
    async def locate() -> str | None:
        return path

    return locate


OPTIONAL_DECODERS: Mapping[Kind, Callable[[bytes], Watched]] = {
    Kind.POD_GROUP: decode_pod_group,
    Kind.COSCHEDULING_GROUP: decode_coscheduling_group,
    Kind.JOB_SET: decode_job_set,
    Kind.LEADER_WORKER_SET: decode_leader_worker_set,
    Kind.MPI_JOB: decode_mpi_job,
    Kind.RAY_CLUSTER: decode_ray_cluster,
}


def sources(connection: Connection, timing: Timing = STANDARD) -> list[Source]:
    """Nodes, pods and Jobs of the whole cluster, and the kinds of workloads that it may serve."""
    discovery = Discovery(connection, timing.rediscover / 2)

    def finding(kind: Kind) -> Callable[[], Awaitable[str | None]]:
        return lambda: discovery.find(kind)

    return [
        Source(Kind.NODE, "nodes", _at("/api/v1/nodes"), decode_node),
        Source(Kind.POD, "pods", _at("/api/v1/pods"), decode_pod),
        Source(Kind.JOB, "jobs.batch", _at("/apis/batch/v1/jobs"), decode_job),
        *(
            Source(kind, OPTIONAL[kind].name, finding(kind), decode)
            for kind, decode in OPTIONAL_DECODERS.items()
        ),
    ]


def config_map(namespace: str, name: str = RESOURCES_CONFIGMAP) -> Source:
    """The one ConfigMap that holds resources.yaml; where it isn't there, a `ResourcesFile` without text."""
    return Source(
        Kind.RESOURCES_FILE,
        f"configmaps/{name} in namespace {namespace}",
        _at(f"/api/v1/namespaces/{namespace}/configmaps"),
        decode_resources_file,
        selector=f"metadata.name={name}",
        absent=(ResourcesFile(config_map_source(namespace, name), None),),
    )
