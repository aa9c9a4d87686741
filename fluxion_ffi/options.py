"""The options of a graph: what reapi_cli_initialize reads, checked so that no value can crash it.

An unknown traverser or policy ends the process there, an unknown match format silently becomes another one (fluxion
reference 1.7, 1.8). The load format is always JGF, and the matcher always walks containment only (``CA``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from fluxion_ffi.errors import InvalidOptions, shown
from fluxion_ffi.pruning import PruneFilters

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
TRAVERSERS = frozenset({"simple", "flexible"})
MATCH_FORMATS = frozenset(
    {"jgf", "jgf_shorthand", "rv1", "rv1_nosched", "rv1_shorthand", "simple", "pretty_simple"}
)
"""Not ``rlite``: with it the library answers EINVAL for whatever doesn't fit now."""

RANKED_FORMATS = frozenset({"rv1", "rv1_nosched", "rv1_shorthand"})
"""Formats that can't be written for a node without rank: the match would hold its resources and still fail."""

_SWITCHES = frozenset({"node_centric", "node_exclusive", "stop_on_1_matches"})


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Options of one graph; checked when made (`InvalidOptions` names the option).

    ``matcher_policy``: one of `POLICIES`, or a custom policy such as ``policy=low node_centric=true``.
    ``prune_filters``: ``HIGHER:LOWER[,…]`` with ``ALL`` for any higher type; which totals a vertex keeps of
    its subtree. ``reserve_vtx_vec``: how many vertices the graph can grow to, those removed again included; 0
    leaves it to the graph, which takes four times its size and then some.
    """

    matcher_policy: str = "first"
    prune_filters: str = "ALL:core,ALL:node"
    match_format: str = "jgf"
    traverser_policy: str = "simple"
    reserve_vtx_vec: int = 0

    def __post_init__(self) -> None:
        for name in ("matcher_policy", "prune_filters", "match_format", "traverser_policy"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise InvalidOptions(f"options.{name}: must be a string, not {type(value).__name__}")
        _one_of("traverser_policy", self.traverser_policy, TRAVERSERS)
        _one_of("match_format", self.match_format, MATCH_FORMATS)
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
        """Whether the walk stops at the first vertices that suffice, which makes it compute the largest count asked."""
        return self.matcher_policy.startswith("first") or "stop_on_1_matches=true" in self.matcher_policy

    @property
    def flexible(self) -> bool:
        """Whether sibling slots are alternatives."""
        return self.traverser_policy == "flexible"

    def json(self, room: int) -> bytes:
        """The options as the library reads them, with room for that many vertices."""
        return json.dumps(
            {
                "load_format": "jgf",
                "matcher_name": "CA",
                "matcher_policy": self.matcher_policy,
                "traverser_policy": self.traverser_policy,
                "match_format": self.match_format,
                "prune_filters": self.prune_filters,
                "reserve_vtx_vec": room,
            },
            ensure_ascii=False,
        ).encode()


def _one_of(name: str, value: str, known: frozenset[str]) -> None:
    if value not in known:
        raise InvalidOptions(f"options.{name}: {shown(value)} isn't one of {', '.join(sorted(known))}")


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
