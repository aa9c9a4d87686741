"""All cases, by group of rules."""

from __future__ import annotations

from tests.conformance.cases import (
    basics,
    changes,
    choice,
    constraints,
    counts,
    finding,
    levels,
    planning,
    pools,
    releasing,
    replaying,
    requests,
)
from tests.conformance.session import Case

_GROUPS = (
    basics,
    levels,
    counts,
    pools,
    constraints,
    planning,
    choice,
    changes,
    replaying,
    requests,
    releasing,
    finding,
)

CASES: list[Case] = [shown for group in _GROUPS for shown in group.CASES]
