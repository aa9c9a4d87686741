"""The tree of queues, the quota that each queue has in it, and what it uses of it.

A queue names its parent, and children share the guarantee of their parent. Administrators write one queue at a time,
so a tree may contradict itself at any moment: a parent may be missing, queues may be each other's parents, and more may
be guaranteed than there is.

Invariant of the tree: for any settings of the queues, the result is a tree of at most `LEVELS` levels, in which
children are guaranteed no more than their parent, and all queues no more than the cluster has. A setting that isn't in
force as written is among the problems of its queue.

A branch of the tree is *charged* with all that its gangs hold and with what it keeps free: the part of its guarantee
that it doesn't lend is charged even while it isn't used. A branch may borrow the unused part of other guarantees.

Invariants of use: as long as all added amounts were first found to be within the quota, no branch is charged more than
its limit, and all together are charged no more of a resource than the cluster has. So a queue can always use what it
keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

from fluence_extender.model.quantity import written_amount
from fluence_extender.objects.queues import Queue

# The tree.

LEVELS = 4
"""The most levels of the tree."""

Amount = Mapping[str, int]
"""Amounts by resource."""


@dataclass(frozen=True, slots=True)
class QueueBranch:
    """One queue in the tree.

    ``path`` has the names of the queue itself, its parent, and so on up to the root. ``kept`` is the part of its
    guarantee that it keeps for itself and its children even while they don't use it. It lends the other part.
    """

    path: tuple[str, ...]
    children: tuple[str, ...] = ()
    guaranteed: Amount = field(default_factory=dict)
    kept: Amount = field(default_factory=dict)
    limit: Amount = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """All queues as branches. ``ruled`` are the resources of which some queue has a limit or a guarantee.

    ``guaranteed`` are the resources of which some queue has a guarantee, and ``kept`` those of which some queue doesn't
    lend its guarantee in full.
    """

    branches: Mapping[str, QueueBranch]
    capacity: Amount
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ruled: frozenset[str] = frozenset()
    guaranteed: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def branch(self, queue: str) -> QueueBranch:
        """Return the branch of a queue. A queue that isn't in the tree stands alone and has no quota."""
        return self.branches.get(queue) or QueueBranch((queue,))


def states_quota(queues: Iterable[Queue]) -> bool:
    """Return whether any of these queues has a quota, a weight, a half-life or a parent."""
    return any(
        queue.parent
        or queue.quota.guaranteed
        or queue.quota.limit
        or queue.weight is not None
        or queue.half_life is not None
        for queue in queues
    )


def grow(queues: Mapping[str, Queue], capacity: Amount) -> QuotaTree:
    """Return the tree of these queues in a cluster with this capacity."""
    problems: dict[str, list[str]] = {name: [] for name in queues}
    paths = _paths(queues, problems)
    children: dict[str, list[str]] = {name: [] for name in ("", *queues)}
    for name, path in paths.items():
        children[path[1] if len(path) > 1 else ""].append(name)
    stated: dict[str, dict[str, int]] = {}
    for name, queue in queues.items():
        is_misplaced = bool(queue.parent) and len(paths[name]) == 1
        if is_misplaced and queue.quota.guaranteed:
            problems[name].append("spec.guaranteed isn't in force: the queue has no place in the tree")
        stated[name] = {} if is_misplaced else _within_limit(queue, problems[name])
        _note_unknown(queue, capacity, problems[name])
    requests: dict[str, dict[str, int]] = {}
    for name in sorted(queues, key=lambda one: -len(paths[one])):
        requests[name] = _summed(requests[child] for child in children[name]) | stated[name]
    granted: dict[str, Amount] = {}
    for name in sorted(queues, key=lambda one: len(paths[one])):
        if len(paths[name]) == 1:
            room, siblings, whose = capacity, children[""], "the cluster"
        else:
            parent = paths[name][1]
            room, siblings, whose = granted[parent], children[parent], f"queue {parent}"
        together = _summed(requests[sibling] for sibling in siblings)
        granted[name] = _granted(requests[name], together, room)
        for kind in sorted(stated[name]):
            if granted[name].get(kind, 0) < stated[name][kind] and capacity.get(kind, 0):
                problems[name].append(
                    _less_granted(kind, stated[name][kind], granted[name], together, room, whose)
                )
    branches = {
        name: QueueBranch(
            paths[name],
            tuple(sorted(children[name])),
            granted[name],
            _kept(granted[name], queue.quota.lendable),
            queue.quota.limit,
        )
        for name, queue in queues.items()
    }
    guaranteed = frozenset(kind for branch in branches.values() for kind in branch.guaranteed)
    return QuotaTree(
        branches,
        capacity,
        {name: tuple(texts) for name, texts in problems.items()},
        guaranteed | {kind for branch in branches.values() for kind in branch.limit},
        guaranteed,
        frozenset(kind for branch in branches.values() for kind in branch.kept),
    )


def _paths(queues: Mapping[str, Queue], problems: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return the path of each queue; a queue without a valid place in the tree stands alone."""
    paths: dict[str, tuple[str, ...]] = {}
    for name in queues:
        climbed: dict[str, None] = {}
        current = name
        while current not in paths and current not in climbed and current in queues:
            climbed[current] = None
            current = queues[current].parent
        if current in climbed:
            circle = list(climbed)[list(climbed).index(current) :]
            for number, inside in enumerate(circle):
                around = " in ".join((*circle[number:], *circle[:number], inside))
                problems[inside].append(f"spec.parent: the queue is its own ancestor ({around})")
                paths[inside] = (inside,)
        for lower in reversed(climbed):
            parent = queues[lower].parent
            above = paths.get(parent, ())
            if lower in paths:
                continue
            if parent and parent not in queues:
                problems[lower].append(f"spec.parent: there is no queue {parent}")
            elif len(above) >= LEVELS:
                problems[lower].append(
                    f"spec.parent: the tree may have {LEVELS} levels, and {parent} is on the last"
                )
                above = ()
            paths[lower] = (lower, *above)
    return paths


def _within_limit(queue: Queue, problems: list[str]) -> dict[str, int]:
    """Return the guarantee that a queue states, cut to its own limit."""
    guaranteed: dict[str, int] = {}
    for kind, amount in sorted(queue.quota.guaranteed.items()):
        guaranteed[kind] = min(amount, queue.quota.limit.get(kind, amount))
        if guaranteed[kind] < amount:
            less = written_amount(kind, guaranteed[kind])
            problems.append(
                f"spec.guaranteed {kind}: {written_amount(kind, amount)} counts as its limit, {less}"
            )
    return guaranteed


def _note_unknown(queue: Queue, capacity: Amount, problems: list[str]) -> None:
    quota = queue.quota
    for part, amounts in (
        ("guaranteed", quota.guaranteed),
        ("limit", quota.limit),
        ("lendable", quota.lendable),
    ):
        for kind in sorted(amounts):
            if not capacity.get(kind, 0):
                problems.append(f"spec.{part} {kind}: nothing in the cluster has it")
    for kind, amount in sorted(quota.lendable.items()):
        if amount > quota.guaranteed.get(kind, 0):
            problems.append(f"spec.lendable {kind}: it is more than the queue is guaranteed")


def _summed(summands: Iterable[Amount]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for amounts in summands:
        for kind, amount in amounts.items():
            sums[kind] = sums.get(kind, 0) + amount
    return sums


def _granted(request: Amount, together: Amount, room: Amount) -> dict[str, int]:
    """Return the granted part of a queue's ``request``, pro rata if all requests together exceed ``room``."""
    granted: dict[str, int] = {}
    for kind, amount in request.items():
        free = room.get(kind, 0)
        part = amount if together[kind] <= free else amount * free // together[kind]
        if part:
            granted[kind] = part
    return granted


def _less_granted(kind: str, stated: int, granted: Amount, together: Amount, room: Amount, whose: str) -> str:
    amount, less, total, available = (
        written_amount(kind, one) for one in (stated, granted.get(kind, 0), together[kind], room.get(kind, 0))
    )
    cause = f"{total} is guaranteed of the {available} of {whose}"
    return f"spec.guaranteed {kind}: {amount} counts as {less}, because {cause}"


def _kept(granted: Amount, lendable: Amount) -> dict[str, int]:
    kept = {kind: amount - min(lendable.get(kind, amount), amount) for kind, amount in granted.items()}
    return {kind: amount for kind, amount in kept.items() if amount}


# What branches use.

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
        """By branch: what its own gangs hold, and what the branches below it are charged with."""
        self._total: dict[str, int] = {}
        """What all roots of trees are charged with."""
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
        beyond = {kind: amount - guaranteed.get(kind, 0) for kind, amount in self.used(queue).items()}
        return {
            kind: amount for kind, amount in beyond.items() if amount > 0 and kind in self.tree.guaranteed
        }

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
        """Charge each branch of a path with the part of ``more`` that the branches below it don't keep anyway."""
        *inside, beyond = self._charges(path, kind, more)
        for name, added in zip(path, inside, strict=True):
            amounts = self._inside.setdefault(name, {})
            amounts[kind] = amounts.get(kind, 0) + added
        self._total[kind] = self._total.get(kind, 0) + beyond

    def _charges(self, path: Sequence[str], kind: str, more: int) -> list[int]:
        """Return what ``more`` in the first branch of a path adds inside each branch, and last, beyond them."""
        added = [more]
        for name in path:
            before, kept = self._inside.get(name, NONE).get(kind, 0), self.tree.branch(name).kept.get(kind, 0)
            added.append(max(before + added[-1], kept) - max(before, kept))
        return added

    def excess(self, queue: str, more: Amount) -> Excess | None:
        """Return the limit of a queue or of one above it that ``more`` would exceed, None if there is none."""
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
        """Return a resource of which other queues keep too much for a queue to have ``more``, None if there is none."""
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

        That is the number of levels up to the nearest queue that stays within its own guarantee, or `EVERY_LEVEL` if
        none does. ``ahead`` are the amounts that branches get first.
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
        return EVERY_LEVEL


EVERY_LEVEL = 9
"""The tier of a queue that borrows at every level of its tree."""
