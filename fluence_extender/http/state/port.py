"""What the state API needs from the rest of the service.

Each result carries a revision that is known before anything is made and that changes with the content. A client that
already has the newest answer therefore costs nothing.

Invariant: a `Listing` has its keys in ascending order, and a key is never given to another item. A reader that
continues after the last key it saw thus meets everything that exists all the while exactly once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fluence_extender.http.metrics import Counts
from fluence_extender.http.readiness import Readiness
from fluence_extender.http.state import v1

V = TypeVar("V", covariant=True)

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Items(Generic[V]):
    """The keys of a list. ``make`` makes the item of a key, or returns None if it has gone in the meantime."""

    keys: Sequence[Key]
    make: Callable[[Key], V | None]


@dataclass(frozen=True, slots=True)
class Listing(Generic[V]):
    """A list that is made when it is read; ``revision`` changes with any of its items."""

    revision: str
    read: Callable[[], Items[V]]


@dataclass(frozen=True, slots=True)
class Single(Generic[V]):
    """One item and the revision at which it was made."""

    revision: str
    item: V


@dataclass(frozen=True, slots=True)
class Pieces:
    """The resource graph as JGF: its vertices and its edges in pieces, made while they are read."""

    vertices: Callable[[], AsyncIterator[list[dict[str, Any]]]]
    edges: Callable[[], AsyncIterator[list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class GraphExport:
    """The graph, which is made when it is read. Reading raises `GraphTooLarge` if it has too many vertices."""

    revision: str
    read: Callable[[], Awaitable[Pieces]]


class NotSimulated(Exception):
    """A what-if question can't be answered; ``status`` is the HTTP status for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class StateSource(Readiness, Protocol):
    """The state of the service, for the state API and the metrics."""

    def gangs(self, gone: bool = False) -> Listing[v1.Gang]:
        """Return all gangs by namespace and name, with those that went lately if ``gone``."""
        ...

    def gang(self, namespace: str, name: str, convention: str = "") -> Single[v1.GangDetail] | None:
        """Return one gang, or the last one of that name to go; ``convention`` distinguishes several of one name."""
        ...

    def allocations(self) -> Listing[v1.Allocation]:
        """Return what pods of ours hold by namespace and pod, including planned and committed shares."""
        ...

    def nodes(self) -> Listing[v1.Node]:
        """Return all nodes by name."""
        ...

    def node(self, name: str) -> Single[v1.NodeDetail] | None:
        """Return one node with the pods that use it."""
        ...

    def backends(self) -> Listing[v1.Backend]:
        """Return all virtual devices by backend and path."""
        ...

    def graph(self, expand: bool) -> GraphExport:
        """Return the resource graph as JGF: a vertex for each unit if ``expand``, else equal leaves share one."""
        ...

    def counts(self) -> Counts:
        """Return how many gangs and allocations there are, without making any of them."""
        ...

    async def simulate(self, manifests: bytes, namespace: str) -> dict[str, Any]:
        """Return what would become of the gangs of ``manifests``, as JSON values. Raises `NotSimulated`."""
        ...
