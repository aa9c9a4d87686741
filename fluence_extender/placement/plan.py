"""Planning a gang: all of its pods get a node and devices, or none does and the reason is said.

Where members are bound to a topology domain, the sets of nodes that this leaves are tried in turn, the best first, bond
by bond and from the outermost to the innermost; within a set of nodes `matching` does the placing, on either engine.
Each pod becomes an allocation of its own in the ledger, so that one pod's end frees exactly its share. A plan that
fails leaves the ledger as it was.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import Demand, GangRefused, NoPlace
from fluence_extender.placement.domains import Nearness, candidates, why_not
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.ledger_port import LedgerPort
from fluence_extender.placement.matching import Matching
from fluence_extender.placement.reasons import Reasons
from fluence_extender.placement.search import BUDGET, Shape
from fluence_extender.placement.topology import Topology, UnknownLevel
from fluence_extender.placement.topology_constraints import TopologyConstraint, topology_constraints

__all__ = ["Demand", "GangRefused", "Planner", "SettledMember"]

ATTEMPTS = 64
"""How many times members are matched within some set of nodes before a gang with bonds is called busy."""

MOST_BONDS = 256
"""Up to so many bonds another domain is tried for an earlier one when a later one finds none."""


@dataclass(frozen=True, slots=True)
class SettledMember:
    """A member that has its node already; ``demand`` says what binds it to the others."""

    demand: Demand
    node: str


@dataclass(frozen=True, slots=True)
class _Task:
    """Members to be placed ``within`` some nodes (None for all); their first ``depth`` bonds are seen to."""

    demands: tuple[Demand, ...]
    depth: int
    within: Set[str] | None


@dataclass(slots=True)
class _Trip:
    """What one plan has come to: the assignments so far, and how much may still be tried.

    ``told`` says whether anybody is told why there is no place.
    """

    gang: object
    settled: Sequence[SettledMember]
    done: list[Assignment]
    attempts: int = ATTEMPTS
    budget: int = 2 * BUDGET
    why: Reason | None = None
    told: bool = True


class Planner:
    """Plans gangs against the ledger. The ledger holds the result as planned; whoever drops it releases it there."""

    def __init__(
        self, ledger: LedgerPort, eligibility: EligibilityIndex, topology: Topology | None = None
    ) -> None:
        self._ledger = ledger
        self._eligibility = eligibility
        self._topology = topology or Topology(eligibility, ledger.graph.levels)
        self._matching = Matching(ledger, eligibility, self._topology.place)
        self._reasons = Reasons(ledger, eligibility)
        self._asked_last: tuple[
            tuple[Demand, ...], int, dict[TopologyConstraint | None, tuple[Demand, ...]]
        ] = ((), -1, {})

    @property
    def eligibility(self) -> EligibilityIndex:
        """The nodes that pods may run on."""
        return self._eligibility

    @property
    def topology(self) -> Topology:
        """The domains of those nodes."""
        return self._topology

    def node(self, name: str) -> Node | None:
        """The node of that name as it is now."""
        return self._eligibility.nodes.get(name)

    def plan(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...]:
        """Place every pod of ``demands``, held as planned. Raises `GangRefused`, and then nothing is held.

        ``gang`` is any hashable identity: under a node-exclusive policy only pods of one gang share a node. ``settled``
        are the members that have a place already and keep it.
        """
        trip = _Trip(gang, settled, [])
        try:
            return self._found(demands, trip)
        except NoPlace as no:
            raise GangRefused(self._reason(no, trip)) from no
        except UnknownLevel as unknown:
            raise GangRefused(_unknown(unknown)) from unknown

    def find(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...] | None:
        """`plan`, where nobody asks for the reason: None when there is no place."""
        try:
            return self._found(demands, _Trip(gang, settled, [], told=False))
        except (NoPlace, GangRefused, UnknownLevel):
            return None

    def shape(self, demand: Demand, count: int, gang: object) -> Shape:
        """So many pods like that of ``demand``, with the nodes that they may use now."""
        ((shape, _),) = self._matching.groups((demand,), gang)
        return replace(shape, count=count)

    def _found(self, demands: Sequence[Demand], trip: _Trip) -> tuple[Assignment, ...]:
        try:
            self._place([_Task(tuple(demands), 0, None)], trip)
        except UnknownLevel:
            self._undo(trip, 0)
            raise
        placed = {one.uid: one for one in trip.done}
        return tuple(placed[demand.pod.uid] for demand in demands)

    def _reason(self, no: NoPlace, trip: _Trip) -> Reason:
        """Why there is no place at all, or else why not within the bonds."""
        found = self._reasons.why(no)
        near = trip.why if no.devices is None and found.code is ReasonCode.BUSY else None
        return near or found

    def _place(self, tasks: Sequence[_Task], trip: _Trip) -> None:
        """Do all of ``tasks`` or raise `NoPlace` or `GangRefused`, and then nothing of them is held."""
        if not tasks:
            return
        task, rest = tasks[0], tasks[1:]
        groups = self._bonded(task)
        if len(groups) > 1:
            parts = [_Task(demands, task.depth, task.within) for demands in groups.values()]
            if len(groups) > MOST_BONDS:
                self._in_turn([[part] for part in parts] + [list(rest)], trip)
            else:
                self._place([*parts, *rest], trip)
            return
        (bond,) = groups
        if bond is None:
            self._match(task, rest, trip)
        else:
            self._near(bond, task, rest, trip)

    def _bonded(self, task: _Task) -> dict[TopologyConstraint | None, tuple[Demand, ...]]:
        """`_by_bond`; who looks for victims asks for the same demands over and over."""
        asked, depth, found = self._asked_last
        if asked is not task.demands or depth != task.depth:
            found = _by_bond(task)
            self._asked_last = task.demands, task.depth, found
        return found

    def _in_turn(self, parts: Sequence[Sequence[_Task]], trip: _Trip) -> None:
        mark = len(trip.done)
        try:
            for tasks in parts:
                self._place(tasks, trip)
        except (NoPlace, GangRefused):
            self._undo(trip, mark)
            raise

    def _match(self, task: _Task, rest: Sequence[_Task], trip: _Trip) -> None:
        mark = len(trip.done)
        free = task.depth == 0 and not rest and not mark
        budget = BUDGET if free else min(BUDGET // 4, trip.budget)
        trip.attempts -= 1
        trip.budget -= budget
        trip.done.extend(self._matching.attempt(task.demands, trip.gang, task.within, max(budget, 1)))
        try:
            self._place(rest, trip)
        except (NoPlace, GangRefused):
            self._undo(trip, mark)
            raise

    def _near(self, bond: TopologyConstraint, task: _Task, rest: Sequence[_Task], trip: _Trip) -> None:
        near = Nearness(
            self._topology.level(bond.required) if bond.required else None,
            self._topology.level(bond.preferred) if bond.preferred else None,
        )
        shapes = self._matching.groups(task.demands, trip.gang, task.within)
        nodes = [one.node for one in trip.settled if bond in _constraints(one.demand)]
        failed: NoPlace | GangRefused | None = None
        table = self._ledger.free.now()
        for within in candidates(self._topology, near, [shape for shape, _ in shapes], table, nodes):
            if failed is not None and trip.attempts <= 0:
                break
            both = task.within if within is None else within if task.within is None else within & task.within
            try:
                self._place([_Task(task.demands, task.depth + 1, both), *rest], trip)
            except (NoPlace, GangRefused) as error:
                failed = error
                if isinstance(error, GangRefused) and error.reason.code is not ReasonCode.BUSY:
                    raise
                continue
            return
        if near.required is not None and trip.told:
            possible = self._possible(task, trip)
            trip.why = why_not(
                self._topology,
                near.required,
                [shape for shape, _ in shapes],
                possible,
                (table, self._ledger.whole.now()),
                nodes,
            )
        raise failed or NoPlace(shapes)

    def _possible(self, task: _Task, trip: _Trip) -> list[Shape]:
        """The shapes on all the nodes they could ever use."""
        groups = self._matching.groups(task.demands, trip.gang)
        return [
            Shape(shape.requests, shape.count, nodes, shape.ports)
            for (shape, _), nodes in zip(groups, self._reasons.possible(groups), strict=True)
        ]

    def _undo(self, trip: _Trip, mark: int) -> None:
        """Take back what was placed after the first ``mark``."""
        self._ledger.undo([one.uid for one in trip.done[mark:]])
        del trip.done[mark:]


def _constraints(demand: Demand) -> tuple[TopologyConstraint, ...]:
    return topology_constraints(demand.pod, demand.levels, demand.job_size)


def _by_bond(task: _Task) -> dict[TopologyConstraint | None, tuple[Demand, ...]]:
    """The members by their next bond, the largest group first and those without any last."""
    groups: dict[TopologyConstraint | None, list[Demand]] = {}
    for demand in task.demands:
        found = _constraints(demand)
        groups.setdefault(found[task.depth] if task.depth < len(found) else None, []).append(demand)
    ordered = sorted(groups.items(), key=lambda item: (item[0] is None, -len(item[1])))
    return {bond: tuple(demands) for bond, demands in ordered}


def _unknown(unknown: UnknownLevel) -> Reason:
    known = ", ".join(unknown.known)
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"there is no topology level {unknown.level[:63]!r}: known are {known}, and node labels",
    )
