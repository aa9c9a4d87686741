"""Prune filters, and whether the root keeps a total under them.

The library looks up the root's totals in every operation but plain allocation without asking whether there
are any, and aborts the process if not (fluxion reference 1.7). So a graph whose root would keep none is
refused before it is loaded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fluxion_ffi.errors import InvalidOptions, shown

_ANY = "ALL"


@dataclass(frozen=True, slots=True)
class PruneFilters:
    """The types whose totals vertices keep: ``of_any`` every vertex, ``of_type[t]`` those of type ``t``."""

    of_any: frozenset[str]
    of_type: dict[str, frozenset[str]]

    @classmethod
    def parse(cls, text: str) -> PruneFilters:
        """Read ``HIGHER:LOWER[,HIGHER:LOWER]…`` as the library does. Raises `InvalidOptions`."""
        pairs = [_pair(item, text) for item in text.split(",")] if text else []
        of_any = frozenset(lower for higher, lower in pairs if higher == _ANY)
        of_type: dict[str, frozenset[str]] = {}
        for higher, lower in pairs:
            if higher != _ANY and lower not in of_any:
                of_type[higher] = of_type.get(higher, frozenset()) | {lower}
        return cls(of_any, of_type)

    @property
    def named(self) -> frozenset[str]:
        """Every type that a filter names."""
        return self.of_any.union(*self.of_type.values())

    def kept_by(self, kind: str, leaf_types: Collection[str]) -> frozenset[str]:
        """The types whose totals a vertex of type ``kind`` keeps, in a graph with leaves of ``leaf_types``.

        A leaf type that no filter names is kept by vertices of type ``cluster`` (since flux-sched 0.46).
        """
        unnamed = frozenset(leaf_types) - self.named if kind == "cluster" else frozenset()
        return unnamed | (self.of_any - {kind}) | self.of_type.get(kind, frozenset())


def _pair(item: str, text: str) -> tuple[str, str]:
    higher, _, lower = ("".join(item.split())).partition(":")
    if not higher or not lower or ":" in lower or not text.isprintable():
        raise InvalidOptions(
            f"options.prune_filters: {shown(item)} in {shown(text)} isn't of the form HIGHER:LOWER"
        )
    return higher, lower
