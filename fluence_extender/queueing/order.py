"""The order in which entries are served.

Entries that have begun come first, because they have to be completed. Then those come first to which their queue is
entitled the most: within what is guaranteed to it, then with the smaller share; all are alike where no queue has a
guarantee or a weight. Then the higher priority comes first, then the older entry; entries of the same second are
ordered as they were created. The rank of an entry depends on nothing but the entry.
"""

from __future__ import annotations

from fluence_extender.queueing.entry import Age, Entitlement

Rank = tuple[bool, Entitlement, int, Age, str]
"""Whether it has yet to begin, its entitlement, its negative priority, its age, its key; the lowest is served first."""


def rank(begun: bool, entitlement: Entitlement, priority: int, created: Age, key: str) -> Rank:
    """Return a key that sorts entries in the order in which they are served."""
    return (not begun, entitlement, -priority, created, key)
