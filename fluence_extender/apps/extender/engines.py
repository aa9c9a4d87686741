"""The choice of the engine: libreapi_cli in a process of its own, or first fit, which needs no library."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog

from fluence_extender.apps.settings import EMBEDDED_POLICIES
from fluence_extender.engine.errors import EngineUnavailable
from fluence_extender.engine.graph_worker import library_process
from fluence_extender.engine.library import Library
from fluence_extender.room.ledger import Ledger
from fluxion_ffi import LibraryUnavailable, open_library

log = structlog.get_logger(__name__)

EMBEDDED_VERSION = "needs no native library"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that is available; ``version`` is for people."""

    name: Literal["embedded", "fluxion"]
    version: str

    def library(self, ledger: Ledger, policy: str) -> Library | None:
        """Return the library as a chooser for ``ledger``, None if first fit chooses."""
        if self.name == "embedded" or policy == "spread":
            return None
        return Library(ledger.graph, ledger.held_shares, partial(library_process, policy=policy))


def choose_engine(choice: str, policy: str) -> Engine:
    """Return the engine for ``--engine`` and ``--policy``.

    Raises `EngineUnavailable` if fluxion is chosen, or the policy needs it, and it isn't available.
    """
    embedded = Engine("embedded", EMBEDDED_VERSION)
    needs_library = policy not in EMBEDDED_POLICIES
    if choice == "embedded":
        if needs_library:
            raise EngineUnavailable(
                f"--policy {policy} needs libreapi_cli, and --engine embedded doesn't use it: choose --engine fluxion, "
                f"or one of the policies {', '.join(EMBEDDED_POLICIES)}"
            )
        return embedded
    try:
        library = open_library()
    except LibraryUnavailable as missing:
        if choice == "fluxion":
            raise EngineUnavailable(str(missing)) from missing
        if needs_library:
            raise EngineUnavailable(
                f"--policy {policy} needs libreapi_cli; the policies {', '.join(EMBEDDED_POLICIES)} don't. {missing}"
            ) from missing
        log.info("libreapi_cli is not used; the embedded engine is", reason=str(missing))
        return embedded
    return Engine("fluxion", library.origin)
