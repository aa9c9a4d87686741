"""What is kept from gangs although it is free.

A `Hold` is what has to stay free beside a gang: amounts on nodes, devices, and whole nodes. `HeldNodes` are closed to
all gangs but those they are held for. Under a node-exclusive policy, `GangNodes` are closed to all gangs but the one
that uses them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fluence_extender.model.assignment import DeviceShare
from fluence_extender.room.capacity import Amounts, CapacityTable


@dataclass(slots=True, eq=False)
class Hold:
    """What has to stay free beside a gang.

    ``amounts`` has a row for each of ``nodes``, and ``columns`` has the column of each resource. ``shares`` are
    parts of devices. The nodes ``closed`` aren't used at all.
    """

    nodes: Sequence[str] = ()
    amounts: Amounts | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    shares: tuple[DeviceShare, ...] = ()
    closed: frozenset[str] = frozenset()
    _last: tuple[list[str], object, NDArray[np.intp], Amounts] | None = field(default=None, init=False)

    def rows(self, table: CapacityTable) -> tuple[NDArray[np.intp], Amounts]:
        """Return the rows of ``table`` where amounts are held, and these amounts by the columns of the table.

        The last answer is cached, because many gangs are tried beside the same holds. Threads may ask at once.
        """
        last, size = self._last, (len(table.names), table.free.shape[1], len(table.columns))
        if last is not None and last[0] is table.names and last[1] == size:
            return last[2], last[3]
        positions = [at for at, name in enumerate(self.nodes) if name in table.rows]
        amounts = np.zeros((len(positions), table.free.shape[1]), dtype=np.int64)
        for resource, column in table.columns.items():
            if self.amounts is not None and resource in self.columns:
                amounts[:, column] = self.amounts[positions, self.columns[resource]]
        rows = np.array([table.rows[self.nodes[at]] for at in positions], dtype=np.intp)
        self._last = table.names, size, rows, amounts
        return rows, amounts


class HoldKind(StrEnum):
    """Why nodes are held for a gang: its victims leave them, or it has asked for them as new nodes."""

    PREEMPTION = "preemption"
    NEW_NODES = "new nodes"


class HeldNodes:
    """The nodes that are held for gangs: until a hold ends, they are closed to all other gangs.

    ``revision`` grows with each change.
    """

    def __init__(self, held: Mapping[tuple[HoldKind, object], frozenset[str]] | None = None) -> None:
        self._held = dict(held or {})
        self.revision = 0

    def copy(self) -> HeldNodes:
        """Return an independent copy."""
        return HeldNodes(self._held)

    def hold(self, kind: HoldKind, gang: object, nodes: Collection[str]) -> None:
        """Hold exactly these nodes for ``gang``; no nodes end the hold."""
        self.revision += 1
        if nodes:
            self._held[kind, gang] = frozenset(nodes)
        else:
            self._held.pop((kind, gang), None)

    def nodes(self, kind: HoldKind, gang: object) -> frozenset[str]:
        """Return the nodes that are held for ``gang``."""
        return self._held.get((kind, gang), frozenset())

    def holders(self, kind: HoldKind) -> set[object]:
        """Return the gangs for which nodes are held."""
        return {gang for held, gang in self._held if held is kind}

    def any_for(self, gang: object) -> bool:
        """Return whether anything is held for ``gang``."""
        return any((kind, gang) in self._held for kind in HoldKind)

    def all_nodes(self) -> set[str]:
        """Return all nodes that are held for some gang."""
        return set().union(*self._held.values())

    def closed_to(self, gang: object, overtaken: Collection[object] = ()) -> set[str]:
        """Return the nodes that ``gang`` may not use; it may use those that are held for the gangs ``overtaken``."""
        closed: set[str] = set()
        for (_, holder), nodes in self._held.items():
            if holder != gang and holder not in overtaken:
                closed |= nodes
        return closed


class GangNodes:
    """The gangs that use each node under a policy by which only pods of one gang may share a node.

    Nothing is recorded, and no node is closed, unless ``exclusive``.
    """

    def __init__(self, exclusive: bool = False) -> None:
        self.exclusive = exclusive
        self._pods: dict[str, tuple[str, object]] = {}
        self._gangs_on: dict[str, Counter[object]] = {}

    def copy(self) -> GangNodes:
        """Return an independent copy."""
        copied = GangNodes(self.exclusive)
        copied._pods = dict(self._pods)
        copied._gangs_on = {node: Counter(gangs) for node, gangs in self._gangs_on.items()}
        return copied

    def add(self, uid: str, node: str, gang: object) -> None:
        """Record a pod of ``gang`` on ``node``."""
        if self.exclusive:
            self._pods[uid] = (node, gang)
            self._gangs_on.setdefault(node, Counter())[gang] += 1

    def uses(self) -> Iterator[tuple[str, str, object]]:
        """Yield the uid of each recorded pod, its node and its gang."""
        return ((uid, node, gang) for uid, (node, gang) in self._pods.items())

    def remove(self, uid: str) -> None:
        """Forget a pod; nothing happens when it isn't recorded."""
        if uid not in self._pods:
            return
        node, gang = self._pods.pop(uid)
        gangs = self._gangs_on[node]
        gangs[gang] -= 1
        if not gangs[gang]:
            del gangs[gang]
        if not gangs:
            del self._gangs_on[node]

    def closed_to(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that other gangs use, or would use if the pods ``without`` were gone."""
        if not self.exclusive:
            return set()
        removed = Counter(self._pods[uid] for uid in without if uid in self._pods)
        return {
            node
            for node, gangs in self._gangs_on.items()
            if any(other != gang and count > removed[node, other] for other, count in gangs.items())
        }

    def of_others(self, uids: Iterable[str], gang: object) -> list[str]:
        """Return those of ``uids`` that are recorded for a gang other than ``gang``."""
        return [uid for uid in uids if uid in self._pods and self._pods[uid][1] != gang]
