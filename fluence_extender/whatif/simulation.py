"""Would it fit: each gang of some manifests joins a copy of the line, and the pass that places gangs decides about it.

For a gang that doesn't fit now, the result says why, which gangs would be preempted for it, the earliest time at which
it would fit without preemption, and the smallest reductions with which it would fit now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fluence_extender.cluster.budgets import Budget
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.planning.known_reasons import PassMemory
from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.planning.reservations import Blocked, moved_to
from fluence_extender.gangs.planning.view import Decided, EndFacts, View
from fluence_extender.gangs.queue.admission import user_for
from fluence_extender.gangs.queue.settings import usual_seconds
from fluence_extender.gangs.queue.submissions import RANK, ToTry, turn
from fluence_extender.kinds.membership import Membership
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.bisection import largest_fitting
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, waiting
from fluence_extender.model.resources import Resources
from fluence_extender.model.wording import WithNames
from fluence_extender.objects.queues import Queue
from fluence_extender.placement.demand import Demand, unplannable
from fluence_extender.placement.ranks import rank_key
from fluence_extender.queueing.entry import NEVER, Rank
from fluence_extender.room.room import Room
from fluence_extender.whatif.manifests import RequestedGang, SimulationRequest
from fluence_extender.whatif.preemption_preview import (
    PreemptionOutcome,
    PreemptionPreview,
    forbidden_by,
    in_vain,
    would_preempt,
)
from fluence_extender.whatif.reductions import OutOfTime, Reducer, Reduction

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

ASKED = "asked"
"""The uid in the key of a gang that has the name of one that exists."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result for one gang.

    ``earliest`` is in seconds since the epoch, None if it isn't known. ``preemption`` is set for a gang that was
    planned and has no place now, but isn't too large for the cluster.
    """

    gang: str
    members: int
    fits: bool
    placed: tuple[tuple[str, Assignment], ...] = ()
    reason: Reason | None = None
    earliest: float | None = None
    reductions: tuple[Reduction, ...] = ()
    preemption: PreemptionPreview | None = None


@dataclass(slots=True)
class _Attempt:
    """A gang of the question in line, and what the pass ``tried_by`` has decided about it.

    ``room`` is the room as it was for the gang. Disruption budgets have ruled out victims: the reasons are
    ``forbidden``.
    """

    asked: RequestedGang
    gang: Gang
    rank: Rank
    tried_by: Pass
    room: Room
    decided: Decided
    forbidden: list[WithNames]

    @property
    def pods(self) -> list[Pod]:
        """The gang's pods by rank."""
        return sorted(self.asked.pods, key=rank_key)


class Simulation:
    """A simulation of one request on a ``view`` that nobody else uses, which can be run once.

    ``memory`` is an empty one. ``obstacles`` say why rules keep gangs from the line that is tried. ``budgets`` are the
    PodDisruptionBudgets, None if they aren't known. ``patience`` is the most seconds for details about gangs that don't
    fit.
    """

    def __init__(
        self,
        view: View,
        memory: PassMemory,
        request: SimulationRequest,
        obstacles: Mapping[GangKey, Reason],
        budgets: Sequence[Budget] | None = (),
        patience: float = PATIENCE,
    ) -> None:
        self._memory = memory
        self._request = request
        self._obstacles = obstacles
        self._budgets = budgets
        self._patience = patience
        self._protected = dict(view.preemption.protected)
        self._not_before = dict(view.preemption.not_before)
        self._view = replace(
            view,
            preemption=replace(
                view.preemption,
                protected=self._protected,
                not_before=self._not_before,
                searches=len(request.gangs) + len(request.gangs) * len(budgets or ()),
            ),
        )
        self._pass: Pass | None = None
        """The present pass, None before the first one."""
        self._others: Sequence[Blocked] = list(view.ends.blocked.values())
        """The blocked gangs that come after those that it tries."""
        placed = (one.pod for _, one in view.registry.members() if one.assignment is not None)
        self._lowest_placed = min((pod.priority for pod in placed), default=NEVER)
        """The lowest priority of any pod with a place."""
        self._starting: list[Pod] = []
        """The pods that the present pass has placed."""
        self._unsearched: set[GangKey] = set()
        """The gangs for which there was no time to search for victims."""
        self._began = time.monotonic()
        self._reduced = 0
        self._in_vain: dict[object, SimulationResult] = {}

    def run(self) -> list[SimulationResult]:
        """Return the results in the order of the manifests. Gangs that fit leave less capacity to later ones."""
        for workload in self._request.workloads:
            self._view.registry.workloads.put(workload)
        self._memory.follow(self._view.nodes, (), self._view.registry.gangs)
        return [self._result(gang) for gang in self._request.gangs]

    def _tick(self) -> None:
        if self._is_late:
            raise OutOfTime

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._began + self._patience

    def _result(self, asked: RequestedGang) -> SimulationResult:
        name, count = str(asked.key), len(asked.pods)
        obstacle = self._obstacle(asked)
        if obstacle is not None:
            return SimulationResult(name, count, False, reason=obstacle)
        if time.monotonic() > self._began + LONGEST * max(self._patience, 0.0) > self._began:
            return SimulationResult(name, count, False, reason=NOT_PLANNED)
        gang = self._line_up(asked)
        rank = turn(gang)
        made = self._pass_for(rank)
        alike = self._alike(made, gang)
        if alike in self._in_vain:
            return replace(self._in_vain[alike], gang=name)
        attempt = self._try(made, asked, gang, rank)
        decided = attempt.decided
        if len(decided.placed) == count:
            by_uid = {one.pod.uid: one.assignment for one in decided.placed}
            places = ((pod.name, by_uid[pod.uid]) for pod in attempt.pods)
            return SimulationResult(
                name, count, True, tuple((pod, place) for pod, place in places if place is not None)
            )
        found = self._refusal(attempt)
        if alike is not None and found.earliest is None and not found.reductions and _is_in_vain(found):
            self._in_vain[alike] = found
        return found

    # The gangs of the question in line.

    def _obstacle(self, asked: RequestedGang) -> Reason | None:
        """Return why a gang doesn't get into the line that is tried."""
        if asked.refusal is not None:
            return asked.refusal
        if isinstance(asked.size, Reason):
            return asked.size
        if len(asked.pods) < asked.size:
            never = self._memory.planner.never(self._view.room, asked.pods, asked.size)
            return never or waiting(len(asked.pods), asked.size)
        return unplannable(asked.pods) or self._obstacles.get(asked.key)

    def _line_up(self, asked: RequestedGang) -> Gang:
        """Add a gang to the view, as one that was created just now."""
        registry, admission = self._view.registry, self._view.queues.admission
        key = asked.key if asked.key not in registry.gangs else asked.key._replace(uid=ASKED)
        membership = Membership(key, asked.size, "the manifests")
        waiting_since = (one.entry.created[0] for one in self._view.ends.blocked.values())
        age = max((self._view.calendar, *waiting_since)), len(registry.gangs)
        members = {pod.uid: Member(pod, membership, submitted=age) for pod in asked.pods}
        gang = Gang(key, members, asked.size if isinstance(asked.size, int) else len(members))
        registry.imagine(gang)
        queue = admission.queue_of(gang)
        gang.usual_duration = usual_seconds(queue) if isinstance(queue, Queue) else None
        admission.count(gang)
        asks, user = Resources.total(pod.amounts for pod in asked.pods), user_for(key, asked.submission)
        gang.entitlement = admission.shares.newcomer(admission.queue_name(gang), user, asks)
        return gang

    def _pass_for(self, rank: Rank) -> Pass:
        """Return a pass that has kept the reservations of all blocked gangs before a rank, and of no others."""
        blocked = [*self._others, *(self._pass.blocked if self._pass is not None else ())]
        ahead = sorted((one for one in blocked if one.rank < rank), key=RANK)
        if self._pass is not None and [one.key for one in ahead] == [one.key for one in self._pass.blocked]:
            return self._pass
        line = [ToTry(one.rank, one.key) for one in ahead]
        ends = self._ends_with_starting(blocked={one.key: one for one in ahead})
        made = Pass(replace(self._view, line=line, ends=ends), self._memory)
        made.run()
        self._pass, self._others = made, [one for one in blocked if one.rank >= rank]
        if made.cluster is not None:
            self._others = moved_to(made.cluster, self._view.ends.cluster, self._others)
            self._view = replace(self._view, ends=replace(self._view.ends, cluster=made.cluster))
        return made

    def _ends_with_starting(self, blocked: Mapping[GangKey, Blocked]) -> EndFacts:
        """Return the known ends, also those of the pods that earlier passes of the question have placed."""
        ends, calendar = self._view.ends, self._view.calendar
        if not self._starting:
            return replace(ends, blocked=blocked)
        for pod in self._starting:
            end = self._view.queues.admission.ends.end(pod, calendar)
            if end < NEVER:
                ends.leaving.put(pod.uid, self._view.room.facts.holdings[pod.uid], end, foreign=False)
        self._starting.clear()
        # No timeline that was made before has these pods.
        self._view = replace(self._view, ends=replace(ends, revision=object()))
        return replace(self._view.ends, blocked=blocked)

    def _try(self, made: Pass, asked: RequestedGang, gang: Gang, rank: Rank) -> _Attempt:
        """Let a pass decide about a gang. A victim that disruption budgets forbid to evict is ruled out."""
        if self._is_late:
            self._not_before[gang.key] = NEVER
            self._unsearched.add(gang.key)
        room = made.open_to(gang)
        if gang.size < len(gang.members):
            room = room.copy()
        claims = [one.pod.claims for one in gang.members.values()]
        while not (self._view.room.claims.prepare(claims) or self._is_late):
            pass
        attempt = _Attempt(asked, gang, rank, made, room, made.decide(gang, rank), [])
        while (forbidden := self._forbidden(attempt.decided)) is not None:
            victim, text = forbidden
            self._protected[gang.key, victim] = NEVER, text
            attempt.forbidden.append(WithNames(text, frozenset({victim.namespace})))
            made.drop_preemption(attempt.decided)
            attempt.decided = made.decide(gang, rank)
        if attempt.decided.placed:
            self._lowest_placed = min(
                self._lowest_placed, *(one.pod.priority for one in attempt.decided.placed)
            )
            self._view.registry.gangs[gang.key] = _with_places(attempt.decided.after)
            self._starting.extend(one.pod for one in attempt.decided.placed)
        return attempt

    def _forbidden(self, decided: Decided) -> tuple[GangKey, str] | None:
        """Return a victim that budgets forbid to evict, and why; None if they allow all evictions."""
        begins = next((one.begins for one in decided.considered if one.begins is not None), None)
        return forbidden_by(self._budgets or (), begins.bound_victims()) if begins is not None else None

    def _alike(self, made: Pass, gang: Gang) -> object:
        """Return a key for all that a result without places depends on, None where that isn't compared.

        Of many equal gangs that don't fit, only the first few are examined.
        """
        if self._reduced < MOST_REDUCED or self._view.queues.admission.is_limited(gang):
            return None
        members = gang.pending()
        return (
            id(made),
            made.placements,
            made.demanded(gang, members),
            gang.size,
            gang.queue,
            frozenset(one.pod.duration for one in members),
        )

    # Gangs that don't fit.

    def _refusal(self, attempt: _Attempt) -> SimulationResult:
        """Return the result for a gang that doesn't fit."""
        asked, decided = attempt.asked, attempt.decided
        name, count = str(asked.key), len(asked.pods)
        reason = decided.without_preemption or decided.after.reason
        if decided.placed:
            reason = _with_starting_pods(attempt)
        if reason is None or not (decided.placed or decided.without_preemption):
            # A limit, a quota, the queue's policy, or devices that are held keep it from being planned.
            return SimulationResult(name, count, False, reason=reason)
        begins = any(one.begins is not None for one in decided.considered)
        preemption = self._preemption(attempt) if begins or reason.code is ReasonCode.BUSY else None
        if reason.code not in (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE):
            return SimulationResult(name, count, False, reason=reason, preemption=preemption)
        if self._reduced >= MOST_REDUCED:
            self._note(LATER_GANGS)
            return SimulationResult(name, count, False, reason=reason, preemption=preemption)
        self._reduced += 1
        earliest: float | None = None
        reductions: list[Reduction] = []
        try:
            self._tick()
            if reason.code is ReasonCode.BUSY:
                earliest = attempt.tried_by.expected_start(decided.after, attempt.rank)
            fits = _fits(attempt)
            for one in Reducer(asked, attempt.room.free, fits, self._tick).reductions(attempt.pods):
                reductions += [one] if one is not None else []
        except OutOfTime:
            self._note(f"gave up looking for more to say about {name} after {self._patience:g} s")
        return SimulationResult(name, count, False, (), reason, earliest, tuple(reductions), preemption)

    def _preemption(self, attempt: _Attempt) -> PreemptionPreview:
        """Return what preemption would do for a gang."""
        decided, gangs = attempt.decided, self._view.registry.gangs
        needed = attempt.pods[: decided.after.size]
        if not all(pod.preempts for pod in needed):
            return PreemptionPreview(PreemptionOutcome.NEVER, "preempts no gang: preemptionPolicy is Never")
        if decided.placed:
            return PreemptionPreview(
                PreemptionOutcome.SIZE_FITS,
                f"preempts no gang: the {len(needed)} pods that make it whole fit, and further pods never preempt",
            )
        considered = next((one for one in decided.considered if one.places), None)
        if considered is not None:
            names = {pod.uid: pod.name for pod in needed}
            placed = tuple((names[place.uid], place) for place in considered.places)
            if considered.begins is None:
                text = "fits once the pods that are terminating or being evicted already are gone"
                return PreemptionPreview(PreemptionOutcome.WAITS, text, (), placed)
            if self._budgets is None:
                self._note(BUDGETS_UNKNOWN)
            return would_preempt(considered.begins.victims, gangs, placed, decided.key.namespace)
        lowest = min(pod.priority for pod in needed)
        if self._lowest_placed >= lowest:
            text = f"would preempt no gang: none that runs has a lower priority than this one ({lowest})"
            return PreemptionPreview(PreemptionOutcome.IN_VAIN, text)
        if decided.key in self._unsearched:
            text = f"may preempt: the search for victims did not end within {self._patience:g} s"
            return PreemptionPreview(PreemptionOutcome.UNKNOWN, text)
        return in_vain(lowest, attempt.forbidden, decided.key.namespace)

    def _note(self, note: str) -> None:
        if note not in self._request.notes:
            self._request.notes.append(note)


def _fits(attempt: _Attempt) -> Callable[[Sequence[Demand]], bool]:
    """Return a function that says whether members with some demands would fit now in place of those of a gang."""
    made, gang = attempt.tried_by, attempt.gang
    kept = made.kept_room(gang, attempt.rank, gang.pending())
    if isinstance(kept, Reason) or kept.pool_reason is not None:
        return lambda _: False
    left = kept.left_of(attempt.room)
    return lambda demands: made.planner.find(left, demands) is not None


def _with_starting_pods(attempt: _Attempt) -> Reason | None:
    """Return the reason of a gang that is whole without some of its pods, extended by how many start anyway."""
    # A pass places the others in turns if there are many.
    reason, demands, fits = (
        attempt.decided.after.reason,
        list(map(attempt.asked.demand, attempt.pods)),
        _fits(attempt),
    )
    found = largest_fitting(len(demands) - 1, lambda few: fits(demands[:few]))
    few = max(found, len(attempt.decided.placed))
    start = "1 pod starts" if few == 1 else f"{few} pods start"
    size = attempt.asked.size
    return reason and reason.followed_by(f"{start} now all the same, because the gang's size is {size}")


def _with_places(gang: Gang) -> Gang:
    """Return a gang whose members hold the places that were decided, so that others may preempt it."""
    gang.was_complete = True
    for member in list(gang.members.values()):
        if member.assignment is not None:
            gang.put(
                Member(
                    member.pod,
                    member.membership,
                    member.assignment,
                    member.record,
                    submitted=member.submitted,
                )
            )
    return gang


def _is_in_vain(result: SimulationResult) -> bool:
    return result.preemption is None or result.preemption.outcome in (
        PreemptionOutcome.IN_VAIN,
        PreemptionOutcome.UNKNOWN,
    )
