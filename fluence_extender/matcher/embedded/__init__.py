"""The embedded engine: libreapi_cli's matching of jobspecs on resource graphs, in Python alone.

`EmbeddedMatcher` is the plain walker. It visits the graph in libreapi_cli's order, scores and sorts as it does, and so
grants the same vertices to the same sequence of requests (fluxion reference 4). `Walker` is that, to be had beside
another engine on the same graph.
"""

from __future__ import annotations

from fluence_extender.matcher.embedded.reapi import EmbeddedMatcher
from fluence_extender.matcher.embedded.walker import Walker

__all__ = ["EmbeddedMatcher", "Walker"]
