"""What all engines share: operations, job ids, cancelled jobs, and holds.

A hold is the match of a request for one slot on one given node, such as for a pod that already runs there. An engine
that finds the outcome without a search answers faster, and leaves the same state as the match.
"""

from __future__ import annotations

from typing import Any

from fluence_extender.matcher.errors import InvalidJobspec, MatcherError, UnknownJob, shown
from fluence_extender.matcher.port import Allocator, Hold, JobInfo, MatchOp, Placement

ALLOCATING = (
    MatchOp.ALLOCATE,
    MatchOp.ALLOCATE_WITH_SATISFIABILITY,
    MatchOp.ALLOCATE_ORELSE_RESERVE,
)
"""The operations that allocate or reserve what they find."""

LARGEST_JOBID = 2**63 - 1
REMEMBERED = 100_000
"""The most cancelled jobs that are remembered."""


def operation_named(op: MatchOp | str) -> MatchOp:
    """Return the operation of that name. Raises `InvalidJobspec`."""
    if not isinstance(op, str) or op not in MatchOp.__members__.values():
        raise InvalidJobspec(f"unknown match operation {shown(op)}")
    return MatchOp(op)


def check_jobid(jobid: int) -> None:
    """Raise `InvalidJobspec` unless ``jobid`` is one that libreapi_cli can take."""
    if isinstance(jobid, bool) or not isinstance(jobid, int) or not 0 <= jobid <= LARGEST_JOBID:
        raise InvalidJobspec(f"a job id is an integer from 0 to {LARGEST_JOBID}, not {shown(jobid)}")


class JobHistory:
    """The latest cancelled jobs: id -> start, in seconds on the matcher's clock."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}

    def add(self, jobid: int, start: int) -> None:
        """Remember a job that was cancelled, and forget the oldest one if there are too many."""
        self._starts[jobid] = start
        if len(self._starts) > REMEMBERED:
            del self._starts[next(iter(self._starts))]

    def forget(self, jobid: int) -> None:
        """Forget a job whose id is in use again."""
        self._starts.pop(jobid, None)

    def info(self, jobid: int) -> JobInfo:
        """Return the state of a cancelled job. Raises `UnknownJob`."""
        if jobid not in self._starts:
            raise UnknownJob(f"there was no job {jobid}")
        return JobInfo("CANCELED", False, self._starts[jobid])


def hold_by_match(matcher: Allocator, hold: Hold) -> Placement | MatcherError:
    """Hold leaves of a node by a match, on an engine without a faster way; return the grant, or why there is none."""
    try:
        return matcher.match(MatchOp.ALLOCATE, _jobspec_of(hold), hold.jobid).placement
    except MatcherError as error:
        return error


def _jobspec_of(hold: Hold) -> dict[str, Any]:
    """Return the request for one slot, without an end, on the node of the rank (RFC 14, RFC 31)."""
    leaves = [{"type": leaf, "count": count} for leaf, count in hold.counts.items()]
    return {
        "version": 9999,
        "resources": [{"type": "slot", "count": 1, "label": "default", "with": leaves}],
        "attributes": {"system": {"duration": 0, "constraints": {"ranks": [str(hold.rank)]}}},
        "tasks": [{"command": ["hold"], "slot": "default", "count": {"per_slot": 1}}],
    }
