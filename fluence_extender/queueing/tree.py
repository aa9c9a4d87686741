"""The tree of queues, and the quota that each queue has in it.

A queue names its parent, and children share the guarantee of their parent. Administrators write one queue at a time,
so a tree may contradict itself at any moment: a parent may be missing, queues may be each other's parents, and more may
be guaranteed than there is.

Invariant: for any settings of the queues, the result is a tree of at most `LEVELS` levels, in which children are
guaranteed no more than their parent, and all queues no more than the cluster has. A setting that isn't in force as
written is among the problems of its queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fluence_extender.model.quantity import written_amount
from fluence_extender.model.queue import Queue

LEVELS = 4
"""The most levels of the tree."""

Amount = Mapping[str, int]
"""Amounts by resource."""


@dataclass(frozen=True, slots=True)
class QueueBranch:
    """One queue in the tree.

    ``path`` has the names of the queue itself, its parent, and so on up to the root. ``kept`` is the part of its
    guarantee that it keeps for itself and its children even while they don't use it; it lends the rest.
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
        one.parent
        or one.quota.guaranteed
        or one.quota.limit
        or one.weight is not None
        or one.half_life is not None
        for one in queues
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
        apart = bool(queue.parent) and len(paths[name]) == 1
        if apart and queue.quota.guaranteed:
            problems[name].append("spec.guaranteed isn't in force: the queue has no place in the tree")
        stated[name] = {} if apart else _within_limit(queue, problems[name])
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
        together = _summed(requests[one] for one in siblings)
        granted[name] = _granted(requests[name], together, room)
        for kind in sorted(stated[name]):
            if granted[name].get(kind, 0) < stated[name][kind] and capacity.get(kind, 0):
                problems[name].append(_less(kind, stated[name][kind], granted[name], together, room, whose))
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
    guaranteed = frozenset(kind for one in branches.values() for kind in one.guaranteed)
    return QuotaTree(
        branches,
        capacity,
        {name: tuple(found) for name, found in problems.items()},
        guaranteed | {kind for one in branches.values() for kind in one.limit},
        guaranteed,
        frozenset(kind for one in branches.values() for kind in one.kept),
    )


def _paths(queues: Mapping[str, Queue], problems: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return the path of each queue; a queue without a valid place in the tree stands alone."""
    paths: dict[str, tuple[str, ...]] = {}
    for name in queues:
        climbed: dict[str, None] = {}
        one = name
        while one not in paths and one not in climbed and one in queues:
            climbed[one] = None
            one = queues[one].parent
        if one in climbed:
            circle = list(climbed)[list(climbed).index(one) :]
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
    found: dict[str, int] = {}
    for kind, amount in sorted(queue.quota.guaranteed.items()):
        found[kind] = min(amount, queue.quota.limit.get(kind, amount))
        if found[kind] < amount:
            less = written_amount(kind, found[kind])
            problems.append(
                f"spec.guaranteed {kind}: {written_amount(kind, amount)} counts as its limit, {less}"
            )
    return found


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


def _summed(some: Iterable[Amount]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in some:
        for kind, amount in one.items():
            found[kind] = found.get(kind, 0) + amount
    return found


def _granted(request: Amount, together: Amount, room: Amount) -> dict[str, int]:
    """Return the granted part of a queue's ``request``, pro rata if all requests together exceed ``room``."""
    found: dict[str, int] = {}
    for kind, amount in request.items():
        free = room.get(kind, 0)
        got = amount if together[kind] <= free else amount * free // together[kind]
        if got:
            found[kind] = got
    return found


def _less(kind: str, stated: int, granted: Amount, together: Amount, room: Amount, whose: str) -> str:
    amount, less, total, available = (
        written_amount(kind, one) for one in (stated, granted.get(kind, 0), together[kind], room.get(kind, 0))
    )
    cause = f"{total} is guaranteed of the {available} of {whose}"
    return f"spec.guaranteed {kind}: {amount} counts as {less}, because {cause}"


def _kept(granted: Amount, lendable: Amount) -> dict[str, int]:
    found = {kind: amount - min(lendable.get(kind, amount), amount) for kind, amount in granted.items()}
    return {kind: amount for kind, amount in found.items() if amount}
