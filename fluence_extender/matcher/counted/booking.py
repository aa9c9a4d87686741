"""The jobs of a compact graph: what they hold in either half, and for how long.

The walker has ids of its own: a job has one there for each match it got there, and one where it holds a physical node
itself that has virtual vertices below it. Invariant: every job here is booked in the counted state or in the walker,
and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.holding import Holding, holding_of
from fluence_extender.matcher.counted.jobs import Job
from fluence_extender.matcher.counted.overlay import Overlay
from fluence_extender.matcher.counted.table import Ints
from fluence_extender.matcher.embedded.operations import CANCELED_REMEMBERED
from fluence_extender.matcher.errors import UnknownJob
from fluence_extender.matcher.port import JobInfo

ALLOCATED = JobInfo("ALLOCATED", False, 0)
"""What is known of most jobs."""


class Books:
    """All live jobs and the latest cancelled ones."""

    __slots__ = ("_canceled", "_granted", "_info", "_latest", "_walked", "counted", "later", "next_walked")

    def __init__(self) -> None:
        self.counted: Overlay[int, tuple[Job, ...]] = Overlay()
        self.later: tuple[Job, ...] = ()
        """The counted jobs that start after now."""
        self._info: Overlay[int, JobInfo] = Overlay()
        self._canceled: Overlay[int, JobInfo] = Overlay()
        self._walked: Overlay[int, tuple[int, ...]] = Overlay()
        self._granted: Overlay[int, tuple[Holding, ...]] = Overlay()
        """What the walker holds of its own, not for a physical node."""
        self._latest: Job | Holding
        self.next_walked = 1
        """The walker's id for the next job there."""

    def fork(self) -> Books:
        """An independent copy."""
        copy = Books()
        copy.counted = self.counted.fork()
        copy.later = self.later
        copy._info = self._info.fork()
        copy._canceled = self._canceled.fork()
        copy._walked = self._walked.fork()
        copy._granted = self._granted.fork()
        copy.next_walked = self.next_walked
        return copy

    def __contains__(self, jobid: int) -> bool:
        return jobid in self._info

    @property
    def canceled(self) -> Mapping[int, JobInfo]:
        """The latest cancelled jobs."""
        return self._canceled

    @property
    def latest(self) -> Holding:
        """What was booked last."""
        if isinstance(self._latest, Holding):
            return self._latest
        return holding_of(self._latest, self._info[self._latest.id].mode, self._latest.shares)

    def holdings(self, serial: Ints) -> Iterator[Holding]:
        """What the live jobs hold, part by part, but for what was removed: rows of another ``serial``."""
        for jobs in self.counted.values():
            for job in jobs:
                shares = [share for share in job.shares if serial[share.row] == share.serial]
                yield holding_of(job, self._info[job.id].mode, shares)
        for granted in self._granted.values():
            yield from granted

    def jobs(self) -> list[Job]:
        """The live counted jobs."""
        return [job for jobs in self.counted.values() for job in jobs]

    def info(self, jobid: int) -> JobInfo:
        """Raises `UnknownJob`."""
        info = self._info.get(jobid) or self._canceled.get(jobid)
        if info is None:
            raise UnknownJob(f"there was no job {jobid}")
        return info

    def book(self, graph: CompactGraph, job: Job) -> None:
        """Take up a counted job."""
        self._hold_below(graph, job)
        graph.state.commit(job)
        self.counted[job.id] = (*self.counted.get(job.id, ()), job)
        if job.start > 0:
            self.later = (*self.later, job)
        self._latest = job
        at_once = not job.reserved and job.start == 0
        info = ALLOCATED if at_once else JobInfo(_mode(job.reserved), job.reserved, job.start)
        self._note(job.id, info)

    def book_walked(self, holding: Holding) -> None:
        """Take up a job that the walker holds under the id `next_walked`."""
        jobid = holding.jobid
        self._hold_walked(jobid)
        self._granted[jobid] = (*self._granted.get(jobid, ()), holding)
        self._latest = holding
        self._note(jobid, holding.info)

    def cancel(self, graph: CompactGraph, jobid: int) -> None:
        """Free all that the job holds. Raises `UnknownJob`."""
        info = self._info.pop(jobid, None)
        if info is None:
            raise UnknownJob(f"no job {jobid} holds anything")
        for job in self.counted.pop(jobid, ()):
            graph.state.release(job)
            if job.start > 0:
                self.later = tuple(other for other in self.later if other is not job)
        for walked in self._walked.pop(jobid, ()):
            graph.walked.cancel(walked)
        self._granted.pop(jobid, None)
        self._canceled[jobid] = JobInfo("CANCELED", False, info.at)
        if len(self._canceled) > CANCELED_REMEMBERED:
            del self._canceled[next(iter(self._canceled))]

    def forget_below(self, path: str) -> None:
        """Note that the walked vertices at and below ``path`` are gone."""
        below = path + "/"
        for jobid, granted in list(self._granted.items()):
            if any(each == path or each.startswith(below) for one in granted for each in one.paths):
                self._granted[jobid] = tuple(_without(one, path, below) for one in granted)

    def _note(self, jobid: int, info: JobInfo) -> None:
        self._info[jobid] = info
        self._canceled.pop(jobid, None)

    def _hold_below(self, graph: CompactGraph, job: Job) -> None:
        """Hold in the skeleton the nodes that the job holds whole."""
        if not graph.nested:
            return
        nested = [share for share in job.shares if share.whole and share.node.path in graph.nested]
        if not nested:
            return
        paths = [share.node.path for share in nested]
        for share in nested:
            paths += graph.walked.below(share.node.path) if share.entire else ()
        info = JobInfo("", job.reserved, job.start)
        graph.walked.hold(
            self.next_walked, info, job.end - job.start, paths, allocated=job.start == 0 or not job.reserved
        )
        self._hold_walked(job.id)

    def _hold_walked(self, jobid: int) -> None:
        self._walked[jobid] = (*self._walked.get(jobid, ()), self.next_walked)
        self.next_walked += 1


def _mode(reserved: bool) -> str:
    return "RESERVED" if reserved else "ALLOCATED"


def _without(holding: Holding, path: str, below: str) -> Holding:
    paths = tuple(each for each in holding.paths if each != path and not each.startswith(below))
    return replace(holding, paths=paths)
