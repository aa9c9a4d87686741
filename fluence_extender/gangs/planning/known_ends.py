"""When pods that hold something end, as they, their workloads and their queues declare it.

A pod that has a place and hasn't started yet is treated as if it had started when its end was first asked for. Ends
of started pods are computed once, and again when the pod, its workload or its queue has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from copy import copy

import numpy as np

from fluence_extender.gangs.queue.submissions import Ends
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.queueing.entry import NEVER, Mask, Rows, Times
from fluence_extender.room.holdings import Holding
from fluence_extender.room.ledger import Ledger


class KnownEnds:
    """The pods with a known end; ``calendar`` returns seconds since the epoch."""

    def __init__(self, ends: Ends, calendar: Callable[[], float]) -> None:
        self._ends = ends
        self._calendar = calendar
        self._pods: dict[str, Pod] = {}
        self._started: dict[str, float] = {}
        self._unstarted: dict[str, Pod] = {}
        self._placed: dict[str, float] = {}
        self._changed: set[str] = set()
        """The pods whose ends may have changed since `take_changed` was last called."""
        self.revision = 0
        """Grows when the end of a pod that has its node may have changed."""

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that is new or has changed, and so may have another end."""
        if pod.finished or not self._ends.has_end(pod):
            self._drop(pod.uid)
        elif self._pods.get(pod.uid) is not pod:
            self._put(pod)

    def restated(self, pod: Pod) -> None:
        """Take in a pod whose end may have changed because its workload or its queue has."""
        self._drop(pod.uid)
        self.pod_seen(pod)

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        self._drop(uid)
        self._changed.add(uid)
        self._placed.pop(uid, None)

    @property
    def any(self) -> bool:
        """Whether the end of any pod is known."""
        return bool(self._pods)

    def end(self, uid: str) -> float:
        """Return when a pod that holds something ends, in seconds since the epoch; `NEVER` if that isn't known."""
        pod = self._unstarted.get(uid)
        if pod is None:
            return self._started.get(uid, NEVER)
        return self._ends.end(pod, self._placed.setdefault(uid, self._calendar()))

    def displaced(self, uid: str) -> None:
        """Forget when a pod was first seen with its place, because it has lost the place."""
        self._placed.pop(uid, None)

    @property
    def changed(self) -> frozenset[str]:
        """The pods that have changed since `take_changed` was called."""
        return frozenset(self._changed)

    def take_changed(self) -> set[str]:
        """Return the pods that have changed since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def _put(self, pod: Pod) -> None:
        self._drop(pod.uid)
        self._changed.add(pod.uid)
        self._pods[pod.uid] = pod
        self.revision += bool(pod.node)
        if pod.started:
            self._placed.pop(pod.uid, None)
            end = self._ends.end(pod, pod.started)
            if end < NEVER:
                self._started[pod.uid] = end
        else:
            self._unstarted[pod.uid] = pod

    def _drop(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._changed.add(uid)
            self._started.pop(uid, None)
            self._unstarted.pop(uid, None)
            self.revision += bool(pod.node)


MOST_UNUSED = 1_000
"""Nodes and sizes are numbered anew once there are more numbers of either than twice the pods and this many more."""


class LeavingPods:
    """The pods that hold something and have a known end, as columns, so that a timeline is quickly made from them.

    Ends are in seconds since the epoch, `NEVER` in a row without a pod. ``nodes`` has the number of each node, and
    ``sizes`` that of each size of a pod.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.sizes: dict[Resources, int] = {}
        self._rows: dict[str, int] = {}
        self._holdings: list[Holding] = []
        self._unused: list[int] = []
        self._ends = np.full(64, NEVER)
        self._node, self._size = np.zeros(64, dtype=np.intp), np.zeros(64, dtype=np.intp)
        self._foreign = np.zeros(64, dtype=np.bool_)

    def copy(self) -> LeavingPods:
        """Return an independent copy."""
        copied = copy(self)
        copied.nodes, copied.sizes, copied._rows = dict(self.nodes), dict(self.sizes), dict(self._rows)
        copied._holdings, copied._unused = list(self._holdings), list(self._unused)
        copied._ends, copied._foreign = self._ends.copy(), self._foreign.copy()
        copied._node, copied._size = self._node.copy(), self._size.copy()
        return copied

    def follow(self, changed: Iterable[str], ends: KnownEnds, ledger: Ledger) -> None:
        """Take in the present ends of the pods ``changed``, and what they hold."""
        for uid in changed:
            holding = ledger.holdings.get(uid)
            foreign = holding is None
            if holding is None:
                holding = ledger.held_by_foreign(uid)
            if holding is None:
                ends.displaced(uid)
            end = NEVER if holding is None else ends.end(uid)
            if holding is None or end == NEVER:
                self._drop(uid)
            else:
                self.put(uid, holding, end, foreign)

    def end(self, uid: str) -> float:
        """Return when a pod ends, `NEVER` if that isn't known or if it holds nothing."""
        row = self._rows.get(uid)
        return NEVER if row is None else float(self._ends[row])

    def with_ports(self) -> list[tuple[str, Holding, float]]:
        """Return the pods with host ports: their uids, what they hold, and their ends."""
        rows = ((uid, self._holdings[row], row) for uid, row in self._rows.items())
        return [(uid, holding, float(self._ends[row])) for uid, holding, row in rows if holding.ports]

    def columns(self, gone: Set[str]) -> tuple[Times, Rows, Rows, Mask]:
        """Return for all pods but ``gone``: their ends, node numbers, size numbers, and which are foreign."""
        present = self._ends < NEVER
        present[[self._rows[uid] for uid in gone if uid in self._rows]] = False
        return self._ends[present], self._node[present], self._size[present], self._foreign[present]

    def put(self, uid: str, holding: Holding, end: float, foreign: bool) -> None:
        """Record what a pod holds, and when it ends."""
        row = self._rows.get(uid)
        if row is None:
            row = self._rows[uid] = self._new_row(holding)
        self._holdings[row] = holding
        self._ends[row], self._foreign[row] = end, foreign
        self._number(row)
        if max(len(self.nodes), len(self.sizes)) > 2 * len(self._rows) + MOST_UNUSED:
            self.nodes, self.sizes = {}, {}
            for numbered in self._rows.values():
                self._number(numbered)

    def _number(self, row: int) -> None:
        holding = self._holdings[row]
        self._node[row] = self.nodes.setdefault(holding.node, len(self.nodes))
        self._size[row] = self.sizes.setdefault(holding.requests, len(self.sizes))

    def _new_row(self, holding: Holding) -> int:
        if self._unused:
            return self._unused.pop()
        self._holdings.append(holding)
        if len(self._holdings) > len(self._ends):
            more = len(self._ends)
            self._ends = np.append(self._ends, np.full(more, NEVER))
            self._node, self._size, self._foreign = (
                np.append(column, np.zeros(more, dtype=column.dtype))
                for column in (self._node, self._size, self._foreign)
            )
        return len(self._holdings) - 1

    def _drop(self, uid: str) -> None:
        row = self._rows.pop(uid, None)
        if row is not None:
            self._ends[row] = NEVER
            self._unused.append(row)
