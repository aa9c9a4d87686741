"""The counted half of the embedded engine: matching on compact graph documents by arithmetic over counts."""

from __future__ import annotations

from fluence_extender.matcher.counted.engine import CountedMatcher
from fluence_extender.matcher.counted.holding import Holding, held_paths, listed_paths
from fluence_extender.matcher.counted.uncountable import Uncountable

__all__ = ["CountedMatcher", "Holding", "Uncountable", "held_paths", "listed_paths"]
