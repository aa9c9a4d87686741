"""Would it fit: each gang of some manifests is placed on a copy of the ledger, one after the other.

One that doesn't fit now is told why, who would make way for it, when at the earliest it would fit by itself, and the
smallest reductions by which it would fit now.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.ledger.pod_use import PodUse
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, waiting
from fluence_extender.placement.demand import shape_key
from fluence_extender.placement.plan import Demand, GangRefused
from fluence_extender.placement.ranks import rank_key
from fluence_extender.whatif.forecast import Forecast
from fluence_extender.whatif.manifests import Asked, Wanted
from fluence_extender.whatif.preemption import Outcome, Preemption, Preemptions, Surroundings
from fluence_extender.whatif.reductions import BONDS, Probe, Reduction
from fluence_extender.whatif.snapshot import Snapshot, planning
from fluence_extender.whatif.standing import CopiedLedger

MOST_REDUCED = 16
"""How many gangs that don't fit are looked at for an earliest start and reductions; each costs a hundred plans."""

PATIENCE = 10.0
"""Seconds that may go into what is told of gangs that don't fit."""

LONGEST = 1.5
"""So many times that patience, and gangs that come after aren't looked at any more."""

NOT_LOOKED_AT = Reason(
    ReasonCode.PLANNING_FAILED, "not looked at: the time for one question was spent; ask for less at once"
)
NO_BUDGETS = "PodDisruptionBudgets aren't known here: they may forbid what would be preempted"
NO_CHANCE = (ReasonCode.INVALID_REQUEST, ReasonCode.NO_BACKEND)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one gang. ``earliest`` is seconds since the epoch, None where it isn't known.

    ``preemption`` is told of one that doesn't fit beside what runs and is not too large for the cluster.
    """

    gang: str
    members: int
    fits: bool
    placed: tuple[tuple[str, Assignment], ...] = ()
    reason: Reason | None = None
    earliest: float | None = None
    reductions: tuple[Reduction, ...] = ()
    preemption: Preemption | None = None


class OutOfTime(Exception):
    """The time for one question is spent."""


@dataclass(slots=True)
class Simulation:
    """What is asked on what: ``ends`` says by uid when running pods end, ``now`` what time it is.

    ``around`` is what preemption depends on; ``patience`` is how many seconds may go into what is told of gangs that
    don't fit.
    """

    taken: Snapshot
    asked: Asked
    now: float
    ends: Mapping[str, float] = field(default_factory=dict)
    around: Surroundings = field(default_factory=Surroundings)
    patience: float = PATIENCE

    def run(self) -> list[Answer]:
        """The answers, in the order of the manifests; those that fit stand in the way of the next."""
        work = _Work(self)
        return [work.answer(wanted) for wanted in self.asked.gangs]


class _Work:
    """One simulation under way."""

    def __init__(self, task: Simulation) -> None:
        self._task = task
        self._copy, self._planner = planning(task.taken)
        self._forecast = Forecast(self._copy, self._planner, task.ends, task.taken.uses, self._tick)
        self._ledger = CopiedLedger(task.taken, self._copy)
        self._preemptions = Preemptions(task.around, self._ledger, self._planner, self._tick)
        self._began = time.monotonic()
        self._reduced = 0
        self._vain: dict[object, Answer] = {}
        self._vain_at: object = None

    def _tick(self) -> None:
        if time.monotonic() > self._began + self._task.patience:
            raise OutOfTime

    def answer(self, wanted: Wanted) -> Answer:
        name, count = str(wanted.key), len(wanted.pods)
        obstacle = _obstacle(wanted)
        if obstacle is not None:
            return Answer(name, count, False, reason=obstacle)
        if time.monotonic() > self._began + LONGEST * max(self._task.patience, 0.0) > self._began:
            return Answer(name, count, False, reason=NOT_LOOKED_AT)
        pods = sorted(wanted.pods, key=rank_key)
        alike = self._alike(wanted, pods)
        known = self._vain.get(alike) if alike is not None else None
        if known is not None:
            return replace(known, gang=name)
        demands = tuple(wanted.demand(pod) for pod in pods)
        barrier = reason = self._preemptions.barrier_to(wanted.key, pods)
        if reason is None:
            try:
                with self._task.taken.preemptor_holds.ignoring(self._preemptions.passes(pods)):
                    placed = self._planner.plan(demands, wanted.key)
            except GangRefused as refused:
                reason = self._preemptions.behind(wanted.key, pods, refused.reason)
            else:
                self._hold(wanted, pods, placed)
                named = tuple((pod.name, one) for pod, one in zip(pods, placed, strict=True))
                return Answer(name, count, True, named)
        found = self._why_not(wanted, pods, demands, reason, barrier is not None)
        in_vain = found.preemption is None or found.preemption.outcome in (Outcome.IN_VAIN, Outcome.UNKNOWN)
        if alike is not None and in_vain and not found.reductions and found.earliest is None:
            self._vain[alike] = found
        return found

    def _alike(self, wanted: Wanted, pods: Sequence[Pod]) -> object:
        """What an answer without any place in it depends on, None where that is too much to be compared.

        Of a thousand alike for which there is no room only the first few are looked at.
        """
        state = (self._copy.free.revision, len(self._task.around.pressing))
        if state != self._vain_at:
            self._vain.clear()
            self._vain_at = state
        if self._reduced < MOST_REDUCED or wanted.levels:
            return None
        if any(pod.devices or any(key in pod.annotations for key in BONDS) for pod in pods):
            return None
        shapes = Counter((shape_key(Demand(pod)), pod.priority, pod.preempts) for pod in pods)
        return wanted.size, wanted.unknown_class, frozenset(shapes.items())

    def _hold(self, wanted: Wanted, pods: Sequence[Pod], placed: Sequence[Assignment]) -> None:
        """Let a gang that has got places stand in the way of others, unless it has to make way for them."""
        for one in placed:
            use: PodUse = self._copy.allocations[one.uid]
            self._ledger.put(use)
            self._task.taken.hold(use, wanted.key)
        size = wanted.size if isinstance(wanted.size, int) else len(pods)
        membership = Membership(wanted.key, size, "")
        self._task.around.gangs.add(
            wanted.key, size, [(pod, membership, one) for pod, one in zip(pods, placed, strict=True)]
        )

    def _why_not(
        self, wanted: Wanted, pods: Sequence[Pod], demands: Sequence[Demand], reason: Reason, barred: bool
    ) -> Answer:
        """What is told of a gang that doesn't fit; of one that isn't even tried now less of it wouldn't be either."""
        name, count = str(wanted.key), len(wanted.pods)
        preemption = self._preemption(wanted, demands) if reason.code is ReasonCode.BUSY else None
        if barred or self._reduced >= MOST_REDUCED or reason.code in NO_CHANCE:
            return Answer(name, count, False, reason=reason, preemption=preemption)
        self._reduced += 1
        earliest: float | None = None
        reductions: list[Reduction] = []
        try:
            if reason.code is not ReasonCode.UNSATISFIABLE:
                earliest = self._forecast.earliest(demands, wanted.key, self._task.now)
            self._forecast.rewind()
            for one in Probe(self._copy, self._planner, wanted, self._tick).reductions(pods):
                reductions += [one] if one is not None else []
        except OutOfTime:
            self._say(f"gave up looking for more to say about {name} after {self._task.patience:g} s")
        self._forecast.rewind()
        return Answer(name, count, False, (), reason, earliest, tuple(reductions), preemption)

    def _preemption(self, wanted: Wanted, demands: Sequence[Demand]) -> Preemption:
        if wanted.unknown_class:
            return Preemption(
                Outcome.UNKNOWN,
                f"may preempt: PriorityClass {wanted.unknown_class} isn't known, so neither is who would make way",
            )
        size = wanted.size if isinstance(wanted.size, int) else len(demands)
        try:
            found = self._preemptions.look(wanted.key, demands[:size], size < len(demands))
            if found.victims and self._task.around.budgets is None:
                self._say(NO_BUDGETS)
            return found
        except OutOfTime:
            text = f"may preempt: who would make way wasn't found out within {self._task.patience:g} s"
            return Preemption(Outcome.UNKNOWN, text)

    def _say(self, note: str) -> None:
        if note not in self._task.asked.notes:
            self._task.asked.notes.append(note)


def _obstacle(wanted: Wanted) -> Reason | None:
    if isinstance(wanted.size, Reason):
        return wanted.size
    if len(wanted.pods) < wanted.size:
        return waiting(len(wanted.pods), wanted.size)
    broken = next((pod for pod in wanted.pods if pod.problem), None)
    return (
        Reason(ReasonCode.INVALID_REQUEST, f"pod {broken.name}: {broken.problem}")
        if broken is not None
        else None
    )
