"""Ledgers and choosers, as the service would make them for each engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fluence_extender.engine.graph_worker import shared_policy
from fluence_extender.engine.library import Library
from fluence_extender.engine.worker import Worker
from fluence_extender.graph.containment import LEVELS
from fluence_extender.model.resources import Resources
from fluence_extender.placement.chooser import NodeChooser
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.ledger import Ledger
from tests.unit.engine.oracle_worker import OracleWorker


class PromptLibrary(Library):
    """A library that loads a changed graph before it answers, so that the same calls get the same answers."""

    def choose(
        self, requests: Resources, count: int, nodes: Sequence[str], table: CapacityTable
    ) -> dict[str, int] | None:
        """Load the present graph if it isn't, then choose."""
        if self._graph.revision != self._revision:
            self.load(table).result()
        return super().choose(requests, count, nodes, table)


@dataclass(frozen=True)
class CoreEngine:
    """An engine as the service would use it, in this very process."""

    name: str
    load: Callable[..., Worker] | None = None

    def ledger(self, policy: str = "lonode", levels: Mapping[str, str] = LEVELS) -> Ledger:
        """Empty ledger under ``policy``."""
        return Ledger(policy, levels)

    def chooser(self, ledger: Ledger, policy: str = "lonode") -> NodeChooser | None:
        """What chooses nodes for equal members; None for first fit."""
        if self.load is None or policy == "spread":
            return None
        return PromptLibrary(
            ledger.graph, ledger.held_shares, partial(self.load, policy=shared_policy(policy))
        )


EMBEDDED = CoreEngine("embedded")
ORACLE = CoreEngine("oracle", OracleWorker)
"""The library, with the oracle in its place, which answers as it does."""

ENGINES = [EMBEDDED, ORACLE]
