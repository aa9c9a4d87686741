"""Ledgers on the embedded engine, in fine and in coarse units."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.node import Node
from tests.core.engine import COARSE_EMBEDDED, FINE_EMBEDDED, CoreEngine

MakeLedger = Callable[..., Ledger]


@pytest.fixture(params=[FINE_EMBEDDED, COARSE_EMBEDDED], ids=["fine", "coarse"])
def make(request: pytest.FixtureRequest) -> MakeLedger:
    engine: CoreEngine = request.param

    def ledger(*nodes: Node, resources: str = "", policy: str = "lonode") -> Ledger:
        made = engine.ledger(policy)
        made.load(nodes, parse_resources(resources))
        return made

    return ledger
