"""Ledgers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.node import Node
from fluence_extender.room.ledger import Ledger

MakeLedger = Callable[..., Ledger]


@pytest.fixture
def make() -> MakeLedger:
    def ledger(*nodes: Node, resources: str = "", policy: str = "lonode") -> Ledger:
        made = Ledger(policy)
        made.load(nodes, parse_resources(resources))
        return made

    return ledger
