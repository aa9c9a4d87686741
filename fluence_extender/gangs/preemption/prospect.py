"""Where a gang is to go once others have gone, held against the ledger as it is: node by node.

A plan made on a copy of the ledger, or some steps ago, is good for as long as each of its nodes still has room for
those who are to go there. To see that takes no new plan, and what has changed on one node says nothing about the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import grouped
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.plan import Demand, Planner
from fluence_extender.placement.search import capacity
from fluence_extender.placement.topology_constraints import topology_constraints

Going = Callable[[str], bool]
"""Whether the pod of that uid is reckoned to go."""

A_NODE = 30
"""What looking at one node costs, where a trial on n nodes costs n."""

AT_ONCE = 100
"""Nodes: so many that have changed meanwhile are looked at once more together with the decision."""


class Prospect:
    """``places`` for all of ``demands``, pods of ``gang`` without devices and host ports.

    ``seen`` says of when they are: up to where the journal of nodes had been read, None for now.
    """

    def __init__(
        self,
        ledger: Ledger,
        planner: Planner,
        gang: object,
        demands: Sequence[Demand],
        places: Iterable[Assignment],
        seen: int | None = None,
    ) -> None:
        self._ledger = ledger
        self._planner = planner
        self._gang = gang
        there = {one.uid: one.node for one in places}
        self._on: dict[str, list[Demand]] = {}
        for demand in demands:
            self._on.setdefault(there[demand.pod.uid], []).append(demand)
        self._count = len(demands)
        self._alike = demands[0] if len(grouped(demands, {})) == 1 else None
        self._suited: dict[str, Node] = {}
        self._labels: dict[str, Mapping[str, str]] | None = None
        if any(topology_constraints(one.pod, one.levels, one.job_size) for one in demands):
            # Why these nodes were chosen may have been in labels that they had.
            changed = () if seen is None else planner.eligibility.journal.since(seen)
            still = self._on if changed is not None else ()
            nodes = {name: planner.node(name) for name in still if name not in (changed or ())}
            self._labels = {name: node.labels for name, node in nodes.items() if node is not None}
        self._wanted = {
            name: Resources.total(ledger.rounded(demand.pod.requests) for demand in some)
            for name, some in self._on.items()
        }

    @property
    def nodes(self) -> Collection[str]:
        """The nodes of the places."""
        return self._on.keys()

    def open(self, passing: frozenset[object]) -> bool:
        """Whether no node is closed to the gang, other than for the sake of ``passing``."""
        ledger = self._ledger
        with ledger.preemptor_holds.ignoring(passing):
            return ledger.preemptor_holds.closed_to(self._gang).isdisjoint(
                self._on
            ) and ledger.overcommitted.isdisjoint(self._on)

    def good(self, name: str, going: Going) -> bool:
        """Whether the node takes those who are to go there once those who are going have gone."""
        return self._suits(name) and not self.short(name, going)

    def good_everywhere(self, going: Going, passing: frozenset[object]) -> bool:
        """Whether all places are good now."""
        return self.open(passing) and all(self.good(name, going) for name in self._on)

    def short(self, name: str, going: Going) -> bool:
        """Whether the node, if it is one of the places, hasn't the room for them unless more go."""
        wanted = self._wanted.get(name)
        if wanted is None:
            return False
        account = self._ledger.accounts.get(name)
        if account is None or not all(map(going, self._ledger.apart_from(name, self._gang))):
            return True
        left = dict(self._ledger.free_on(name).items())
        for uid, use in account.users.items():
            if going(uid):
                for resource, amount in use.items():
                    left[resource] = left.get(resource, 0) + amount
        return any(amount > left.get(resource, 0) for resource, amount in wanted.items())

    def _suits(self, name: str) -> bool:
        """Whether the node is one for them still, whatever room it has; its labels may have said why it was chosen."""
        node = self._planner.node(name)
        if node is None or (self._labels is not None and node.labels != self._labels.get(name)):
            return False
        if node is self._suited.get(name):
            return True
        if any(name in demand.barred or refusal(demand.pod, node) for demand in self._on[name]):
            return False
        self._suited[name] = node
        return True

    def may_fit_now(self, passing: frozenset[object]) -> bool:
        """Whether there may be room for all of them now, on whatever nodes; that there is none is certain."""
        if self._alike is None:
            return True
        with self._ledger.preemptor_holds.ignoring(passing):
            shape = self._planner.shape(self._alike, self._count, self._gang)
        return int(capacity(shape, self._ledger.free.now()).sum()) >= self._count

    def checked(self, going: Going, passing: frozenset[object]) -> Generator[int, None, bool]:
        """`good_everywhere`, in pieces; what it says holds at the end, whatever has changed between two of them.

        Yields what each piece has cost.
        """
        noted = self._noted()
        for name in self._on:
            if not self.good(name, going):
                return False
            yield A_NODE
        # What is decided on so many nodes is a step of its own.
        yield A_NODE * len(self._on)
        while True:
            changed, noted = self._changed(noted), self._noted()
            for name in changed:
                if not self.good(name, going):
                    return False
            if len(changed) <= AT_ONCE:
                return self.open(passing)
            yield A_NODE * len(changed)

    def _noted(self) -> tuple[int, int]:
        return self._ledger.journal.now, self._planner.eligibility.journal.now

    def _changed(self, noted: tuple[int, int]) -> Collection[str]:
        """The nodes of the places on which something has changed since that was noted."""
        used = self._ledger.journal.since(noted[0])
        seen = self._planner.eligibility.journal.since(noted[1])
        return self._on.keys() if used is None or seen is None else (used | seen) & self._on.keys()


def prospect(
    ledger: Ledger,
    planner: Planner,
    gang: object,
    demands: Sequence[Demand],
    places: Collection[Assignment],
    seen: int | None = None,
) -> Prospect | None:
    """A `Prospect`; None where what the pods ask for can't be judged node by node, or not all of them have a place."""
    there = {one.uid for one in places}
    if any(demand.pod.devices or demand.pod.host_ports or demand.pod.uid not in there for demand in demands):
        return None
    return Prospect(ledger, planner, gang, demands, places, seen)
