"""Holds on a node that is known beforehand: what a match would take there, without looking for it.

Invariant: where it isn't certain that the match would succeed and leave just this, nothing is said.
"""

from __future__ import annotations

from errno import EBUSY

from fluence_extender.matcher.counted.booking import Books
from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.jobs import Job, Share
from fluence_extender.matcher.counted.ranges import Ranges, take_highest, take_lowest
from fluence_extender.matcher.counted.request import GRAPH_END
from fluence_extender.matcher.counted.state import State
from fluence_extender.matcher.embedded.last_errno import LAST_ERRNO
from fluence_extender.matcher.port import Hold


def job_of(graph: CompactGraph, books: Books, hold: Hold) -> Job | None:
    """The job that the match for ``hold`` would be; None where that has to be asked."""
    state = graph.state
    row = state.index.by_rank.get(hold.rank)
    if (
        row is None
        or hold.jobid in books
        or books.later
        or state.policy.whole_nodes
        # A walk leaves EBUSY if it refused a vertex on its way; once that is there it doesn't matter.
        or LAST_ERRNO.value != EBUSY
        or not (hold.counts.keys() <= graph.leaf_types)
        or not state.tree.types.isdisjoint(hold.counts)
        or not state.table.reachable[row]
        or state.table.held[row]
    ):
        return None
    node = state.table.node(row)
    taken = _taken(state, row, hold)
    if not taken:
        return None
    share = Share(row, int(state.table.serial[row]), node, taken, False, False)
    return Job(hold.jobid, 0, GRAPH_END, False, (share,), frozenset((node.level,)))


def _taken(state: State, row: int, hold: Hold) -> tuple[tuple[str, Ranges], ...]:
    """The units that the policy takes first; none where a type hasn't as many free."""
    take = take_lowest if state.policy.ascending else take_highest
    taken: list[tuple[str, Ranges]] = []
    for name, count in hold.counts.items():
        column = state.table.columns.get(name)
        if column is None or not 0 < count <= column.free[row]:
            return ()
        taken.append((name, take(column.free_units(row), count)[0]))
    return tuple(taken)
