"""The counted half of the embedded engine: compact graphs, matched by arithmetic over counts.

It answers the usual requests of production: slots of leaves from now on, holds on known nodes, virtual devices, status,
and nodes that join and leave. Everything else is `Uncountable`, and the walker takes the graph over.

`document` reads a compact graph; `skeleton` splits it into physical nodes, which `table` and `tree` hold as arrays, and
the few vertices that are walked; `search` finds slots with `scoring`; `matcher` keeps the jobs; `handover` makes a
walker of the whole graph.
"""

from __future__ import annotations

from fluence_extender.matcher.counted.document import Uncountable, is_compact
from fluence_extender.matcher.counted.matcher import CountedMatcher
from fluence_extender.matcher.counted.result import compact_placement, compact_r

__all__ = ["CountedMatcher", "Uncountable", "compact_placement", "compact_r", "is_compact"]
