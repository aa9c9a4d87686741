"""What one live job holds, in the terms that every part of the engine understands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fluence_extender.matcher.counted.jobs import Job, Share
from fluence_extender.matcher.embedded import Walker
from fluence_extender.matcher.port import Jgf, JobInfo, Match


@dataclass(frozen=True, slots=True)
class Holding:
    """``paths`` are those of single vertices, leaves too, held for ``duration`` seconds from ``info.at`` on.

    A job that a caller's id and the engine's own count both named has several.
    """

    jobid: int
    info: JobInfo
    duration: int
    paths: tuple[str, ...]
    allocated: bool
    """Held by a job, not by a reservation."""

    def tell(self, walker: Walker) -> None:
        """Book it in a walker too. Raises `MatcherError`."""
        walker.hold(self.jobid, self.info, self.duration, self.paths, allocated=self.allocated)


def holding_of(job: Job, mode: str, shares: Iterable[Share]) -> Holding:
    """What a counted job holds by ``shares`` of its own: physical nodes and leaves of them."""
    paths: list[str] = []
    for share in shares:
        node = share.node
        if share.whole:
            paths.append(node.path)
        pools = {pool.type: pool for pool in node.pools}
        for name, units in share.taken:
            pool = pools[name]
            stem = f"{node.path}/{pool.basename}"
            paths += [f"{stem}{pool.id + unit}" for low, high in units for unit in range(low, high)]
    info = JobInfo(mode, job.reserved, job.start)
    return Holding(job.id, info, job.end - job.start, tuple(paths), job.start == 0 or not job.reserved)


def held_paths(match: Match) -> tuple[str, ...]:
    """The paths of what a match of the walker holds exclusively."""
    return tuple(_path(metadata) for metadata in _listed(match) if metadata.get("exclusive"))


def listed_paths(match: Match) -> tuple[str, ...]:
    """The paths of all that a match of the walker lists."""
    return tuple(_path(metadata) for metadata in _listed(match))


def _listed(match: Match) -> Iterator[Jgf]:
    listed = match.R
    return (entry["metadata"] for entry in (listed["graph"]["nodes"] if isinstance(listed, dict) else ()))


def _path(metadata: Jgf) -> str:
    path: str = metadata["paths"]["containment"]
    return path
