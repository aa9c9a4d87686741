"""The nodes that are closed to a gang although they have free capacity.

A node is closed because it is held for a preemptor, or because another gang uses it under a node-exclusive policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager


class PreemptorHolds:
    """The nodes held for each preemptor, so that no other gang takes what the victims free.

    A preemptor needs the capacity of all its victims. Until the last victim is gone, the nodes are closed to every
    other gang, except within `ignoring`. The same holds for new nodes that are *kept* for a gang that has asked for
    them.
    """

    def __init__(self) -> None:
        self._nodes: dict[object, frozenset[str]] = {}
        self._kept: dict[object, frozenset[str]] = {}
        self._ignored: frozenset[object] = frozenset()

    def copy(self) -> PreemptorHolds:
        """Return an independent copy."""
        found = PreemptorHolds()
        found._nodes, found._kept = dict(self._nodes), dict(self._kept)
        return found

    @contextmanager
    def ignoring(self, gangs: frozenset[object]) -> Iterator[None]:
        """Open the nodes that are held for ``gangs`` within this context."""
        before, self._ignored = self._ignored, gangs
        try:
            yield
        finally:
            self._ignored = before

    def hold(self, gang: object, nodes: Collection[str]) -> None:
        """Hold exactly these nodes for ``gang``; no nodes end the hold."""
        _set(self._nodes, gang, nodes)

    def keep(self, gang: object, nodes: Collection[str]) -> None:
        """Keep exactly these new nodes for ``gang``; no nodes end it."""
        _set(self._kept, gang, nodes)

    def nodes_for(self, gang: object) -> frozenset[str]:
        """Return the nodes that are held for ``gang`` as a preemptor."""
        return self._nodes.get(gang, frozenset())

    def kept_for(self, gang: object) -> frozenset[str]:
        """Return the new nodes that are kept for ``gang``."""
        return self._kept.get(gang, frozenset())

    def all_nodes(self) -> set[str]:
        """Return all nodes that are held or kept for some gang."""
        return set().union(*self._nodes.values(), *self._kept.values())

    def closed_to(self, gang: object) -> set[str]:
        """Return the nodes that ``gang`` may not use now."""
        closed: set[str] = set()
        for holder, nodes in (*self._nodes.items(), *self._kept.items()):
            if holder != gang and holder not in self._ignored:
                closed |= nodes
        return closed


def _set(held: dict[object, frozenset[str]], gang: object, nodes: Collection[str]) -> None:
    if nodes:
        held[gang] = frozenset(nodes)
    else:
        held.pop(gang, None)


class GangNodes:
    """The gangs that use each node under a policy by which only pods of one gang may share a node.

    Nothing is recorded, and no node is closed, unless ``exclusive``.
    """

    def __init__(self, exclusive: bool = False) -> None:
        self.exclusive = exclusive
        self._pods: dict[str, tuple[str, object]] = {}
        self._gangs_on: dict[str, Counter[object]] = {}

    def copy(self) -> GangNodes:
        """Return an independent copy."""
        found = GangNodes(self.exclusive)
        found._pods = dict(self._pods)
        found._gangs_on = {node: Counter(gangs) for node, gangs in self._gangs_on.items()}
        return found

    def add(self, uid: str, node: str, gang: object) -> None:
        """Record a pod of ``gang`` on ``node``."""
        if self.exclusive:
            self._pods[uid] = (node, gang)
            self._gangs_on.setdefault(node, Counter())[gang] += 1

    def gang_of(self, uid: str) -> object | None:
        """Return the gang of a pod, None if the pod isn't recorded."""
        return self._pods[uid][1] if uid in self._pods else None

    def remove(self, uid: str) -> None:
        """Forget a pod; nothing happens when it isn't recorded."""
        if uid not in self._pods:
            return
        node, gang = self._pods.pop(uid)
        gangs = self._gangs_on[node]
        gangs[gang] -= 1
        if not gangs[gang]:
            del gangs[gang]
        if not gangs:
            del self._gangs_on[node]

    def closed_to(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that other gangs use, or would use if the pods ``without`` were gone."""
        removed = Counter(self._pods[uid] for uid in without if uid in self._pods)
        return {
            node
            for node, gangs in self._gangs_on.items()
            if any(one != gang and count > removed[node, one] for one, count in gangs.items())
        }

    def of_others(self, uids: Iterable[str], gang: object) -> list[str]:
        """Return those of ``uids`` that are recorded for a gang other than ``gang``."""
        return [uid for uid in uids if uid in self._pods and self._pods[uid][1] != gang]
