"""The capacity of all nodes as one array, nodes x resources, so that a request is compared with all nodes at once.

Invariant: the array has a column for each kind of resource that some node has. Pods may name any resources, but they
don't add columns.

`LiveCapacity` follows the accounts node by node: a plan only looks at what has changed since the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.room.holdings import Journal, NodeAccount, PortIndex

Amounts = NDArray[np.int64]
Use = tuple[str, Resources, tuple[HostPort, ...]]
"""What a pod uses: its node, its requests and its host ports."""

LARGEST = 2**61
"""Larger amounts count as this one, so that the sum of two fits in 64 bits."""

ABSENT = 0
"""The column of all resources that no node has; nothing is ever free in it."""

REMEMBERED = 4
"""The number of tuples of nodes whose rows a table caches."""

PORTS_INDEXED = 250_000
"""The most host ports in use that are compared with those of pods; see `CapacityTable.clashing`."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """The capacity of one node, with the host ports in use; ``kinds`` are its resources, free or not."""

    free: Resources
    ports: tuple[HostPort, ...] = ()
    kinds: Resources = NOTHING


@dataclass(slots=True)
class _Remembered:
    """The rows of the last few tuples of nodes. A table and its copies share it, also in different threads."""

    rows: tuple[tuple[tuple[str, ...], NDArray[np.intp]], ...] = ()

    def add(self, nodes: tuple[str, ...], rows: NDArray[np.intp]) -> None:
        """Remember the rows of some nodes, which stay the same in all of these tables."""
        self.rows = (*self.rows[1 - REMEMBERED :], (nodes, rows))


@dataclass(slots=True)
class CapacityTable:
    """The capacity of nodes, one row for each.

    ``rows`` is the row of each node, ``columns`` the column of each resource that some node has, ``free`` the amounts.
    ``ports`` are the host ports in use by row, for rows that have any. Unused rows and columns hold zeros.
    ``revision`` is that of the `LiveCapacity` whose table it is.
    """

    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    free: Amounts = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int64))
    ports: dict[int, tuple[HostPort, ...]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    revision: int = 0
    _remembered: _Remembered = field(default_factory=lambda: _Remembered(), repr=False, compare=False)
    _holders: PortIndex | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, nodes: Mapping[str, NodeCapacity]) -> CapacityTable:
        """Make a table of some nodes."""
        made = cls()
        for one in nodes.values():
            made._grow(0, one)
        for name, one in nodes.items():
            made.put(name, one)
        return made

    def put(self, name: str, capacity: NodeCapacity) -> None:
        """Set the capacity of a node. The use of a resource that no node has isn't recorded."""
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self.names)
            self.names.append(name)
        self._grow(row + 1, capacity)
        columns, amounts = self.columns, self.free[row]
        amounts[:] = 0
        for resource, amount in capacity.free.items():
            if resource in columns:
                amounts[columns[resource]] = min(max(amount, -LARGEST), LARGEST)
        if self.ports.get(row, ()) != capacity.ports:
            self.set_ports(row, capacity.ports)

    def set_ports(self, row: int, ports: tuple[HostPort, ...]) -> None:
        """Set the host ports in use on a row."""
        self._holders = None
        if ports:
            self.ports[row] = ports
        else:
            self.ports.pop(row, None)

    def clashing(self, wanted: Iterable[HostPort]) -> set[int]:
        """Return the rows that a pod with host ports can't use.

        The ports in use are indexed once for each state of the table, at most `PORTS_INDEXED` of them. The rows with
        the most ports are passed over beyond that: nobody with host ports can use them.
        """
        if self._holders is None:
            left = PORTS_INDEXED
            indexed = []
            for row, ports in sorted(self.ports.items(), key=lambda item: (len(item[1]), item[0])):
                left -= len(ports)
                if left >= 0:
                    indexed.append((row, ports))
            self._holders = PortIndex(indexed)
            self._holders.beyond.update(self.ports.keys() - {row for row, _ in indexed})
        return self._holders.clashing(wanted)

    def _grow(self, rows: int, capacity: NodeCapacity) -> None:
        for resource, amount in (*capacity.kinds.items(), *capacity.free.items()):
            if amount > 0:
                self.columns.setdefault(resource, len(self.columns) + 1)
        have = self.free.shape
        if rows > have[0] or len(self.columns) >= have[1]:
            wider = np.zeros(
                (max(have[0], 2 * rows if rows > have[0] else 0), max(have[1], len(self.columns) + 1)),
                dtype=np.int64,
            )
            wider[: have[0], : have[1]] = self.free
            self.free = wider

    def copy(self) -> CapacityTable:
        """Return an independent copy."""
        return CapacityTable(
            dict(self.rows),
            dict(self.columns),
            self.free.copy(),
            dict(self.ports),
            list(self.names),
            _remembered=self._remembered,
        )

    def has(self, nodes: tuple[str, ...]) -> bool:
        """Return whether the table has all of ``nodes``."""
        return any(known is nodes for known, _ in self._remembered.rows) or all(
            map(self.rows.__contains__, nodes)
        )

    def changed(self, taken: Sequence[Use], given: Sequence[Use]) -> CapacityTable:
        """Return a table from which some pods have taken what they use, and to which others have given it back."""
        free, ports = self.free.copy(), self.ports
        for uses, sign in ((taken, -1), (given, 1)):
            rows: list[int] = []
            kinds: list[int] = []
            kind_of: dict[Resources, int] = {}
            for node, requests, held in uses:
                row = self.rows.get(node)
                if row is None:
                    continue
                rows.append(row)
                kinds.append(kind_of.setdefault(requests, len(kind_of)))
                if held:
                    ports = dict(ports) if ports is self.ports else ports
                    used = Counter(ports.pop(row, ()))
                    (used.update if sign < 0 else used.subtract)(held)
                    if left := tuple((+used).elements()):
                        ports[row] = left
            if rows:
                sizes = np.array([self.use_of(requests) for requests in kind_of])
                np.add.at(free, rows, sign * sizes[kinds])
        return self.having(free, ports)

    def having(self, free: Amounts, ports: dict[int, tuple[HostPort, ...]]) -> CapacityTable:
        """Return a table of the same nodes with other free amounts and other ports in use."""
        derived = CapacityTable(self.rows, self.columns, free, ports, self.names)
        derived._remembered = self._remembered
        if ports is self.ports:
            derived._holders = self._holders
        return derived

    def of_node(self, name: str) -> dict[str, int]:
        """Return the capacity of a node, by resource name."""
        row = self.free[self.rows[name]].tolist()
        return {resource: row[column] for resource, column in self.columns.items()}

    def takes(self, placed: Mapping[str, int], requests: Resources) -> bool:
        """Return whether the nodes have room for so many pods with these requests."""
        for name, pods in placed.items():
            free = self.of_node(name)
            if any(amount * pods > free.get(one, 0) for one, amount in requests.items() if amount > 0):
                return False
        return True

    def at(self, nodes: Collection[str]) -> NDArray[np.intp]:
        """Return the rows of ``nodes``, in their order; treat the array as read-only.

        The rows of the last few tuples are cached, because most gangs pass the same tuple, that of all nodes.
        """
        if not isinstance(nodes, tuple):
            return np.fromiter(map(self.rows.__getitem__, nodes), dtype=np.intp, count=len(nodes))
        for known, rows in self._remembered.rows:
            if known is nodes:
                return rows
        found = np.fromiter(map(self.rows.__getitem__, nodes), dtype=np.intp, count=len(nodes))
        self._remembered.add(nodes, found)
        return found

    def row_of(self, requests: Resources) -> Amounts:
        """Return a request as a row with the columns of ``free``, to be compared with free amounts."""
        amounts = np.zeros(self.free.shape[1], dtype=np.int64)
        for resource, amount in requests.items():
            if amount > 0:
                amounts[self.column(resource)] = min(amount, LARGEST)
        return amounts

    def use_of(self, requests: Resources) -> Amounts:
        """Return a request as a row, to be added to free amounts or subtracted from them."""
        amounts = self.row_of(requests)
        amounts[ABSENT] = 0
        return amounts

    def column(self, resource: str) -> int:
        """Return the column of a resource."""
        return self.columns.get(resource, ABSENT)


class LiveCapacity:
    """The capacity of all accounts as ``view`` computes it; ``revision`` grows whenever it changes."""

    def __init__(
        self,
        accounts: Mapping[str, NodeAccount],
        journal: Journal,
        view: Callable[[NodeAccount], NodeCapacity],
    ) -> None:
        self._accounts = accounts
        self._journal = journal
        self._view = view
        self._table = CapacityTable()
        self._viewed: dict[str, NodeCapacity] = {}
        self._frozen = CapacityTable()
        self._mark = -1
        self.revision = 0

    def now(self) -> CapacityTable:
        """Return the table as it is now; treat it as read-only."""
        changed = self._journal.since(self._mark) if self._mark >= 0 else None
        self._mark = self._journal.now
        if changed is None or len(self._table.names) > 2 * len(self._accounts) + 64:
            self._table = CapacityTable()
            self._viewed = {}
            self.revision += 1
            changed = set(self._accounts)
        kinds = len(self._table.columns)
        for name in sorted(changed) if not self._table.names else changed:
            account = self._accounts.get(name)
            capacity = self._view(account) if account is not None else NodeCapacity(NOTHING)
            if self._viewed.get(name) != capacity:
                self._viewed[name] = capacity
                self._table.put(name, capacity)
                self.revision += 1
        self._table.revision = self.revision
        if len(self._table.columns) > kinds:
            # Where pods use more of a new kind of resource than there is, that wasn't recorded yet.
            for name, capacity in self._viewed.items():
                if min(capacity.free.values(), default=0) < 0:
                    self._table.put(name, capacity)
        return self._table

    def frozen(self) -> CapacityTable:
        """Return a table that never changes: the same one until the capacity does."""
        table = self.now()
        if self._frozen.revision != table.revision:
            self._frozen = table.copy()
            self._frozen.revision = table.revision
        return self._frozen
