"""Where descriptions of backends come from: the port that sources beside the attribute file stand behind.

A package makes its source known under the entry point group ``fluence_extender.backend_providers``: a callable that
takes nothing and gives a `Provider`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fluence_extender.selection.backend import Backend

ENTRY_POINTS = "fluence_extender.backend_providers"


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked: ``backends`` are those still possible, as known so far; ``needs`` the attributes in question."""

    backends: tuple[Backend, ...]
    needs: frozenset[str]
    shots: int


@dataclass(frozen=True, slots=True)
class Description:
    """What a provider knows; ``notes`` say what it couldn't find out."""

    backends: tuple[Backend, ...] = ()
    notes: tuple[str, ...] = ()


class Provider(Protocol):
    """One source of descriptions. It fails softly: what it can't find out is a note or a missing attribute."""

    @property
    def name(self) -> str:
        """What notes call it."""
        ...

    def wanted(self, needs: frozenset[str]) -> bool:
        """Whether it can tell anything of ``needs``; otherwise it isn't asked and uses no network."""
        ...

    def describe(self, query: Query) -> Description:
        """What it knows of the backends in ``query``; it may add others."""
        ...
