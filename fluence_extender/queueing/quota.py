"""What each queue uses of its quota, and whether it may use more.

A branch of the tree is *charged* with all that its gangs hold and with what it keeps free: the part of its guarantee
that it doesn't lend is charged even while it isn't used. A branch may borrow the unused part of other guarantees.

Invariants: as long as all added amounts were first found to be within the quota, no branch is charged more than its
limit, and all together are charged no more of a resource than the cluster has. So a queue can always use what it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from fluence_extender.queueing.tree import Amount, QuotaTree

NONE: Mapping[str, int] = {}
EMPTY: Mapping[str, Amount] = {}


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource of which a queue would use too much: ``queue``, or one that it is part of, has a limit of ``most``."""

    queue: str
    resource: str
    most: int


class QuotaUse:
    """Counts what the branches of a tree use and are charged with."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self._used: dict[str, dict[str, int]] = {}
        self._inside: dict[str, dict[str, int]] = {}
        self._total: dict[str, int] = {}
        for name, branch in sorted(tree.branches.items(), key=lambda one: -len(one[1].path)):
            above = self._inside.setdefault(branch.path[1], {}) if len(branch.path) > 1 else self._total
            for kind in tree.kept:
                charged = max(self._inside.get(name, NONE).get(kind, 0), branch.kept.get(kind, 0))
                above[kind] = above.get(kind, 0) + charged

    def copy(self) -> QuotaUse:
        """Return an independent copy."""
        copied = copy(self)
        copied._used = {name: dict(amounts) for name, amounts in self._used.items()}
        copied._inside = {name: dict(amounts) for name, amounts in self._inside.items()}
        copied._total = dict(self._total)
        return copied

    def used(self, queue: str) -> Amount:
        """Return what the gangs of a queue and of all queues below it hold."""
        return self._used.get(queue, NONE)

    def borrowed(self, queue: str) -> dict[str, int]:
        """Return what a queue uses beyond its guarantee, of each resource that some queue is guaranteed."""
        guaranteed = self.tree.branch(queue).guaranteed
        over = {kind: amount - guaranteed.get(kind, 0) for kind, amount in self.used(queue).items()}
        return {kind: amount for kind, amount in over.items() if amount > 0 and kind in self.tree.guaranteed}

    def add(self, queue: str, amounts: Amount, sign: int = 1) -> None:
        """Count that the gangs of a queue hold these additional amounts, or release them with a ``sign`` of -1."""
        for kind, amount in amounts.items():
            for name in self.tree.branch(queue).path:
                used = self._used.setdefault(name, {})
                used[kind] = used.get(kind, 0) + sign * amount
                if not used[kind]:
                    del used[kind]
            if kind in self.tree.ruled:
                self._charge(self.tree.branch(queue).path, kind, sign * amount)

    def _charge(self, path: Sequence[str], kind: str, more: int) -> None:
        """Charge each branch of a path with the part that the branches below it don't keep anyway."""
        *inside, beyond = self._charges(path, kind, more)
        for name, added in zip(path, inside, strict=True):
            amounts = self._inside.setdefault(name, {})
            amounts[kind] = amounts.get(kind, 0) + added
        self._total[kind] = self._total.get(kind, 0) + beyond

    def _charges(self, path: Sequence[str], kind: str, more: int) -> list[int]:
        """Return what ``more`` in the first branch of a path adds inside each branch, and at the end beyond them."""
        found = [more]
        for name in path:
            before, kept = self._inside.get(name, NONE).get(kind, 0), self.tree.branch(name).kept.get(kind, 0)
            found.append(max(before + found[-1], kept) - max(before, kept))
        return found

    def excess(self, queue: str, more: Amount) -> Excess | None:
        """Return the limit that a queue, or one above it, would exceed if its gangs held ``more``; None for none."""
        path = self.tree.branch(queue).path
        for kind in sorted(more):
            if more[kind] <= 0 or kind not in self.tree.ruled:
                continue
            *inside, _ = self._charges(path, kind, more[kind])
            for name, added in zip(path, inside, strict=True):
                most = self.tree.branch(name).limit.get(kind)
                if most is not None and self._inside.get(name, NONE).get(kind, 0) + added > most:
                    return Excess(name, kind, most)
        return None

    def lacking(self, queue: str, more: Amount) -> str | None:
        """Return a resource of which a queue can't have ``more``, because other queues keep the rest; None for none."""
        path = self.tree.branch(queue).path
        for kind in sorted(more):
            if more[kind] <= 0 or kind not in self.tree.kept:
                continue
            beyond = self._charges(path, kind, more[kind])[-1]
            if beyond > 0 and self._total.get(kind, 0) + beyond > self.tree.capacity.get(kind, 0):
                return kind
        return None

    def tier(self, queue: str, more: Amount, ahead: Mapping[str, Amount] = EMPTY) -> int:
        """Return 0 if a queue that uses ``more`` is within its guarantee, or else how far up it borrows.

        That is the number of levels up to the nearest queue that stays within its own guarantee, or `NOBODY` if none
        does. ``ahead`` are the amounts that branches get first.
        """
        kinds = [kind for kind, amount in more.items() if amount > 0 and kind in self.tree.guaranteed]
        for level, name in enumerate(self.tree.branch(queue).path):
            guaranteed, used = self.tree.branch(name).guaranteed, self.used(name)
            soon = ahead.get(name, NONE)
            if all(
                used.get(kind, 0) + soon.get(kind, 0) + more[kind] <= guaranteed.get(kind, 0)
                for kind in kinds
            ):
                return level
        return NOBODY


NOBODY = 9
"""The tier of a queue that borrows at every level of its tree."""
