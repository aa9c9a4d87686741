"""Planning a gang in a room: each of its pods gets a node and devices, or none does and the reason is given.

If topology constraints bind members to a domain, the allowed sets of nodes are tried in order, best first, constraint
by constraint from the outermost to the innermost. Within a set of nodes `matching` places the pods.
Invariant: planning changes nothing. The places of the first members are taken from the room of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.chooser import FirstFit, NodeChooser
from fluence_extender.placement.demand import Demand, SettledMember, grouped
from fluence_extender.placement.domains import Nearness, candidates, why_not
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused, NoPlace
from fluence_extender.placement.matching import Matching
from fluence_extender.placement.partial_gangs import PartialGangs
from fluence_extender.placement.reasons import Reasons
from fluence_extender.placement.search import BUDGET, DOMAINS_WORK, Shape, affordable, capacity
from fluence_extender.placement.topology import Topology
from fluence_extender.placement.topology_constraints import TopologyConstraint
from fluence_extender.room.room import Room

MOST_MATCHES = 64
"""How often members are matched within some set of nodes before a gang with constraints is called busy.

Members of very many kinds are matched less often.
"""

MOST_CONSTRAINTS = 48
"""With up to this many constraints, if a later one finds no domain, another domain is tried for an earlier one.

Each takes a few calls deeper.
"""


@dataclass(frozen=True, slots=True)
class _Task:
    """Members to be placed ``within`` some nodes (None for all); their first ``depth`` constraints are met there."""

    demands: tuple[Demand, ...]
    depth: int
    within: Set[str] | None


@dataclass(slots=True)
class _Progress:
    """What one plan has found so far, and the number of trials that are left.

    ``pods`` are those to be placed, by uid. ``explain`` says whether to find a reason if there is no place. ``why`` is
    the reason found so far.
    """

    settled: Sequence[SettledMember]
    pods: Mapping[str, Pod]
    explain: bool = True
    matches: int = MOST_MATCHES
    budget: int = 2 * BUDGET
    why: Reason | None = None


@dataclass(slots=True)
class _Placed:
    """The places found so far. ``counted`` is the room without those of the ``new`` pods, which `room` counts."""

    counted: Room
    places: tuple[Assignment, ...] = ()
    new: tuple[tuple[Pod, Assignment], ...] = ()

    @property
    def room(self) -> Room:
        """The room that is left."""
        if self.new:
            self.counted, self.new = self.counted.take(self.new), ()
        return self.counted


class Planner:
    """Plans gangs on nodes that ``eligibility`` knows; ``chooser`` places equal members, by default first fit."""

    def __init__(
        self, eligibility: EligibilityIndex, topology: Topology, chooser: NodeChooser | None = None
    ) -> None:
        self._eligibility = eligibility
        self._topology = topology
        self.chooser = chooser or FirstFit()
        self._matching = Matching(eligibility, self._topology.place, self.chooser)
        self.reasons = Reasons(eligibility)
        self._partial_gangs = PartialGangs(eligibility, self.reasons)
        self._by_first_fit = self if chooser is None else None
        self._last: tuple[tuple[Demand, ...], int, dict[TopologyConstraint | None, tuple[Demand, ...]]] = (
            (),
            -1,
            {},
        )
        self._countable: tuple[Sequence[Demand], bool] = (), False

    @property
    def by_first_fit(self) -> Planner:
        """The same planner with first fit as its chooser, for rooms other than the present one."""
        if self._by_first_fit is None:
            self._by_first_fit = Planner(self._eligibility, self._topology)
        return self._by_first_fit

    @property
    def eligibility(self) -> EligibilityIndex:
        """The nodes that pods may run on."""
        return self._eligibility

    @property
    def topology(self) -> Topology:
        """The domains of those nodes."""
        return self._topology

    def node(self, name: str) -> Node | None:
        """Return the present state of a node."""
        return self._eligibility.nodes.get(name)

    def plan(
        self, room: Room, demands: Sequence[Demand], settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...]:
        """Place every pod of ``demands`` in the room of their gang. Raises `GangRefused`.

        ``settled`` are the members that have a place already and keep it.
        """
        progress = _progress(demands, settled)
        try:
            return self._placed(room, demands, progress)
        except NoPlace as no:
            raise GangRefused(self._reason(room, no, progress)) from no

    def find(
        self, room: Room, demands: Sequence[Demand], settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...] | None:
        """Place every pod as `plan` does, but return None if there is no place, without a reason."""
        try:
            return self._placed(room, demands, _progress(demands, settled, explain=False))
        except (NoPlace, GangRefused):
            return None

    def fits(self, room: Room, demands: Sequence[Demand], settled: Sequence[SettledMember] = ()) -> bool:
        """Return whether `find` would find places. Equal members without constraints are only counted.

        Pass the same ``demands`` object each time, because it is cached which they are.
        """
        if self._countable[0] is not demands:
            free = not any(demand.pod.devices or demand.pod.ruled or demand.constraints for demand in demands)
            self._countable = demands, free and len(grouped(demands)) == 1
        if not self._countable[1] or room.keeps_any(demand.pod for demand in demands):
            return self.find(room, demands, settled) is not None
        return self.has_capacity(room, demands[0], len(demands))

    def has_capacity(self, room: Room, demand: Demand, count: int) -> bool:
        """Return whether the nodes have capacity for ``count`` pods like that of ``demand``, without constraints."""
        ((shape, _),) = self._matching.groups(room, (demand,))
        return int(capacity(replace(shape, count=count), room.free).sum()) >= count

    def never(self, room: Room, pods: Sequence[Pod], size: int) -> Reason | None:
        """Return why ``size`` members with ``pods`` couldn't be placed even if nothing ran; None if they might be."""
        return self._partial_gangs.never(room, pods, size)

    def _placed(self, room: Room, demands: Sequence[Demand], progress: _Progress) -> tuple[Assignment, ...]:
        found = self._place([_Task(tuple(demands), 0, None)], _Placed(room), progress)
        places = {place.uid: place for place in found.places}
        return tuple(places[demand.pod.uid] for demand in demands)

    def _reason(self, room: Room, no: NoPlace, progress: _Progress) -> Reason:
        """Return why there is no place at all, or otherwise why none meets the constraints."""
        reason = self.reasons.reason(room, no)
        near = progress.why if no.devices is None and reason.code is ReasonCode.BUSY else None
        return near or reason

    def _place(self, tasks: Sequence[_Task], placed: _Placed, progress: _Progress) -> _Placed:
        """Do all of ``tasks``, and return what is placed then. Raises `NoPlace`, `GangRefused`."""
        if not tasks:
            return placed
        task, rest = tasks[0], tasks[1:]
        groups = self._grouped(task)
        if len(groups) > 1:
            parts = [_Task(demands, task.depth, task.within) for demands in groups.values()]
            if len(groups) + len(rest) > MOST_CONSTRAINTS:
                for part in parts:
                    placed = self._place([part], placed, progress)
                return self._place(rest, placed, progress)
            return self._place([*parts, *rest], placed, progress)
        (constraint,) = groups
        if constraint is None:
            return self._match(task, rest, placed, progress)
        return self._near(constraint, task, rest, placed, progress)

    def _grouped(self, task: _Task) -> dict[TopologyConstraint | None, tuple[Demand, ...]]:
        """Return `_by_constraint`. It is cached, because a search for victims passes the same demands repeatedly."""
        demands, depth, found = self._last
        if demands is not task.demands or depth != task.depth:
            found = _by_constraint(task)
            self._last = task.demands, task.depth, found
        return found

    def _match(self, task: _Task, rest: Sequence[_Task], placed: _Placed, progress: _Progress) -> _Placed:
        only = task.depth == 0 and not rest and not placed.places
        budget = BUDGET if only else min(BUDGET // 4, progress.budget)
        progress.matches -= 1
        progress.budget -= budget
        room = placed.room
        new = self._matching.attempt(room.within(task.within), task.demands, max(budget, 1))
        taken = tuple((progress.pods[place.uid], place) for place in new)
        return self._place(rest, _Placed(room, (*placed.places, *new), taken), progress)

    def _near(
        self,
        constraint: TopologyConstraint,
        task: _Task,
        rest: Sequence[_Task],
        placed: _Placed,
        progress: _Progress,
    ) -> _Placed:
        near = Nearness(
            self._topology.level(constraint.required) if constraint.required else None,
            self._topology.level(constraint.preferred) if constraint.preferred else None,
        )
        room = placed.room
        groups = self._matching.groups(room.within(task.within), task.demands)
        shapes = [shape for shape, _ in groups]
        nodes = [member.node for member in progress.settled if constraint in member.demand.constraints]
        failed: NoPlace | GangRefused | None = None
        matches = len(affordable(range(MOST_MATCHES), shapes, DOMAINS_WORK))
        for tried, within in enumerate(candidates(self._topology, near, shapes, room.free, nodes)):
            if failed is not None and (progress.matches <= 0 or tried >= matches):
                break
            both = task.within if within is None else within if task.within is None else within & task.within
            try:
                return self._place([_Task(task.demands, task.depth + 1, both), *rest], placed, progress)
            except (NoPlace, GangRefused) as error:
                failed = error
                if isinstance(error, GangRefused) and error.reason.code is not ReasonCode.BUSY:
                    raise
        if near.required is not None and progress.explain:
            tables = room.free, room.whole
            possible = self._possible(room, task)
            progress.why = why_not(self._topology, near.required, shapes, possible, tables, nodes)
        raise failed or NoPlace(groups)

    def _possible(self, room: Room, task: _Task) -> list[Shape]:
        """Return the shapes with all the nodes that they could ever use."""
        groups = self._matching.groups(room, task.demands)
        return [
            replace(shape, nodes=nodes)
            for (shape, _), nodes in zip(groups, self.reasons.possible(room, groups), strict=True)
        ]


def _progress(demands: Sequence[Demand], settled: Sequence[SettledMember], explain: bool = True) -> _Progress:
    return _Progress(settled, {demand.pod.uid: demand.pod for demand in demands}, explain)


def _by_constraint(task: _Task) -> dict[TopologyConstraint | None, tuple[Demand, ...]]:
    """Return the members by their next constraint, the largest group first and those without any last."""
    groups: dict[TopologyConstraint | None, list[Demand]] = {}
    for demand in task.demands:
        found = demand.constraints
        groups.setdefault(found[task.depth] if task.depth < len(found) else None, []).append(demand)
    ordered = sorted(groups.items(), key=lambda item: (item[0] is None, -len(item[1])))
    return {constraint: tuple(demands) for constraint, demands in ordered}
