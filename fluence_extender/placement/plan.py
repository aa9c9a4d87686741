"""Planning a gang: each of its pods gets a node and devices, or none does and the reason is given.

If topology constraints bind members to a domain, the allowed sets of nodes are tried in order, best first, constraint
by constraint from the outermost to the innermost. Within a set of nodes `matching` places the pods.
Each pod gets an allocation of its own in the ledger, so that the end of one pod frees exactly its share. A failed plan
leaves the ledger unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.chooser import FirstFit, NodeChooser
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.domains import Nearness, candidates, why_not
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused, NoPlace
from fluence_extender.placement.ledger_port import LedgerPort
from fluence_extender.placement.matching import Matching
from fluence_extender.placement.partial_gangs import PartialGangs
from fluence_extender.placement.reasons import Reasons
from fluence_extender.placement.search import BUDGET, DOMAINS_WORK, Shape, affordable, capacity
from fluence_extender.placement.topology import Topology
from fluence_extender.placement.topology_constraints import TopologyConstraint

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
    """The assignments of one plan so far, and the number of trials that are left.

    ``explain`` says whether to find a reason if there is no place. ``why`` is the reason found so far.
    """

    gang: object
    settled: Sequence[SettledMember]
    done: list[Assignment]
    matches: int = MOST_MATCHES
    budget: int = 2 * BUDGET
    why: Reason | None = None
    explain: bool = True


class Planner:
    """Plans gangs on a ledger, which then holds the result. Callers that drop a plan have to release it there."""

    def __init__(
        self,
        ledger: LedgerPort,
        eligibility: EligibilityIndex,
        topology: Topology | None = None,
        chooser: NodeChooser | None = None,
    ) -> None:
        """Make a planner; without ``chooser``, equal members are placed by first fit."""
        self._ledger = ledger
        self._eligibility = eligibility
        self._topology = topology or Topology(eligibility, ledger.graph.levels)
        self.chooser = chooser or FirstFit(ledger.spreads)
        self._matching = Matching(ledger, eligibility, self._topology.place, self.chooser)
        self._reasons = Reasons(ledger, eligibility)
        self._partial_gangs = PartialGangs(ledger, eligibility, self._reasons)
        self._last: tuple[tuple[Demand, ...], int, dict[TopologyConstraint | None, tuple[Demand, ...]]] = (
            (),
            -1,
            {},
        )

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
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...]:
        """Place every pod of ``demands``. Raises `GangRefused`; then nothing is allocated.

        ``gang`` is any hashable identity: under a node-exclusive policy only pods of one gang share a node. ``settled``
        are the members that have a place already and keep it.
        """
        progress = _Progress(gang, settled, [])
        try:
            return self._found(demands, progress)
        except NoPlace as no:
            raise GangRefused(self._reason(no, progress)) from no

    def find(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember] = ()
    ) -> tuple[Assignment, ...] | None:
        """Place every pod as `plan` does, but return None if there is no place, without a reason."""
        try:
            return self._found(demands, _Progress(gang, settled, [], explain=False))
        except (NoPlace, GangRefused):
            return None

    def never(self, pods: Sequence[Pod], size: int) -> Reason | None:
        """Return why ``size`` members with ``pods`` couldn't be placed even if nothing ran; None if they might be."""
        return self._partial_gangs.never(pods, size)

    def has_capacity(self, demand: Demand, count: int, gang: object) -> bool:
        """Return whether the nodes have capacity for ``count`` pods like that of ``demand``, without constraints."""
        ((shape, _),) = self._matching.groups((demand,), gang)
        shape, table = replace(shape, count=count), self._ledger.free.now()
        return int(capacity(shape, table).sum()) >= count

    def _found(self, demands: Sequence[Demand], progress: _Progress) -> tuple[Assignment, ...]:
        self._place([_Task(tuple(demands), 0, None)], progress)
        placed = {one.uid: one for one in progress.done}
        return tuple(placed[demand.pod.uid] for demand in demands)

    def _reason(self, no: NoPlace, progress: _Progress) -> Reason:
        """Return why there is no place at all, or otherwise why none meets the constraints."""
        found = self._reasons.reason(no)
        near = progress.why if no.devices is None and found.code is ReasonCode.BUSY else None
        return near or found

    def _place(self, tasks: Sequence[_Task], progress: _Progress) -> None:
        """Do all of ``tasks``, or raise `NoPlace` or `GangRefused` and allocate nothing."""
        if not tasks:
            return
        task, rest = tasks[0], tasks[1:]
        groups = self._grouped(task)
        if len(groups) > 1:
            parts = [_Task(demands, task.depth, task.within) for demands in groups.values()]
            if len(groups) + len(rest) > MOST_CONSTRAINTS:
                self._in_turn([[part] for part in parts] + [list(rest)], progress)
            else:
                self._place([*parts, *rest], progress)
            return
        (constraint,) = groups
        if constraint is None:
            self._match(task, rest, progress)
        else:
            self._near(constraint, task, rest, progress)

    def _grouped(self, task: _Task) -> dict[TopologyConstraint | None, tuple[Demand, ...]]:
        """Return `_by_constraint`. It is cached, because a search for victims passes the same demands repeatedly."""
        demands, depth, found = self._last
        if demands is not task.demands or depth != task.depth:
            found = _by_constraint(task)
            self._last = task.demands, task.depth, found
        return found

    def _in_turn(self, parts: Sequence[Sequence[_Task]], progress: _Progress) -> None:
        mark = len(progress.done)
        try:
            for tasks in parts:
                self._place(tasks, progress)
        except BaseException:
            self._undo(progress, mark)
            raise

    def _match(self, task: _Task, rest: Sequence[_Task], progress: _Progress) -> None:
        mark = len(progress.done)
        only = task.depth == 0 and not rest and not mark
        budget = BUDGET if only else min(BUDGET // 4, progress.budget)
        progress.matches -= 1
        progress.budget -= budget
        progress.done.extend(self._matching.attempt(task.demands, progress.gang, task.within, max(budget, 1)))
        try:
            self._place(rest, progress)
        except BaseException:
            self._undo(progress, mark)
            raise

    def _near(
        self, constraint: TopologyConstraint, task: _Task, rest: Sequence[_Task], progress: _Progress
    ) -> None:
        near = Nearness(
            self._topology.level(constraint.required) if constraint.required else None,
            self._topology.level(constraint.preferred) if constraint.preferred else None,
        )
        groups = self._matching.groups(task.demands, progress.gang, task.within)
        shapes = [shape for shape, _ in groups]
        nodes = [one.node for one in progress.settled if constraint in one.demand.constraints]
        failed: NoPlace | GangRefused | None = None
        table = self._ledger.free.now()
        matches = len(affordable(range(MOST_MATCHES), shapes, DOMAINS_WORK))
        for tried, within in enumerate(candidates(self._topology, near, shapes, table, nodes)):
            if failed is not None and (progress.matches <= 0 or tried >= matches):
                break
            both = task.within if within is None else within if task.within is None else within & task.within
            try:
                self._place([_Task(task.demands, task.depth + 1, both), *rest], progress)
            except (NoPlace, GangRefused) as error:
                failed = error
                if isinstance(error, GangRefused) and error.reason.code is not ReasonCode.BUSY:
                    raise
                continue
            return
        if near.required is not None and progress.explain:
            tables = table, self._ledger.whole.now()
            possible = self._possible(task, progress)
            progress.why = why_not(self._topology, near.required, shapes, possible, tables, nodes)
        raise failed or NoPlace(groups)

    def _possible(self, task: _Task, progress: _Progress) -> list[Shape]:
        """Return the shapes with all the nodes that they could ever use."""
        groups = self._matching.groups(task.demands, progress.gang)
        return [
            replace(shape, nodes=nodes)
            for (shape, _), nodes in zip(groups, self._reasons.possible(groups), strict=True)
        ]

    def _undo(self, progress: _Progress, mark: int) -> None:
        """Release what was placed after the first ``mark``."""
        self._ledger.undo([one.uid for one in progress.done[mark:]])
        del progress.done[mark:]


def _by_constraint(task: _Task) -> dict[TopologyConstraint | None, tuple[Demand, ...]]:
    """Return the members by their next constraint, the largest group first and those without any last."""
    groups: dict[TopologyConstraint | None, list[Demand]] = {}
    for demand in task.demands:
        found = demand.constraints
        groups.setdefault(found[task.depth] if task.depth < len(found) else None, []).append(demand)
    ordered = sorted(groups.items(), key=lambda item: (item[0] is None, -len(item[1])))
    return {constraint: tuple(demands) for constraint, demands in ordered}
