"""The counted half of the embedded engine: matching on compact graph documents by arithmetic over counts."""

from __future__ import annotations

from fluence_extender.matcher.counted.engine import CountedMatcher, create_counted_matcher

__all__ = ["CountedMatcher", "create_counted_matcher"]
