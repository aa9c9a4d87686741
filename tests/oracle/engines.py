"""The two engines, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle.fluxion import create_fluxion_matcher
from tests.oracle.port import Matcher, MatcherOptions
from tests.oracle.walker import Walker

Create = Callable[[Any, MatcherOptions], Matcher]
"""Loads a JGF document, parsed or as text."""

ENGINES: dict[str, Create] = {"oracle": Walker, "fluxion": create_fluxion_matcher}


def create(engine: str, graph: Any, options: MatcherOptions | None = None) -> Matcher:
    """Load ``graph`` into a new matcher of ``engine``, which is ``oracle``, or ``fluxion`` for libreapi_cli.

    Raises `InvalidGraph`, `InvalidOptions`, and `EngineUnavailable` where no library is found.
    """
    return ENGINES[engine](graph, options or MatcherOptions())
