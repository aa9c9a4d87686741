"""What passes keep from one to the next, in their own thread. All of it can be lost: it only saves time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from fluence_extender.gangs.planning.demands import Demanded
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.placement.chooser import NodeChooser
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.shortfalls import countable
from fluence_extender.placement.topology import Topology
from fluence_extender.queueing.order import Rank

MOST_DEMANDS = 20_000
"""The most demands that are kept so that equal ones are one object."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a gang without places asks for, as long as the gang doesn't change.

    ``demand`` is the demand of all its members. It is None if more than the demand decides about the gang; else the
    gang gets the same answers as the gangs of an equal demand. ``duration`` is how many seconds the gang runs, None if
    that depends on when it starts.
    """

    demand: Demanded | None
    duration: float | None


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What has changed about nodes since the last pass.

    ``changed`` has the nodes that are new, and those that aren't as they were. ``gone`` has the names of the nodes that
    have left. If ``gone`` is None, ``changed`` has all nodes that there are.
    """

    changed: Sequence[Node]
    gone: Set[str] | None


FIRST_IN_VAIN, MOST_IN_VAIN = 128, 192
"""The most failed plans of one namespace in one pass: for the gangs in order from the first one on, and in total.

Most gangs need no plan of their own, because a gang with the same demand has no place, or because a count shows that
there is none. The difference of the two numbers is for gangs that the last pass has deferred, so that each gang is
planned in some pass.
"""

COUNT = 0.25
"""How many failed plans a count of all nodes stands for: it takes about a quarter of the time of one."""


class InVain:
    """Counts and limits the failed plans of each namespace in a pass, so that other namespaces don't wait long."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._resume: dict[str, Rank] = {}
        """By namespace, the rank of the first gang that this pass has deferred."""
        self._left: Mapping[str, Rank] = {}
        """By namespace, the rank of the first gang that the last pass has deferred."""

    def begin_pass(self) -> None:
        """Begin a pass."""
        self._spent = {}
        self._left, self._resume = self._resume, {}

    def note(self, namespace: str, plans: float = 1) -> None:
        """Count failed plans of a namespace. A fraction stands for work that takes less time than a plan."""
        self._spent[namespace] = self._spent.get(namespace, 0) + plans

    def may_plan(self, namespace: str, rank: Rank) -> bool:
        """Return whether a gang of that rank may be planned, given the failed plans of its namespace so far."""
        spent, left = self._spent.get(namespace, 0), self._left.get(namespace)
        return spent < FIRST_IN_VAIN or (spent < MOST_IN_VAIN and (left is None or rank >= left))

    def leave(self, namespace: str, rank: Rank) -> None:
        """Defer a gang that may not be planned to the next pass."""
        left = self._left.get(namespace)
        if left is None or rank >= left:
            self._resume.setdefault(namespace, rank)


class PassMemory:
    """The nodes of the last pass with what was derived from them, and what was found out about gangs.

    ``levels`` maps the names of topology levels to node labels. ``chooser`` places equal members, by default first fit.
    """

    def __init__(self, levels: Mapping[str, str], chooser: NodeChooser | None = None) -> None:
        self._levels = levels
        self._chooser = chooser
        self.wishes: dict[GangKey, Wish] = {}
        self.beyond: dict[GangKey, int] = {}
        """The position, among the members beyond a gang's size, at which the next attempt begins, 0 if not given."""
        self._demands: dict[tuple[Hashable, float], Demanded] = {}
        self.in_vain = InVain()
        self._forget_nodes()

    def _forget_nodes(self) -> None:
        eligibility = EligibilityIndex()
        self.planner = Planner(eligibility, Topology(eligibility, self._levels), self._chooser)

    def follow(self, nodes: NodeChanges, changed: Iterable[GangKey], gangs: Collection[GangKey]) -> None:
        """Begin a pass: take in which nodes and gangs have changed since the last one, and which ``gangs`` exist."""
        if nodes.gone is None:
            self._forget_nodes()
        for name in nodes.gone or ():
            self.planner.eligibility.drop(name)
        for node in nodes.changed:
            self.planner.eligibility.put(node)
        self.in_vain.begin_pass()
        for key in changed:
            self.wishes.pop(key, None)
        if len(self.wishes) > 2 * len(gangs) + 1:
            self.wishes = {key: one for key, one in self.wishes.items() if key in gangs}
        self.beyond = {key: at for key, at in self.beyond.items() if key in gangs}
        if len(self._demands) >= MOST_DEMANDS:
            self._demands.clear()

    def same(self, key: Hashable, priority: float, demands: Callable[[], Sequence[Demand]]) -> Demanded:
        """Return the one object for equal demands; ``demands`` returns them one by one."""
        same = self._demands.get((key, priority))
        if same is None:
            each = demands()
            group = [each[0].pod] * len(each) if countable(each) else []
            same = self._demands[key, priority] = Demanded(key, priority, group)
        return same
