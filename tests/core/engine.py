"""Ledgers and choosers, as the service would make them for each engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.graph.containment import LEVELS
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.placement.chooser import NodeChooser


@dataclass(frozen=True)
class CoreEngine:
    """An engine as the service would use it."""

    name: str

    def ledger(self, policy: str = "lonode", levels: Mapping[str, str] = LEVELS) -> Ledger:
        """Empty ledger under ``policy``."""
        return Ledger(policy, levels)

    def chooser(self, ledger: Ledger, policy: str = "lonode") -> NodeChooser | None:
        """What chooses nodes for equal members; None for first fit."""
        return None


EMBEDDED = CoreEngine("embedded")
ENGINES = [EMBEDDED]
