"""What both engines share: operations, job ids, and cancelled jobs."""

from __future__ import annotations

from tests.oracle.errors import InvalidJobspec, UnknownJob, shown
from tests.oracle.port import JobInfo, MatchOp

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
