"""The jobs of a compact graph: what they hold in either half, and for how long.

The walker has ids of its own: a job has one there for each match it got there, and one where it holds a physical node
itself that has virtual vertices below it. Invariant: every job here is booked in the counted state or in the walker,
and nothing else is.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.jobs import Job, Share
from fluence_extender.matcher.errors import UnknownJob
from fluence_extender.matcher.port import Jgf, JobInfo

_CANCELED_REMEMBERED = 100_000


class Books:
    """All live jobs and the latest cancelled ones."""

    __slots__ = ("_canceled", "_info", "_walked", "counted", "later", "next_walked")

    def __init__(self) -> None:
        self.counted: dict[int, tuple[Job, ...]] = {}
        self.later: tuple[Job, ...] = ()
        """The counted jobs that start after now."""
        self._info: dict[int, JobInfo] = {}
        self._canceled: dict[int, JobInfo] = {}
        self._walked: dict[int, tuple[int, ...]] = {}
        self.next_walked = 1
        """The walker's id for the next job there."""

    def fork(self) -> Books:
        """An independent copy."""
        copy = Books()
        copy.counted = self.counted.copy()
        copy.later = self.later
        copy._info = self._info.copy()
        copy._canceled = self._canceled.copy()
        copy._walked = self._walked.copy()
        copy.next_walked = self.next_walked
        return copy

    def __contains__(self, jobid: int) -> bool:
        return jobid in self._info

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
        self._note(job.id, JobInfo("RESERVED" if job.reserved else "ALLOCATED", job.reserved, job.start))

    def book_walked(self, jobid: int, info: JobInfo) -> None:
        """Take up a job that the walker holds under the id `next_walked`."""
        self._hold_walked(jobid)
        self._note(jobid, info)

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
        self._canceled[jobid] = JobInfo("CANCELED", False, info.at)
        if len(self._canceled) > _CANCELED_REMEMBERED:
            del self._canceled[next(iter(self._canceled))]

    def _note(self, jobid: int, info: JobInfo) -> None:
        self._info[jobid] = info
        self._canceled.pop(jobid, None)

    def _hold_below(self, graph: CompactGraph, job: Job) -> None:
        """Hold in the skeleton the nodes that the job holds whole."""
        nested = [share for share in job.shares if share.whole and share.node.path in graph.nested]
        if not nested:
            return
        graph.walked.update_allocate(self.next_walked, _timed(graph, nested, job))
        self._hold_walked(job.id)

    def _hold_walked(self, jobid: int) -> None:
        self._walked[jobid] = (*self._walked.get(jobid, ()), self.next_walked)
        self.next_walked += 1


def _timed(graph: CompactGraph, shares: Sequence[Share], job: Job) -> Jgf:
    """R (RFC 20) of bare nodes for the time of the job."""
    nodes: list[Jgf] = []
    edges: list[Jgf] = []
    seen: dict[str, None] = {}
    for share in shares:
        path = share.node.path
        nodes.append(graph.walked.entry(path, exclusive=True))
        if share.entire:
            below = graph.walked.below(path)
            nodes.extend(graph.walked.entry(each, exclusive=True) for each in below)
            edges.extend({"source": each.rpartition("/")[0], "target": each} for each in below)
        while path.count("/") > 1:
            above = path.rpartition("/")[0]
            if path not in seen:
                edges.append({"source": above, "target": path})
                seen[path] = None
            if above not in seen and not any(entry["id"] == above for entry in nodes):
                nodes.append(graph.walked.entry(above, exclusive=False))
            path = above
    return {
        "version": 1,
        "execution": {"starttime": job.start, "expiration": job.end},
        "scheduling": {"graph": {"nodes": nodes, "edges": edges}},
    }
