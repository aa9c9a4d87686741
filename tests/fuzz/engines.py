"""The engines that documents are offered to, by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from fluence_extender.matcher import create_matcher
from fluence_extender.matcher.embedded import EmbeddedMatcher
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.port import Matcher, MatcherOptions
from tests.fuzz.trials import Create


def _counting(graph: Any, options: MatcherOptions) -> Matcher:
    """The embedded engine, counting graphs of any size."""
    return EmbeddedEngine(graph, options, fewest_counted=0)


CREATE: dict[str, Create] = {
    "embedded": partial(create_matcher, "embedded"),
    "counting": _counting,
    "walker": EmbeddedMatcher,
    "fluxion": partial(create_matcher, "fluxion"),
}
