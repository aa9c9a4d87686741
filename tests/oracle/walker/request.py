"""A jobspec in the form that the walk needs.

A `RequestLevel` is a list of resources that the walk looks for at once: the top level, or one resource's ``with``.
The meaning of a vertex's type for a level is computed once and kept. Counts of tracked types
are summed up for the pruning filters (4.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tests.oracle.walker.constraint import Constraint
from tests.oracle.walker.jobspec import SLOT, UNSIGNED_MAX, Resource


class Wanted:
    """A resource of the request: its rule, what is wanted below it, and the tracked counts below one of it."""

    __slots__ = ("below", "count", "exclusive", "label", "most", "subtree", "type")

    def __init__(self, resource: Resource, tracked: Collection[str]) -> None:
        self.type = resource.type
        self.count = resource.count
        self.most = resource.count.most
        self.exclusive = resource.exclusive
        self.label = resource.label
        self.below = RequestLevel(resource.with_, tracked)
        self.subtree = self.below.counts


@dataclass(frozen=True, slots=True)
class Sight:
    """The meaning of a level for a vertex of one type.

    ``clash``: two of the level's resources would match there, which no walk can follow. ``match``: the resource of
    that type. ``slot``: the slot to try at such a vertex, the level's own or one right below ``match``. ``pruned_by``:
    the resource of the level whose counts prune there.
    """

    clash: bool
    match: Wanted | None
    slot: Wanted | None
    pruned_by: Wanted | None


class RequestLevel:
    """Resources that are looked for at once, with the tracked counts they and all below them ask for."""

    __slots__ = ("_sights", "counts", "resources", "shares")

    def __init__(self, resources: Iterable[Resource], tracked: Collection[str]) -> None:
        self.resources = tuple(Wanted(resource, tracked) for resource in resources)
        self.shares = {wanted.type: wanted.most for wanted in self.resources}
        self.counts: dict[str, int] = {}
        self._sights: dict[str, Sight] = {}
        for wanted in self.resources:
            if wanted.type in tracked:
                self._count(wanted.type, wanted.count.minimum)
            for name, count in wanted.subtree.items():
                self._count(name, wanted.count.minimum * count)

    def _count(self, name: str, count: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + (count & UNSIGNED_MAX)

    def sight(self, kind: str) -> Sight:
        """Return the meaning of this level for a vertex of type ``kind``."""
        sight = self._sights.get(kind)
        if sight is None:
            sight = self._sights[kind] = self._look(kind)
        return sight

    def _look(self, kind: str) -> Sight:
        listed = [wanted for wanted in self.resources if wanted.type in (kind, SLOT)]
        if len(listed) != 1:
            return Sight(bool(listed), None, None, None)
        wanted = listed[0]
        if wanted.type != kind:
            return Sight(False, None, wanted, wanted)
        slots = [below for below in wanted.below.resources if below.type == SLOT]
        return Sight(False, wanted, slots[-1] if slots else None, wanted)


@dataclass(frozen=True, slots=True)
class WalkerRequest:
    """A whole request. ``duration`` is in whole seconds; ``exclusive_types`` are taken with everything below them."""

    top: RequestLevel
    duration: int
    constraint: Constraint | None
    exclusive_types: frozenset[str]


def exclusive_types(resources: Iterable[Resource]) -> set[str]:
    """Return the types that the jobspec asks for exclusively by name, at any level."""
    found: set[str] = set()
    for resource in resources:
        if resource.exclusive:
            found.add(resource.type)
        found |= exclusive_types(resource.with_)
    return found
