"""The writes about workloads that wait without pods, and about Jobs whose pods are created with their nodes.

Invariants: a Job is only resumed or suspended in the version that was observed, so no change by its user or another
replica is overruled. A call may be repeated: it succeeds if the Job is already in the wanted state. The code relies on
these rules of Kubernetes (1.36, pkg/registry/batch/job): the annotations of a suspended Job's template may be changed
once the Job has no pods and its status says that it is suspended or has never started. The write that resumes the Job
may change them, too. Those of a running Job can't be changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import msgspec

from fluence_extender.cluster.bodies import hold_patch, note_patch, plan_patch, resume_patch
from fluence_extender.cluster.connection import MERGE_PATCH, METADATA_ONLY, ApiRequest, Connection
from fluence_extender.cluster.decode.charge import decode_charge
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.errors import Conflict, Gone, Invalid, NoAnswer, PodsUnknown
from fluence_extender.cluster.port import BINDS_FOR, Json
from fluence_extender.cluster.reads import try_pod
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.kinds.registry import KIND_OF
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.pod import Pod
from fluence_extender.objects.meta import readable

UNFIT = (msgspec.MsgspecError, BadManifest, LookupError, TypeError, AttributeError)
"""The errors that reading a manifest of another form raises."""


class _Status(msgspec.Struct):
    active: int = 0


class _Job(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class ApiJobs:
    """The Jobs' part of `port.Cluster` on an API server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def dry_run(self, job: Resumable) -> tuple[Pod, ...]:
        """See `Cluster.dry_run`. One GET of the workload and for each shape one POST of a pod with dryRun."""
        raw = await self._read(job)
        manifests = _first_pods(job, raw)
        created = _decoded(job, raw).created
        return tuple([replace(await self._tried(job, one), created=created) for one in manifests])

    async def _tried(self, job: Resumable, manifest: Json) -> Pod:
        """Return the pod that the API server would make, which is ours to place."""
        named = f"a pod of {_key(job)}"
        raw = (await try_pod(self._connection, manifest, f"try {named}")).raw
        pod = decode_pod(raw)
        if pod.node:
            raise PodsUnknown(f"{named} would be created on node {pod.node} (spec.nodeName)")
        if not pod.ours:
            raise PodsUnknown(f"{named} would be created for scheduler {pod.scheduler}")
        return replace(pod, charge=decode_charge(raw))

    async def resume(
        self, job: Resumable, nodes: Sequence[str], placed_with: str = "", bound: bool = False
    ) -> None:
        """See `Cluster.resume`. One PATCH; if it is refused or no answer comes, the workload is read back."""
        wanted = tuple(nodes)
        attempt = f"resume {_key(job)}"
        until = time.time() + BINDS_FOR if bound else None
        plan = plan_patch(wanted, placed_with, until) if isinstance(job, Job) else {}
        try:
            await self._patch(
                job,
                attempt,
                resume_patch(job, {**KIND_OF[type(job)].suspending(False), **plan}),
                lambda now: not now.suspended and now.nodes == wanted,
            )
        except Invalid as error:
            if msgspec.json.decode(await self._read(job), type=_Job).status.active:
                raise Conflict(f"{attempt}: pods from before it was suspended still exist", 409) from error
            raise

    async def hold_job(self, job: Resumable, queued_since: tuple[float, int]) -> None:
        """See `Cluster.hold_job`. One PATCH; if it is refused or no answer comes, the workload is read back."""
        await self._patch(
            job,
            f"suspend {_key(job)}",
            hold_patch(job, KIND_OF[type(job)].suspending(True), queued_since),
            lambda now: now.held_for_placement,
        )

    async def note_job(self, job: Resumable, met: Collection[str]) -> None:
        """See `Cluster.note_job`. One PATCH, for a Job of jobs/status, which can't change a spec.

        The status of other kinds, which are custom resources, takes no annotations.
        """
        path, attempt = _path(job), f"note what {_key(job)} has met"
        path += "/status" if isinstance(job, Job) else ""
        body = note_patch(job, met)
        await self._connection.call(
            ApiRequest("PATCH", path, attempt, None, body, MERGE_PATCH, METADATA_ONLY)
        )

    async def _patch(
        self, job: Resumable, attempt: str, body: Json, done: Callable[[Resumable], bool]
    ) -> None:
        request = ApiRequest("PATCH", _path(job), attempt, None, body, MERGE_PATCH, METADATA_ONLY)
        try:
            await self._connection.call(request)
        except (Conflict, Invalid, NoAnswer):
            if not done(_decoded(job, await self._read(job))):
                raise

    async def _read(self, job: Resumable) -> bytes:
        """Return the current workload. Raise `Gone` if it, or the one of that uid, doesn't exist any more."""
        raw = readable(await self._connection.call(ApiRequest("GET", _path(job), f"read {_key(job)}")))
        if _decoded(job, raw).uid != job.uid:
            raise Gone(f"{_key(job)} (uid {job.uid}) is gone; another one of that name took its place", 404)
        return raw


def _first_pods(job: Resumable, raw: bytes) -> list[Json]:
    """Return the manifests of the workload's first pods, one of each shape; ``raw`` is the present workload.

    Raise `Conflict` if its spec has changed since it was observed, and `PodsUnknown`.
    """
    if _decoded(job, raw).generation != job.generation:
        raise Conflict(f"{_key(job)} has changed", 409)
    try:
        return KIND_OF[type(job)].first_pods(
            {"apiVersion": job.api.api_version, "kind": job.api.kind, **msgspec.json.decode(raw)}
        )
    except UNFIT as error:
        raise PodsUnknown(f"the pods of {_key(job)} can't be told from its spec: {error!r}") from error


def _decoded(job: Resumable, raw: bytes) -> Resumable:
    """Return the present workload; ``job`` is what was last known of it."""
    workload = KIND_OF[type(job)].decode(raw)
    assert isinstance(workload, Resumable)
    return workload


def _path(job: Resumable) -> str:
    return job.api.path(job.namespace, job.name)


def _key(job: Resumable) -> str:
    return f"{job.api.kind} {job.namespace}/{job.name}"
