"""The writes about Jobs that are placed before their pods exist.

A Job is resumed only while its expected pods have the places that the patch names. Nothing is retried here: a failed
write is reported to `ExpectedPods`, which decides anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict, Gone, NoAnswer, PodsUnknown
from fluence_extender.cluster.port import Cluster, Regarding
from fluence_extender.gangs.execution.actions import FindShapes, NoteJob, Requeue, Resume
from fluence_extender.gangs.execution.fence import Fence
from fluence_extender.gangs.execution.slots import FairSlots
from fluence_extender.gangs.lifecycle.lifecycle import Lifecycle
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.wording import WithNames
from fluence_extender.model.workload import Resumable

log = structlog.get_logger(__name__)

FORESEEING_AT_ONCE = 8
"""The most dry runs of pods at the same time. A restart may find thousands of waiting Jobs."""

AGAIN = 1.0
"""Seconds until a failed write is reported to `ExpectedPods`."""

CHANGED = 0.25
"""Seconds until the same if the Job has changed, as a new Job of a JobSet does. The watch soon shows the change."""

REFUSED = (403, 422)
"""The HTTP statuses by which the API server refuses a Job's pods for good, or refuses to suspend the Job."""

REQUEUED = "Requeued"
"""The reason of the Event of a Job that was sent back in line."""

LONGEST_EVENT = 1000
"""The most characters of an Event's message; the API server accepts 1,024."""

JobAction = FindShapes | Resume | Requeue | NoteJob
Later = Callable[[float, Callable[[str], None], str], None]


class JobWrites:
    """Carries out the actions about Jobs. ``later`` calls a function with a uid after some seconds, and then wakes.

    ``writes`` are the slots of all writes; dry runs have slots of their own.
    """

    def __init__(
        self, registry: Registry, lifecycle: Lifecycle, fence: Fence, later: Later, writes: FairSlots
    ) -> None:
        self._registry = registry
        self._lifecycle = lifecycle
        self._expected_pods = lifecycle.expected_pods
        self._fence = fence
        self._later = later
        self._writes = writes
        self._foreseeing = FairSlots(FORESEEING_AT_ONCE)

    def subject(self, action: JobAction) -> str:
        """Return a key for the object that the action writes to. Writes to one object are made in order."""
        return _jobs(action)[0].uid

    def turn(self, action: JobAction) -> AbstractAsyncContextManager[None]:
        """Return the turn of an action."""
        jobs = _jobs(action)
        slots = self._foreseeing if isinstance(action, FindShapes) else self._writes
        return slots.taken(jobs[0].namespace, sum(job.size for job in jobs))

    async def carry_out(self, action: JobAction) -> None:
        """Make the write, and report its outcome."""
        match action:
            case FindShapes(job):
                await self._find_shapes(job)
            case Resume():
                await self._resume(action)
            case Requeue():
                await self._requeue(action)
            case NoteJob():
                await self._note_job(action)

    async def _find_shapes(self, job: Resumable) -> None:
        try:
            pods = await self._fence.write(lambda cluster: cluster.dry_run(job))
        except Gone:
            return
        except ClusterError as error:
            if isinstance(error, PodsUnknown) or error.status in REFUSED:
                log.info("a workload's pods can't be known beforehand", job=_named(job), error=str(error))
                self._later(0.0, partial(self._expected_pods.shapes_unknown, why=str(error)), job.uid)
            else:
                log.warning(
                    "a workload's pods aren't known yet; trying again", job=_named(job), error=str(error)
                )
                self._later(_patience(error), self._expected_pods.shapes_unknown, job.uid)
            return
        self._later(0.0, lambda _: self._expected_pods.expected(job, pods), job.uid)

    async def _resume(self, action: Resume) -> None:
        job = action.job
        if action.uids and not self._still_planned(action):
            self._lifecycle.not_resumed(job.uid)
            return
        try:
            await self._fence.write(
                lambda cluster: cluster.resume(job, action.nodes, action.placed_with, action.bound)
            )
        except Gone:
            return
        except ClusterError as error:
            log.warning("workload not resumed; trying again", job=_named(job), error=str(error))
            failed = partial(self._lifecycle.not_resumed, unclear=isinstance(error, NoAnswer))
            self._later(_patience(error), failed, job.uid)
            return
        self._lifecycle.resumed(action.uids)

    def _still_planned(self, action: Resume) -> bool:
        """Return whether the expected pods have the places that the patch gives them, or any without a plan."""
        found = (self._registry.member(uid) for uid in action.uids)
        places = {one[1].pod.uid: one[1].assignment for one in found if one is not None}
        if not action.nodes:
            return all(places.get(uid) is not None for uid in action.uids)
        wanted = {f"{action.job.uid}/{index}": node for index, node in enumerate(action.nodes) if node}
        return wanted == {uid: place.node for uid, place in places.items() if place is not None}

    async def _requeue(self, action: Requeue) -> None:
        """Suspend the workloads of a gang, where the disruption budgets allow it for all its pods at this moment."""
        try:
            blocked = await self._fence.write(lambda cluster: cluster.eviction_block(action.pods))
        except ClusterError as error:
            self._not_requeued(action, f"PodDisruptionBudgets can't be read: {error}", AGAIN)
            return
        if blocked is not None:
            self._not_requeued(action, f"can't be suspended now: {blocked.reason}", AGAIN)
            return
        for job in action.jobs:
            try:
                await self._fence.write(partial(_suspend, job=job, since=action.since))
            except Gone:
                continue
            except ClusterError as error:
                if error.status in REFUSED:
                    log.warning(
                        "workload not suspended; its pods are evicted", job=_named(job), error=str(error)
                    )
                    self._lifecycle.requeues.refused(job.uid)
                self._not_requeued(action, f"can't be suspended: {error}", _patience(error))
                return
            await self._tell(job, REQUEUED, f"back in line: {action.reason}")
        self._note(action, HistoryKind.REQUEUED, action.reason, action.with_names)
        for pod in action.pods:
            self._lifecycle.preemption.eviction_accepted(pod.uid)

    async def _tell(self, job: Resumable, what: str, text: str) -> None:
        about = Regarding(job.api_version, job.kind, job.namespace, job.name, job.uid)
        await self._fence.write(lambda cluster: cluster.event(about, what, text[:LONGEST_EVENT], True))

    def _not_requeued(self, action: Requeue, why: str, pause: float) -> None:
        log.warning("gang not sent back in line; trying again", gang=str(action.gang), error=why)
        self._note(action, HistoryKind.FAILED, why)
        if action.again:
            failed = partial(self._lifecycle.preemption.eviction_failed, why=why)
            for pod in action.pods:
                self._later(pause, failed, pod.uid)

    def _note(
        self, action: Requeue, kind: HistoryKind, detail: str, with_names: WithNames | None = None
    ) -> None:
        gang = self._registry.gangs.get(action.gang)
        if gang is not None:
            gang.note(kind, "", detail, with_names)

    async def _note_job(self, action: NoteJob) -> None:
        job = action.job
        try:
            await self._fence.write(lambda cluster: cluster.note_job(job, action.met))
        except ClusterError as error:
            if not isinstance(error, Gone):
                log.warning("not noted on a workload; trying again", job=_named(job), error=str(error))
            reports = self._lifecycle.job_reports
            self._later(_patience(error), lambda _: reports.not_noted(job), job.uid)


def _jobs(action: JobAction) -> tuple[Resumable, ...]:
    """Return the workloads to which an action writes, all of one namespace."""
    match action:
        case Requeue(_, jobs):
            return jobs
        case _:
            return (action.job,)


async def _suspend(cluster: Cluster, job: Resumable, since: tuple[float, int]) -> None:
    await cluster.hold_job(job, since)


def _patience(error: ClusterError) -> float:
    return CHANGED if isinstance(error, Conflict) else AGAIN


def _named(job: Resumable) -> str:
    return f"{job.namespace}/{job.name}"
