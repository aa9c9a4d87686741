"""The options of a graph: what reapi_cli_initialize reads, checked so that no value can crash it.

An unknown policy ends the process there. So does an operation on a graph whose root keeps
no total, because the library looks the total up without a check; such a graph is refused before it is loaded. Graphs
and resource sets are always JGF, and the traverser is always ``simple`` over containment only (``CA``).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from fluxion_ffi.errors import InvalidOptions, shown

POLICIES = frozenset(
    {
        "first",
        "firstnodex",
        "high",
        "low",
        "lonode",
        "hinode",
        "lonodex",
        "hinodex",
        "locality",
        "variation",
    }
)
_ANY = "ALL"
_SWITCHES = frozenset({"node_centric", "node_exclusive", "stop_on_1_matches"})


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Options of one graph; checked when made (`InvalidOptions` names the option).

    ``matcher_policy``: one of `POLICIES`, or a custom policy such as ``policy=low node_centric=true``.
    ``prune_filters``: ``HIGHER:LOWER[,…]`` with ``ALL`` for any higher type; which totals a vertex keeps of
    its subtree. ``reserve_vtx_vec``: how many vertices the graph can grow to, removed ones included; 0 makes
    the graph reserve four times its own size and 65,536 more.
    """

    matcher_policy: str = "first"
    prune_filters: str = "ALL:core,ALL:node"
    reserve_vtx_vec: int = 0

    def __post_init__(self) -> None:
        for name in ("matcher_policy", "prune_filters"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise InvalidOptions(f"options.{name}: must be a string, not {type(value).__name__}")
        if self.matcher_policy not in POLICIES:
            _check_custom_policy(self.matcher_policy)
        PruneFilters.parse(self.prune_filters)
        reserve = self.reserve_vtx_vec
        if isinstance(reserve, bool) or not isinstance(reserve, int) or not 0 <= reserve < 2**31:
            raise InvalidOptions(
                f"options.reserve_vtx_vec: must be an integer from 0 to 2^31 - 1, not {shown(reserve)}"
            )

    @property
    def stops_early(self) -> bool:
        """Whether the walk stops at the first vertices that suffice; then it computes the largest count requested."""
        return self.matcher_policy.startswith("first") or "stop_on_1_matches=true" in self.matcher_policy

    def json(self, capacity: int) -> bytes:
        """Return the options as the library reads them, with memory for that many vertices."""
        return json.dumps(
            {
                "load_format": "jgf",
                "matcher_name": "CA",
                "matcher_policy": self.matcher_policy,
                "traverser_policy": "simple",
                "match_format": "jgf",
                "prune_filters": self.prune_filters,
                "reserve_vtx_vec": capacity,
            },
            ensure_ascii=False,
        ).encode()


def _check_custom_policy(policy: str) -> None:
    """Refuse any word that isn't ``key=value``: the library reads past the end of some and ignores the others."""
    place = f"options.matcher_policy: {shown(policy)}"
    seen: set[str] = set()
    for word in policy.split(" "):
        key, equals, value = word.partition("=")
        allowed = {"high", "low"} if key == "policy" else {"true", "false"} if key in _SWITCHES else set()
        if not equals or value not in allowed or key in seen:
            raise InvalidOptions(
                f"{place} is neither one of {', '.join(sorted(POLICIES))} nor made of policy=high|low and "
                f"{', '.join(sorted(_SWITCHES))}=true|false (at {shown(word)})"
            )
        seen.add(key)
    if "policy" not in seen:
        raise InvalidOptions(f"{place} has no policy=high or policy=low")


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
        """Return the types whose totals a vertex of type ``kind`` keeps, in a graph with leaves of ``leaf_types``.

        Vertices of type ``cluster`` also keep the leaf types that no filter names (since flux-sched 0.46).
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
