"""Results that are made when they are read.

Each result has a revision that changes with its content and is known before the result is made. So a client that
already has the newest answer costs nothing.

Invariant: a `Listing` has its keys in ascending order, and a key is never reused for another item. So a reader that
continues after its last key gets each item that exists during the whole time exactly once.
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


class GraphTooLarge(Exception):
    """The graph would have too many vertices with one for each leaf; the message says how many."""


@dataclass(frozen=True, slots=True)
class GraphExport:
    """The graph, which is made when it is read. Reading raises `GraphTooLarge` if it has too many vertices."""

    revision: str
    read: Callable[[], Awaitable[Pieces]]
