"""Results that are made when they are read.

Each result has a revision that changes with its content and is known before the result is made. So a client that
already has the newest answer costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
    """The graph, which is made when it is read."""

    revision: str
    read: Callable[[], Awaitable[Pieces]]
