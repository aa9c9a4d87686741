"""Books with something in them, copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.ledger.books import Books
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner, Wish
from fluence_extender.whatif.manifests import asked
from fluence_extender.whatif.simulation import Answer, Simulation
from fluence_extender.whatif.snapshot import snapshot
from tests.core.engine import FINE_EMBEDDED

NOW = 1_000_000.0
RACK = "example.com/rack"


class Cluster:
    """Real books with running pods; ``ends`` says when some of them end."""

    def __init__(self, nodes: Sequence[Node], resources: str = "") -> None:
        self.nodes = list(nodes)
        self.books: Books = FINE_EMBEDDED.books(levels={"rack": RACK})
        self.index = EligibilityIndex()
        self.ends: dict[str, float] = {}
        for one in self.nodes:
            self.index.put(one)
        self.books.load(self.nodes, parse_resources(resources))

    def run(self, pods: Iterable[Pod], until: float | None = None) -> None:
        """Let pods of ours run; they end at ``until`` seconds from now."""
        running = list(pods)
        Planner(self.books, self.index).plan([Wish(one) for one in running], running[0].name)
        if until is not None:
            self.ends.update({one.uid: NOW + until for one in running})

    def ask(self, *manifests: Mapping[str, Any], patience: float = 10.0) -> list[Answer]:
        """Simulate, and see that nothing real has changed."""
        before = self.state()
        taken = snapshot(self.books, self.nodes, self.ends)
        answers = Simulation(taken, asked([dict(one) for one in manifests]), NOW, self.ends, patience).run()
        assert self.state() == before
        return answers

    def state(self) -> object:
        """All that a question must leave as it is."""
        accounts = {name: (one.free, one.ports) for name, one in self.books.accounts.items()}
        return dict(self.books.holdings), accounts, self.books.version


@pytest.fixture
def cluster() -> type[Cluster]:
    return Cluster
