"""All cases, by group of rules."""

from __future__ import annotations

from tests.conformance.cases import basics, counts, levels, planning, pools
from tests.conformance.session import Case

CASES: list[Case] = [*basics.CASES, *levels.CASES, *counts.CASES, *planning.CASES, *pools.CASES]
