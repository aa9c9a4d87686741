"""Whether autoscalers may add a node that has room for a pod, judged by present, gone and stated nodes.

Only the cloud knows the templates of its node groups. So a pod that fits on no known node is assumed to fit on no
future one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fluence_extender.model.resources import Resources
from fluence_extender.room.capacity import CapacityTable


class NodeSizes:
    """The sizes of the largest nodes that are gone, and one that is ``stated``.

    If the stated node doesn't name a resource, it counts as having as much of it as the largest other node.
    """

    def __init__(self, stated: Resources) -> None:
        self._stated = stated
        self._gone: list[Resources] = []

    def add(self, size: Resources) -> None:
        """Take in the size of a node that is gone."""
        if not any(size.fits(one) for one in self._gone):
            self._gone = [*(one for one in self._gone if not one.fits(size)), size]

    def may_come(self, requests: Iterable[Resources], now: CapacityTable) -> bool:
        """Return whether each of these requests fits on a node like a present one (``now``) or one that is gone.

        A resource that no node has or had is ignored: nodes of a new kind may bring it.
        """
        most = dict(self._stated.items())
        for size in self._gone:
            for name, amount in size.items():
                most[name] = max(amount, most.get(name, 0))
        for name, column in now.columns.items():
            most[name] = max(int(now.free[:, column].max()), most.get(name, 0))
        return all(self._may_come(one, most, now) for one in requests)

    def _may_come(self, requests: Resources, most: Mapping[str, int], now: CapacityTable) -> bool:
        known = {name: amount for name, amount in requests.items() if most.get(name, 0) > 0}
        if not known or any(Resources(known).fits(size) for size in self._gone):
            return True
        stated = self._stated
        if stated and all(
            amount <= (stated[name] if name in stated else most[name]) for name, amount in known.items()
        ):
            return True
        if not known.keys() <= now.columns.keys():
            return False
        amounts = now.free[:, [now.columns[name] for name in known]]
        return bool((amounts >= list(known.values())).all(axis=1).any())
