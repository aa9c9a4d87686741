"""The port for sources of descriptions beside the attribute file.

A package offers its source under the entry point group ``fluence_extender.backend_attributes``: a callable without
parameters that returns a `BackendProvider`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fluence_extender.selection.backend import Backend

__all__ = ["Backend", "BackendProvider", "BackendQuery", "Description"]

ENTRY_POINTS = "fluence_extender.backend_attributes"


@dataclass(frozen=True, slots=True)
class BackendQuery:
    """What a provider is asked.

    ``backends`` are those that may still be chosen, as known so far; ``needs`` are the attributes that the steps use.
    """

    backends: tuple[Backend, ...]
    needs: frozenset[str]
    shots: int


@dataclass(frozen=True, slots=True)
class Description:
    """What a provider knows; ``notes`` say what it couldn't find out."""

    backends: tuple[Backend, ...] = ()
    notes: tuple[str, ...] = ()


class BackendProvider(Protocol):
    """A source of descriptions. A failure never ends the selection: it becomes a note or a missing attribute."""

    @property
    def name(self) -> str:
        """The provider's name in notes."""
        ...

    def wanted(self, needs: frozenset[str]) -> bool:
        """Return whether the provider knows any of ``needs``; otherwise it isn't asked and uses no network."""
        ...

    def describe(self, query: BackendQuery) -> Description:
        """Return what is known of the backends in ``query``; others may be added."""
        ...
