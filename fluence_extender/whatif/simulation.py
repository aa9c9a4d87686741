"""Would it fit: each gang of some manifests is placed in a copy of the ledger's room, one after the other.

For a gang that doesn't fit now, the result says why, which gangs would be preempted for it, the earliest time at which
it would fit without preemption, and the smallest reductions with which it would fit now.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.queue.beside import FREELY, Beside
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, waiting
from fluence_extender.placement.demand import Demand, shape_key, unplannable
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.ranks import rank_key
from fluence_extender.room.room import Room
from fluence_extender.whatif.forecast import Forecast, OutOfTime
from fluence_extender.whatif.manifests import RequestedGang, SimulationRequest
from fluence_extender.whatif.preemption_preview import (
    PreemptionContext,
    PreemptionOutcome,
    PreemptionPreview,
    PreemptionPreviewer,
)
from fluence_extender.whatif.reductions import TOPOLOGY_KEYS, Reducer, Reduction
from fluence_extender.whatif.snapshot import Outlook, Snapshot

MOST_REDUCED = 16
"""The most gangs without a place for which an earliest start and reductions are computed, with a hundred plans each."""

PATIENCE = 10.0
"""The most seconds for details about gangs that don't fit."""

LONGEST = 1.5
"""After this many times the patience, the remaining gangs aren't planned."""

NOT_PLANNED = Reason(
    ReasonCode.PLANNING_FAILED,
    "not planned: the time for one question is spent; ask about fewer pods at once",
)
LATER_GANGS = (
    f"only the first {MOST_REDUCED} gangs that don't fit have an expected start and what would fit; ask about "
    "fewer gangs to see these of the others"
)
BUDGETS_UNKNOWN = "PodDisruptionBudgets are not known here: they may forbid the preemptions"
NEVER_FIT = (ReasonCode.INVALID_REQUEST, ReasonCode.NO_BACKEND)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result for one gang.

    ``earliest`` is in seconds since the epoch, None if it isn't known. ``preemption`` is set for a gang that has no
    place now but isn't too large for the cluster.
    """

    gang: str
    members: int
    fits: bool
    placed: tuple[tuple[str, Assignment], ...] = ()
    reason: Reason | None = None
    earliest: float | None = None
    reductions: tuple[Reduction, ...] = ()
    preemption: PreemptionPreview | None = None


class Simulation:
    """A simulation of one request on one cluster, which can be run once.

    ``ends`` holds by uid when running pods end, and ``now`` is the current time, both in seconds since the epoch.
    ``context`` is the state for preemption. ``terms`` are the terms on which the queue lets gangs start, or why it
    doesn't; other gangs start freely. ``patience`` is the most seconds for details about gangs that don't fit.
    """

    def __init__(
        self,
        taken: Snapshot,
        request: SimulationRequest,
        now: float,
        ends: Mapping[str, float],
        context: PreemptionContext,
        terms: Mapping[GangKey, Beside | Reason] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.now = now
        self._terms = terms or {}
        self._request = request
        self._context = context
        self._patience = patience
        self._outlook = Outlook(taken.planner(), taken.room)
        self._ends = ends
        self._previewer = PreemptionPreviewer(context, self._outlook, self._tick)
        self._began = time.monotonic()
        self._reduced = 0
        self._in_vain: dict[object, SimulationResult] = {}
        self._in_vain_at: Room | None = None

    def run(self) -> list[SimulationResult]:
        """Return the results in the order of the manifests. Gangs that fit leave less capacity to later ones."""
        return [self._result(gang) for gang in self._request.gangs]

    def _tick(self) -> None:
        if time.monotonic() > self._began + self._patience:
            raise OutOfTime

    def _result(self, gang: RequestedGang) -> SimulationResult:
        name, count = str(gang.key), len(gang.pods)
        terms = self._terms.get(gang.key, FREELY)
        obstacle = self._obstacle(gang)
        if obstacle is None and isinstance(terms, Reason):
            obstacle = terms
        if obstacle is not None or isinstance(terms, Reason):
            return SimulationResult(name, count, False, reason=obstacle)
        if time.monotonic() > self._began + LONGEST * max(self._patience, 0.0) > self._began:
            return SimulationResult(name, count, False, reason=NOT_PLANNED)
        pods = sorted(gang.pods, key=rank_key)
        alike = self._alike(gang, pods)
        known = self._in_vain.get(alike) if alike is not None else None
        if known is not None:
            return replace(known, gang=name)
        demands = tuple(map(gang.demand, pods))
        conflict = reason = self._previewer.device_conflict(gang.key, pods)
        if reason is None:
            try:
                placed = self._plan(demands, gang.key, terms)
            except GangRefused as refused:
                reason = self._previewer.behind(gang.key, pods, refused.reason)
                reason = self._with_starting_pods(gang, demands, reason, terms)
            else:
                if placed is None:
                    return SimulationResult(name, count, False, reason=terms.reason)
                self._hold(gang, pods, placed)
                named = tuple((pod.name, one) for pod, one in zip(pods, placed, strict=True))
                return SimulationResult(name, count, True, named)
        found = self._refusal(gang, pods, demands, reason, conflict is not None, terms)
        in_vain = found.preemption is None or found.preemption.outcome in (
            PreemptionOutcome.IN_VAIN,
            PreemptionOutcome.UNKNOWN,
        )
        if alike is not None and in_vain and not found.reductions and found.earliest is None:
            self._in_vain[alike] = found
        return found

    def _plan(self, demands: Sequence[Demand], gang: GangKey, terms: Beside) -> Sequence[Assignment] | None:
        """Place a gang; return None if the queue keeps what it needs for others. Raise `GangRefused`."""
        passing = self._previewer.passes([demand.pod for demand in demands])
        placed = self._outlook.planner.plan(self._outlook.room.open_to(gang, passing), demands)
        return placed if terms == FREELY else self._outlook.find_beside(demands, gang, terms, passing)

    def _with_starting_pods(
        self, gang: RequestedGang, demands: Sequence[Demand], reason: Reason, terms: Beside
    ) -> Reason:
        """Return the reason extended by how many pods start anyway, if the gang is whole without the others."""
        if not isinstance(gang.size, int) or gang.size >= len(demands):
            return reason
        few, many = gang.size - 1, len(demands) - 1
        while few < many:
            middle = (few + many + 1) // 2
            if self._outlook.find_beside(demands[:middle], gang.key, terms) is None:
                many = middle - 1
            else:
                few = middle
        if few < gang.size:
            return reason
        start = "1 pod starts" if few == 1 else f"{few} pods start"
        return reason.followed_by(f"{start} now all the same, because the gang's size is {gang.size}")

    def _alike(self, gang: RequestedGang, pods: Sequence[Pod]) -> object:
        """Return a key for all that a result without places depends on, None if that is too much to compare.

        Of many equal gangs that don't fit, only the first few are examined.
        """
        if self._in_vain_at is not self._outlook.room:
            self._in_vain.clear()
            self._in_vain_at = self._outlook.room
        if self._reduced < MOST_REDUCED or gang.has_levels:
            return None
        if any(
            pod.devices or pod.ruled or any(key in pod.annotations for key in TOPOLOGY_KEYS) for pod in pods
        ):
            return None
        kept_from = self._outlook.room.kept_from
        shapes = Counter((shape_key(Demand(pod, kept_from(pod))), pod.priority, pod.preempts) for pod in pods)
        return gang.size, id(self._terms.get(gang.key)), frozenset(shapes.items())

    def _hold(self, gang: RequestedGang, pods: Sequence[Pod], placed: Sequence[Assignment]) -> None:
        """Hold the places of a gang, which later gangs can get only by preemption."""
        self._outlook.take(pods, placed, gang.key)
        size = gang.size if isinstance(gang.size, int) else len(pods)
        membership = Membership(gang.key, size, "")
        self._context.gangs.add(
            gang.key, size, [(pod, membership, one) for pod, one in zip(pods, placed, strict=True)]
        )

    def _refusal(
        self,
        gang: RequestedGang,
        pods: Sequence[Pod],
        demands: Sequence[Demand],
        reason: Reason,
        conflict: bool,
        terms: Beside,
    ) -> SimulationResult:
        """Return the result for a gang that doesn't fit. In a device ``conflict`` no reduction helps."""
        name, count = str(gang.key), len(gang.pods)
        preemption = self._preemption(gang, demands) if reason.code is ReasonCode.BUSY else None
        if self._reduced >= MOST_REDUCED:
            self._note(LATER_GANGS)
        if conflict or self._reduced >= MOST_REDUCED or reason.code in NEVER_FIT:
            return SimulationResult(name, count, False, reason=reason, preemption=preemption)
        self._reduced += 1
        earliest: float | None = None
        reductions: list[Reduction] = []
        try:
            if reason.code is not ReasonCode.UNSATISFIABLE:
                forecast = Forecast(
                    self._outlook.planner, self._outlook.room, self._ends, self.now, self._tick
                )
                earliest = forecast.start(demands, gang.key)
            for one in Reducer(self._outlook, gang, terms, self._tick).reductions(pods):
                reductions += [one] if one is not None else []
        except OutOfTime:
            self._note(f"gave up looking for more to say about {name} after {self._patience:g} s")
        return SimulationResult(name, count, False, (), reason, earliest, tuple(reductions), preemption)

    def _preemption(self, gang: RequestedGang, demands: Sequence[Demand]) -> PreemptionPreview:
        size = gang.size if isinstance(gang.size, int) else len(demands)
        try:
            found = self._previewer.preview(gang.key, demands[:size], size < len(demands))
            if found.victims and self._context.budgets is None:
                self._note(BUDGETS_UNKNOWN)
            return found
        except OutOfTime:
            text = f"may preempt: the search for victims did not end within {self._patience:g} s"
            return PreemptionPreview(PreemptionOutcome.UNKNOWN, text)

    def _obstacle(self, gang: RequestedGang) -> Reason | None:
        if gang.refusal is not None:
            return gang.refusal
        if isinstance(gang.size, Reason):
            return gang.size
        if len(gang.pods) < gang.size:
            never = self._outlook.planner.never(self._outlook.room, gang.pods, gang.size)
            return never or waiting(len(gang.pods), gang.size)
        return unplannable(gang.pods)

    def _note(self, note: str) -> None:
        if note not in self._request.notes:
            self._request.notes.append(note)
