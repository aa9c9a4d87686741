"""The choice of the engine, and the units of its graph.

libreapi_cli makes a vertex of each leaf, so its units are whole cores and GiB. Counts cost the embedded engine nothing,
so its units are millicores and small blocks of memory, and rounding never shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from fluence_extender.graph.units import COARSE, FINE, Units
from fluence_extender.ledger.graph_matcher import MatcherSetup
from fluence_extender.matcher import EngineUnavailable, MatcherOptions, create_matcher
from fluence_extender.matcher.factory import Engine as EngineName
from fluence_extender.matcher.port import Allocator, Jgf
from fluence_extender.matcher.worker import WorkerMatcher
from fluxion_ffi import LibraryUnavailable, open_library

log = structlog.get_logger(__name__)

EMBEDDED_VERSION = "needs no native library"

NODE_EXCLUSIVE = {"firstnodex": "first", "lonodex": "lonode", "hinodex": "hinode"}
"""Each node-exclusive policy and the plain policy it is derived from."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that is available.

    ``version`` is for people; ``incremental`` says that the engine can change a graph in place.
    """

    name: EngineName
    version: str
    units: Units
    incremental: bool


def choose_engine(choice: str) -> Engine:
    """Return the engine for ``--engine``. Raises `EngineUnavailable` if fluxion is chosen and isn't available."""
    if choice == "embedded":
        return Engine("embedded", EMBEDDED_VERSION, FINE, True)
    try:
        library = open_library()
    except LibraryUnavailable as missing:
        if choice == "fluxion":
            raise EngineUnavailable(str(missing)) from missing
        log.info("libreapi_cli is not used; the embedded engine is", reason=str(missing))
        return Engine("embedded", EMBEDDED_VERSION, FINE, True)
    return Engine("fluxion", library.origin, COARSE, False)


def shared_policy(policy: str) -> str:
    """Return the policy under which pods of one gang can share a node that the gang has for itself.

    A node-exclusive policy grants a node to one job, and each pod is a job of its own. So the matcher runs the plain
    policy, and the ledger excludes other gangs.
    """
    return NODE_EXCLUSIVE.get(policy, policy)


def matcher_setup(engine: Engine, policy: str, levels: Mapping[str, str]) -> MatcherSetup:
    """Return how the ledger makes matchers of ``engine``."""
    options = MatcherOptions(
        policy=shared_policy(policy), prune_filters="ALL:core,ALL:memory,ALL:gpu", match_format="jgf"
    )
    return MatcherSetup(partial(_make, engine.name, options), engine.units, levels, engine.incremental)


def _make(name: EngineName, options: MatcherOptions, document: Jgf) -> Allocator:
    """Make a matcher from a compact document."""
    if name == "fluxion":
        return WorkerMatcher(name, document, options)
    return create_matcher(name, document, options)
