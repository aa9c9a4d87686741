"""What each match policy means to arithmetic: the order of nodes, and which units of a node go first.

(fluxion reference 4.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fluence_extender.matcher.counted.uncountable import Uncountable


class Order(Enum):
    """How candidates are found: in visiting order until there are enough, by node score, or by each leaf's score."""

    FIRST = "first"
    NODE = "node"
    LEAF = "leaf"


@dataclass(frozen=True, slots=True)
class Policy:
    """One named policy. ``ascending`` says that low scores, and with them low ids, go first."""

    order: Order
    ascending: bool
    whole_nodes: bool = False
    by_interval: bool = False
    by_class: bool = False


POLICIES = {
    "first": Policy(Order.FIRST, ascending=False),
    "firstnodex": Policy(Order.FIRST, ascending=False, whole_nodes=True),
    "high": Policy(Order.LEAF, ascending=False),
    "low": Policy(Order.LEAF, ascending=True),
    "hinode": Policy(Order.NODE, ascending=False),
    "lonode": Policy(Order.NODE, ascending=True),
    "hinodex": Policy(Order.NODE, ascending=False, whole_nodes=True),
    "lonodex": Policy(Order.NODE, ascending=True, whole_nodes=True),
    "locality": Policy(Order.LEAF, ascending=False, by_interval=True),
    "variation": Policy(Order.LEAF, ascending=True, by_class=True),
}


def policy_named(name: str) -> Policy:
    """The policy of that name. Raises `Uncountable`: a custom text is the walker's."""
    policy = POLICIES.get(name)
    if policy is None:
        raise Uncountable(f"unknown match policy {name!r}; known are {', '.join(POLICIES)}")
    return policy
