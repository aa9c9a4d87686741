"""All cases, by group of rules."""

from __future__ import annotations

from tests.oracle.conformance.cases import (
    basics,
    changes,
    choice,
    constraints,
    counts,
    levels,
    planning,
    pools,
    replaying,
    requests,
)
from tests.oracle.conformance.session import Case

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
)

CASES: list[Case] = [shown for group in _GROUPS for shown in group.CASES]
