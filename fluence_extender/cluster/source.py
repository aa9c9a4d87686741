"""What is watched: for each kind where it is listed, how it is decoded, and how it is told to the sink."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.decode import (
    config_map_source,
    decode_job,
    decode_node,
    decode_pod,
    decode_pod_group,
    decode_resources_file,
)
from fluence_extender.cluster.discovery import find_pod_groups
from fluence_extender.cluster.port import Changed, Deleted, Kind, Observation, ResourcesFile, Watched
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


def sources(connection: Connection) -> list[Source]:
    """Nodes, pods, Jobs and PodGroups of the whole cluster."""

    async def pod_groups() -> str | None:
        return await find_pod_groups(connection)

    return [
        Source(Kind.NODE, "nodes", _at("/api/v1/nodes"), decode_node),
        Source(Kind.POD, "pods", _at("/api/v1/pods"), decode_pod),
        Source(Kind.JOB, "jobs.batch", _at("/apis/batch/v1/jobs"), decode_job),
        Source(Kind.POD_GROUP, "podgroups.scheduling.k8s.io", pod_groups, decode_pod_group),
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
