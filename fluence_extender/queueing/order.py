"""The order in which entries are served.

Entries that have begun come first, because they have to be completed. Of the others, the entitlement decides first:
entries within the guarantee of their queue come before those beyond it, and then the smaller share comes first. All
entitlements are equal if no queue has a guarantee or a weight. Then the higher priority comes first, and then the older
entry; entries of the same second are in the order of their creation. The rank of an entry depends only on the entry.
"""

from __future__ import annotations

from fluence_extender.queueing.entry import Age, Entitlement

Rank = tuple[bool, Entitlement, int, Age, str]
"""Whether the entry hasn't begun, its entitlement, negative priority, age and key. The lowest is served first."""


def rank(begun: bool, entitlement: Entitlement, priority: int, created: Age, key: str) -> Rank:
    """Return a key that sorts entries in the order in which they are served."""
    return (not begun, entitlement, -priority, created, key)


def has_begun(rank: Rank) -> bool:
    """Return whether the entry with this rank has begun."""
    return not rank[0]
