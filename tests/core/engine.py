"""Ledger on a real matcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.graph.containment import LEVELS
from fluence_extender.graph.units import COARSE, FINE, Units
from fluence_extender.ledger.graph_matcher import MatcherSetup
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.matcher import MatcherOptions, create_matcher
from fluence_extender.matcher.expansion import expanded
from fluence_extender.matcher.factory import Engine as EngineName
from fluence_extender.matcher.port import Jgf, Matcher
from tests.engines import FLUXION


@dataclass(frozen=True)
class CoreEngine:
    """An engine as the service would use it: with its units, and how it learns of new nodes.

    libreapi_cli runs in this very process: what a process of its own changes is tested for itself.
    """

    name: EngineName
    units: Units
    incremental: bool

    def ledger(self, policy: str = "lonode", levels: Mapping[str, str] = LEVELS) -> Ledger:
        """Empty ledger under ``policy``."""
        options = MatcherOptions(
            policy=policy.removesuffix("x") if policy.endswith("nodex") else policy,
            prune_filters="ALL:core,ALL:memory,ALL:gpu",
        )

        def make(document: Jgf) -> Matcher:
            return create_matcher(
                self.name, expanded(document) if self.name == "fluxion" else document, options
            )

        return Ledger(MatcherSetup(make, self.units, levels, self.incremental), policy)


FINE_EMBEDDED = CoreEngine("embedded", FINE, True)
COARSE_EMBEDDED = CoreEngine("embedded", COARSE, True)
REBUILT_EMBEDDED = CoreEngine("embedded", COARSE, False)
"""The embedded engine as if its graph couldn't change in place."""

ENGINES = [FINE_EMBEDDED, COARSE_EMBEDDED, REBUILT_EMBEDDED]
if FLUXION.library is not None:
    ENGINES.append(CoreEngine("fluxion", COARSE, False))
