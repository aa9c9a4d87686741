"""What each match policy means for counts: the order of nodes, and which units of a node go first.

The rules are those of libreapi_cli. Policies that grant nodes whole are left to the walker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fluence_extender.matcher.counted.document import Uncountable


class Order(Enum):
    """How nodes are chosen: the first ones of a walk that suffice, by node score, or by the scores of leaves."""

    FIRST = "first"
    NODE = "node"
    LEAF = "leaf"


@dataclass(frozen=True, slots=True)
class CountedPolicy:
    """One named policy.

    ``ascending``: low scores, and with them low ids, go first. ``by_interval``: slots are chosen by runs of consecutive
    scores. ``by_class``: a leaf's score is its performance class.
    """

    order: Order
    ascending: bool
    by_interval: bool = False
    by_class: bool = False


POLICIES = {
    "first": CountedPolicy(Order.FIRST, ascending=False),
    "high": CountedPolicy(Order.LEAF, ascending=False),
    "low": CountedPolicy(Order.LEAF, ascending=True),
    "hinode": CountedPolicy(Order.NODE, ascending=False),
    "lonode": CountedPolicy(Order.NODE, ascending=True),
    "locality": CountedPolicy(Order.LEAF, ascending=False, by_interval=True),
    "variation": CountedPolicy(Order.LEAF, ascending=True, by_class=True),
}


def policy_named(name: str) -> CountedPolicy:
    """Return the policy of that name. Raises `Uncountable` for one that only the walker has."""
    policy = POLICIES.get(name)
    if policy is None:
        raise Uncountable(f"counts can't follow the match policy {name[:40]!r}")
    return policy
