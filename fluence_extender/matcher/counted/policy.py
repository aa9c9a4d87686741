"""What each match policy means for counts: the order of nodes, and which units of a node go first.

The rules are those of fluxion reference 4.5. Policies that grant nodes whole are left to the walker.
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
class Policy:
    """One named policy.

    ``ascending``: low scores, and with them low ids, go first. ``by_interval``: slots are chosen by runs of consecutive
    scores. ``by_class``: a leaf's score is its performance class.
    """

    order: Order
    ascending: bool
    by_interval: bool = False
    by_class: bool = False


POLICIES = {
    "first": Policy(Order.FIRST, ascending=False),
    "high": Policy(Order.LEAF, ascending=False),
    "low": Policy(Order.LEAF, ascending=True),
    "hinode": Policy(Order.NODE, ascending=False),
    "lonode": Policy(Order.NODE, ascending=True),
    "locality": Policy(Order.LEAF, ascending=False, by_interval=True),
    "variation": Policy(Order.LEAF, ascending=True, by_class=True),
}


def policy_named(name: str) -> Policy:
    """Return the policy of that name. Raises `Uncountable` for one that only the walker has."""
    policy = POLICIES.get(name)
    if policy is None:
        raise Uncountable(f"counts can't follow the match policy {name[:40]!r}")
    return policy
