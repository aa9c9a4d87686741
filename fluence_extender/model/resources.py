"""Exact resource vectors.

Amounts are integers in a fixed unit for each name: ``cpu`` in millicores; ``memory``, ``ephemeral-storage`` and
``hugepages-*`` in bytes; ``pods`` in pods; every extended resource in whole devices. Sums and differences are exact.
Only the graph and libreapi_cli round, to whole leaves (`graph.units`).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"


class Resources(Mapping[str, int]):
    """An immutable vector of exact amounts. A missing name counts as 0, and amounts of 0 are not stored."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        self._amounts: dict[str, int] = {name: amount for name, amount in dict(amounts).items() if amount}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def items(self) -> ItemsView[str, int]:
        """Return the stored names with their amounts."""
        return self._amounts.items()

    def values(self) -> ValuesView[int]:
        """Return the stored amounts."""
        return self._amounts.values()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self._amounts == other._amounts
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._amounts.items()))
        return self._hash

    def __add__(self, other: Resources) -> Resources:
        total = dict(self._amounts)
        for name, amount in other._amounts.items():
            both = total[name] = total.get(name, 0) + amount
            if not both:
                del total[name]
        return _wrapped(total)

    def __sub__(self, other: Resources) -> Resources:
        total = dict(self._amounts)
        for name, amount in other._amounts.items():
            left = total[name] = total.get(name, 0) - amount
            if not left:
                del total[name]
        return _wrapped(total)

    def __repr__(self) -> str:
        return f"Resources({self._amounts!r})"

    def fits(self, free: Resources) -> bool:
        """Return whether ``free``, which may hold negative amounts, covers every amount."""
        have = free._amounts
        return all(amount <= 0 or amount <= have.get(name, 0) for name, amount in self._amounts.items())

    @classmethod
    def total(cls, parts: Iterable[Resources]) -> Resources:
        """Return the sum of all ``parts``."""
        amounts: dict[str, int] = {}
        for part in parts:
            for name, amount in part._amounts.items():
                amounts[name] = amounts.get(name, 0) + amount
        return cls(amounts)


def _wrapped(amounts: dict[str, int]) -> Resources:
    """Return a vector that takes over ``amounts``, none of which is zero, without copying them."""
    made = Resources.__new__(Resources)
    made._amounts = amounts
    made._hash = None
    return made


NOTHING = Resources()
