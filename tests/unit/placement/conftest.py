"""A planner on a real ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from fluence_extender.graph.containment import LEVELS
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.node import Node
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.room.ledger import Ledger
from tests.core.engine import ENGINES, CoreEngine
from tests.core.planning import LedgerPlanner

Bench = tuple[LedgerPlanner, Ledger, EligibilityIndex]
MakeBench = Callable[..., Bench]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> CoreEngine:
    one: CoreEngine = request.param
    return one


@pytest.fixture
def bench(engine: CoreEngine) -> MakeBench:
    def make(
        nodes: Iterable[Node],
        resources: str = "",
        policy: str = "lonode",
        levels: Mapping[str, str] = LEVELS,
    ) -> Bench:
        ledger = engine.ledger(policy, levels)
        index = EligibilityIndex()
        present = list(nodes)
        for one in present:
            index.put(one)
        ledger.load(present, parse_resources(resources))
        planner = LedgerPlanner(ledger, index, chooser=engine.chooser(ledger, policy))
        return planner, ledger, index

    return make
