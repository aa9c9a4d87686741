"""What the operations of the port mean for an engine of ours, and which job ids there can be."""

from __future__ import annotations

from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.errors import InvalidJobspec
from fluence_extender.matcher.port import MatchOp

ALLOCATING = (
    MatchOp.ALLOCATE,
    MatchOp.ALLOCATE_WITH_SATISFIABILITY,
    MatchOp.ALLOCATE_ORELSE_RESERVE,
)
"""Those that hold what they find."""

LARGEST_JOBID = 2**63 - 1
CANCELED_REMEMBERED = 100_000
"""Of so many canceled jobs it is still known that they were there."""


def operation_named(op: MatchOp | str) -> MatchOp:
    """The operation of that name. Raises `InvalidJobspec`."""
    if not isinstance(op, str) or op not in MatchOp.__members__.values():
        raise InvalidJobspec(f"unknown match operation {shown(op)}")
    return MatchOp(op)


def check_jobid(jobid: int) -> None:
    """Raise `InvalidJobspec` unless it is a job id."""
    if isinstance(jobid, bool) or not isinstance(jobid, int) or not 0 <= jobid <= LARGEST_JOBID:
        raise InvalidJobspec(f"a job id is an integer from 0 to {LARGEST_JOBID}, not {shown(jobid)}")
