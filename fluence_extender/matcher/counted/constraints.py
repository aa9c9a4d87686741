"""RFC 31 constraints answered for all nodes at once, or for the few nodes that a constraint names.

The jobspec reader has already checked the text. Here it becomes a boolean mask over the table's rows. Masks are kept in
a small cache, which any change of the nodes empties. The rules are those of libreapi_cli.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fluence_extender.matcher.counted.table import Bools, NodeRow, NodeTable
from fluence_extender.matcher.walker.constraint import Hostlist, Idset

FEW = 16
"""A constraint that names at most this many nodes is tested only on those."""

_KEPT = 32


class NodeIndex:
    """The rows by rank, by name and by property key."""

    def __init__(self) -> None:
        self.by_rank: dict[int, int] = {}
        self._by_name: dict[str, tuple[int, ...]] = {}
        self._by_property: dict[str, set[int]] = {}
        self._masks: OrderedDict[str, Bools] = OrderedDict()

    def add(self, row: int, node: NodeRow) -> None:
        """Add a node."""
        if node.rank >= 0:
            self.by_rank[node.rank] = row
        self._by_name[node.name] = (*self._by_name.get(node.name, ()), row)
        for key in node.properties:
            self._by_property.setdefault(key, set()).add(row)
        self._masks.clear()

    def remove(self, row: int, node: NodeRow) -> None:
        """Remove a node."""
        self.by_rank.pop(node.rank, None)
        others = tuple(other for other in self._by_name.pop(node.name) if other != row)
        if others:
            self._by_name[node.name] = others
        for key in node.properties:
            self._by_property[key].discard(row)
            if not self._by_property[key]:
                del self._by_property[key]
        self._masks.clear()

    def few_rows(self, constraint: Mapping[str, Any]) -> list[int] | None:
        """Return at most `FEW` rows outside of which the constraint can't hold; None if it names no such rows."""
        for name, operands in constraint.items():
            if name == "and":
                for operand in operands:
                    rows = self.few_rows(operand)
                    if rows is not None:
                        return rows
            elif name == "ranks" and len(operands) <= FEW:
                return self._few_ranks(operands)
            elif name == "hostlist" and len(operands) <= FEW and not any(_is_list(name) for name in operands):
                found = [row for name in dict.fromkeys(operands) for row in self._by_name.get(name, ())]
                return found if len(found) <= FEW else None
        return None

    def _few_ranks(self, operands: Iterable[Any]) -> list[int] | None:
        ranks: dict[int, None] = {}
        for operand in operands:
            text = str(operand)
            if not (text.isascii() and text.isdigit()):
                return None
            ranks[int(text)] = None
        return [self.by_rank[rank] for rank in ranks if rank in self.by_rank]

    def holds_anywhere(
        self, constraint: Mapping[str, Any], holds: Callable[[Any], bool], table: NodeTable
    ) -> bool:
        """Whether the constraint holds on any node; ``holds`` tests one node."""
        rows = self.few_rows(constraint)
        if rows is not None:
            return any(holds(table.nodes[row]) for row in rows)
        return bool((self.mask(constraint, table) & table.alive[: table.size]).any())

    def mask(self, constraint: Mapping[str, Any], table: NodeTable) -> Bools:
        """Return for each row below ``table.size`` whether the constraint holds there. Don't write to the mask."""
        key = json.dumps(constraint)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._evaluate(constraint, table.size)
            if len(self._masks) > _KEPT:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(key)
        return mask

    def _evaluate(self, constraint: Mapping[str, Any], size: int) -> Bools:
        for name, operands in constraint.items():
            if name == "properties":
                return self._properties(operands, size)
            if name == "hostlist":
                return self._hostlist(operands, size)
            if name == "ranks":
                return self._ranks(operands, size)
            parts = [self._evaluate(operand, size) for operand in operands]
            if name == "or":
                return np.logical_or.reduce(parts) if parts else np.zeros(size, np.bool_)
            every: Bools = np.logical_and.reduce(parts) if parts else np.ones(size, np.bool_)
            return ~every if name == "not" else every
        return np.ones(size, np.bool_)

    def _properties(self, operands: Iterable[str], size: int) -> Bools:
        mask = np.ones(size, np.bool_)
        for operand in operands:
            held = _mask(self._by_property.get(operand.removeprefix("^"), set()), size)
            mask &= ~held if operand.startswith("^") else held
        return mask

    def _hostlist(self, operands: Iterable[Any], size: int) -> Bools:
        texts = ["null" if operand is None else str(operand) for operand in operands]
        if not any(_is_list(text) for text in texts):
            return _mask([row for text in texts for row in self._by_name.get(text, ())], size)
        hosts = Hostlist(texts)
        return _mask([row for name, rows in self._by_name.items() if name in hosts for row in rows], size)

    def _ranks(self, operands: Iterable[Any], size: int) -> Bools:
        texts = [str(operand) for operand in operands]
        if all(text.isascii() and text.isdigit() for text in texts):
            return _mask([self.by_rank[int(text)] for text in texts if int(text) in self.by_rank], size)
        ranks = Idset(texts)
        return _mask([row for rank, row in self.by_rank.items() if rank in ranks], size)


def _is_list(text: Any) -> bool:
    return not isinstance(text, str) or not text or any(char in text for char in "[], \t")


def _mask(rows: Iterable[int], size: int) -> Bools:
    mask = np.zeros(size, np.bool_)
    mask[list(rows)] = True
    return mask
