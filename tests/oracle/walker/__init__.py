"""The walker: libreapi_cli's matching of jobspecs on resource graphs, in Python alone.

It visits the graph in libreapi_cli's order, scores and sorts as it does, and so grants the same vertices to the same
sequence of requests.

Input: `reader` and `growth` (JGF), `jobspec`, `constraint`, `request`. State: `graph`, `planner`, `pruning`. Choice:
`search` finds the time, `traverser` the vertices, `scoring`, `policy` and `std_sort` the best of them. Output: `grant`
books them, `resource_set` books what an R lists, `writer` writes R. `walker` is the whole behind the port.
"""

from __future__ import annotations

from tests.oracle.walker.walker import Walker

__all__ = ["Walker"]
