"""The count of nodes that comes before any search (fluxion reference 4.2).

It decides some refusals by itself: more nodes asked for than are up is EBUSY, or ENODEV with the satisfiability
operation, even if the nodes are merely down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fluence_extender.matcher.counted.booking import Books
from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.document import NODE
from fluence_extender.matcher.counted.request import GRAPH_END, constraint_of
from fluence_extender.matcher.counted.schedule import view_of
from fluence_extender.matcher.counted.walked import is_up
from fluence_extender.matcher.embedded.jobspec import Jobspec
from fluence_extender.matcher.embedded.planner import whole_seconds
from fluence_extender.matcher.embedded.request import Level
from fluence_extender.matcher.port import MatchOp


def enough_nodes(
    graph: CompactGraph, books: Books, jobspec: Jobspec, text: Mapping[str, Any], op: MatchOp
) -> bool:
    """Whether there are as many nodes as the jobspec names, up, allowed by its constraint, not held.

    ``text`` is the jobspec as it was given.
    """
    wanted = Level(jobspec.resources, (NODE,)).counts.get(NODE, 0) if graph.state.nodes_counted else 0
    if wanted > graph.nodes_up:
        return False
    constraint = jobspec.constraint
    duration = whole_seconds(jobspec.duration, GRAPH_END) or 0
    if constraint is None or not wanted:
        return True
    ever = op is MatchOp.ALLOCATE_WITH_SATISFIABILITY
    now = op in (MatchOp.ALLOCATE, MatchOp.WITHOUT_ALLOCATING)
    at = 0 if now else GRAPH_END - 1
    state, table = graph.state, graph.state.table
    held = view_of(state, books, 0, duration).held if now else table.held_forever
    end = table.size
    serving = state.index.mask(constraint_of(text), table) & table.alive[:end] & ~held[:end]
    if not ever:
        serving = serving & table.up[:end]
    found = int(np.count_nonzero(serving))
    if found >= wanted:
        return True
    found += graph.count_walked(
        lambda vertex: (
            constraint(vertex) and (ever or is_up(vertex)) and vertex.free_during(at, duration) == 1
        )
    )
    return found >= wanted
