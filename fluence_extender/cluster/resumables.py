"""The kinds of workloads that wait without pods: how they are suspended, and what their first pods would be.

A row of `RESUMABLES` has all that the cluster room needs for a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.operators import decode_mpi_job, decode_ray_cluster
from fluence_extender.cluster.port import Json
from fluence_extender.kinds.pod_sets import trial_of
from fluence_extender.kinds.registry import POD_MAKERS
from fluence_extender.model.workload import Job, MpiJob, RayCluster, Resumable


@dataclass(frozen=True, slots=True)
class ResumableKind:
    """A kind of workload: the class of its values, and the plural of its kind, ``resource``.

    ``suspend`` is the path of the field in its spec that suspends it.
    """

    values: type[Resumable]
    resource: str
    suspend: tuple[str, ...]
    decode: Callable[[bytes], Resumable]

    def path(self, workload: Resumable) -> str:
        """Return the path of one of them."""
        return (
            f"/apis/{self.values.api_version}/namespaces/{workload.namespace}/{self.resource}/{workload.name}"
        )

    def first_pods(self, workload: Json) -> list[Json]:
        """Return a pod of each shape, for a dry run, in the order of `Resumable.groups`.

        Raise `BadManifest`, and what reading a mapping of another form raises.
        """
        sets = list(POD_MAKERS[self.values.kind].pods(workload))
        # A Job has a shape even while its parallelism is 0.
        shapes = [one for one in sets if one.count and not one.later] or sets[:1]
        namespace = workload["metadata"]["namespace"]
        return [trial_of(one.first(namespace)) for one in shapes]

    def suspending(self, suspended: bool) -> Json:
        """Return the spec of the patch that suspends or resumes one of them."""
        found: Any = suspended
        for name in reversed(self.suspend):
            found = {name: found}
        return dict(found)


RESUMABLES: Mapping[type[Resumable], ResumableKind] = {
    Job: ResumableKind(Job, "jobs", ("suspend",), decode_job),
    MpiJob: ResumableKind(MpiJob, "mpijobs", ("runPolicy", "suspend"), decode_mpi_job),
    RayCluster: ResumableKind(RayCluster, "rayclusters", ("suspend",), decode_ray_cluster),
}
