"""Whether autoscalers may add a node that has room for a pod, judged by present, gone and stated nodes.

Only the cloud knows the templates of its node groups. So if no known node could hold a pod, no future one counts as
able to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.model.resources import Resources


class NodeSizes:
    """The sizes of the largest nodes that are gone, and one that is ``stated``.

    Where the stated node doesn't name a resource, it has as much of it as the largest other node.
    """

    def __init__(self, stated: Resources) -> None:
        self._stated = stated
        self._gone: list[Resources] = []

    def add(self, size: Resources) -> None:
        """Take in the size of a node that is gone."""
        if not any(size.fits(one) for one in self._gone):
            self._gone = [*(one for one in self._gone if not one.fits(size)), size]

    def may_come(self, requests: Iterable[Resources], now: CapacityTable) -> bool:
        """Return whether each of these requests fits on a node like one that is there (``now``), or was.

        A resource that no node has or had may come with nodes of which there have been none yet.
        """
        most = dict(self._stated.items())
        for size in self._gone:
            for name, amount in size.items():
                most[name] = max(amount, most.get(name, 0))
        for name, column in now.columns.items():
            most[name] = max(int(now.free[:, column].max()), most.get(name, 0))
        return all(self._may_come(one, most, now) for one in requests)

    def _may_come(self, requests: Resources, most: Mapping[str, int], now: CapacityTable) -> bool:
        asked = {name: amount for name, amount in requests.items() if most.get(name, 0) > 0}
        if not asked or any(Resources(asked).fits(size) for size in self._gone):
            return True
        stated = self._stated
        if stated and all(
            amount <= (stated[name] if name in stated else most[name]) for name, amount in asked.items()
        ):
            return True
        if not asked.keys() <= now.columns.keys():
            return False
        amounts = now.free[:, [now.columns[name] for name in asked]]
        return bool((amounts >= list(asked.values())).all(axis=1).any())
