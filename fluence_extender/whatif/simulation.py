"""Would it fit: each gang of some manifests is placed on a copy of the books, one after the other.

One that doesn't fit now is told why, when at the earliest, and the smallest reductions by which it would fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fluence_extender.model.duration import in_words
from fluence_extender.model.names import TOPOLOGY_PREFERRED_ANNOTATION, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why, waiting
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from fluence_extender.placement.bonds import PODSET_PREFERRED, PODSET_REQUIRED, SLICE_REQUIRED
from fluence_extender.placement.explain import amount_text
from fluence_extender.placement.plan import Planner, Refused, Wish
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.placement.ranks import rank_key
from fluence_extender.whatif.forecast import Forecast
from fluence_extender.whatif.manifests import Asked, Wanted
from fluence_extender.whatif.snapshot import Snapshot, planning

STEPS = {CPU: 1, MEMORY: 2**20, EPHEMERAL_STORAGE: 2**20}
"""How finely a smaller request is looked for, a millicore and a mebibyte; other resources are whole devices."""

MOST_REDUCED = 16
"""How many gangs that don't fit are looked at for an earliest start and reductions; each costs a hundred plans."""

PATIENCE = 10.0

BONDS = (
    TOPOLOGY_REQUIRED_ANNOTATION,
    TOPOLOGY_PREFERRED_ANNOTATION,
    PODSET_REQUIRED,
    PODSET_PREFERRED,
    SLICE_REQUIRED,
)


@dataclass(frozen=True, slots=True)
class Reduction:
    """One change by which the gang would fit now: ``what`` is members, a resource, or topology."""

    what: str
    wanted: str
    fitting: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one gang. ``earliest`` is seconds since the epoch, None where it isn't known.

    ``may_preempt`` says of one that doesn't fit beside what runs that pods of lower priority could have to make way.
    """

    gang: str
    members: int
    fits: bool
    placed: tuple[tuple[str, Assignment], ...] = ()
    reason: Reason | None = None
    earliest: float | None = None
    reductions: tuple[Reduction, ...] = ()
    may_preempt: bool = False


class OutOfTime(Exception):
    """The time for one question is spent."""


@dataclass(slots=True)
class Simulation:
    """What is asked on what: ``ends`` says by uid when running pods end, ``now`` what time it is.

    ``patience`` is how many seconds may go into what is told of gangs that don't fit.
    """

    taken: Snapshot
    asked: Asked
    now: float
    ends: Mapping[str, float] = field(default_factory=dict)
    patience: float = PATIENCE
    _until: float = 0.0

    def _tick(self) -> None:
        if time.monotonic() > self._until:
            raise OutOfTime

    def run(self) -> list[Answer]:
        """The answers, in the order of the manifests; those that fit stand in the way of the next."""
        copy, planner = planning(self.taken)
        forecast = Forecast(copy, planner, self.ends, self.taken.uses, self._tick)
        self._until = time.monotonic() + self.patience
        answers: list[Answer] = []
        for wanted in self.asked.gangs:
            looked_at = sum(not answer.fits for answer in answers) < MOST_REDUCED
            answers.append(self._one(wanted, copy, planner, forecast if looked_at else None))
        return answers

    def _one(self, wanted: Wanted, copy: PlanningCopy, planner: Planner, forecast: Forecast | None) -> Answer:
        name, count = str(wanted.key), len(wanted.pods)
        obstacle = _obstacle(wanted)
        if obstacle is not None:
            return Answer(name, count, False, reason=obstacle)
        pods = sorted(wanted.pods, key=rank_key)
        wishes = [wanted.wish(pod) for pod in pods]
        try:
            placed = planner.plan(wishes, wanted.key)
        except Refused as refused:
            evicts = refused.reason.why is Why.BUSY and wanted.may_preempt
            if forecast is None or refused.reason.why in (Why.INVALID, Why.NO_BACKEND):
                return Answer(name, count, False, reason=refused.reason, may_preempt=evicts)
            earliest, reductions = None, []
            try:
                if refused.reason.why is not Why.UNSATISFIABLE:
                    earliest = forecast.earliest(wishes, wanted.key, self.now)
                forecast.rewind()
                for one in _Probe(copy, planner, wanted, self._tick).reductions(pods):
                    reductions += [one] if one is not None else []
            except OutOfTime:
                self._say(f"gave up looking for more to say about {name} after {self.patience:g} s")
            forecast.rewind()
            return Answer(name, count, False, (), refused.reason, earliest, tuple(reductions), evicts)
        named = tuple((pod.name, one) for pod, one in zip(pods, placed, strict=True))
        return Answer(name, count, True, named)

    def _say(self, note: str) -> None:
        if note not in self.asked.notes:
            self.asked.notes.append(note)


def _obstacle(wanted: Wanted) -> Reason | None:
    if isinstance(wanted.size, Reason):
        return wanted.size
    if len(wanted.pods) < wanted.size:
        return waiting(len(wanted.pods), wanted.size)
    broken = next((pod for pod in wanted.pods if pod.problem), None)
    return Reason(Why.INVALID, f"pod {broken.name}: {broken.problem}") if broken is not None else None


class _Probe:
    """Smaller versions of one gang, tried on the copy as it is now."""

    def __init__(
        self, copy: PlanningCopy, planner: Planner, wanted: Wanted, tick: Callable[[], None]
    ) -> None:
        self._tick = tick
        self._copy = copy
        self._planner = planner
        self._wanted = wanted

    def reductions(self, pods: Sequence[Pod]) -> Iterator[Reduction | None]:
        """The smallest change of each kind; None for a kind by which nothing is gained."""
        yield self._fewer(pods)
        for name in sorted({name for pod in pods for name in pod.requests if name != PODS}):
            yield self._less(pods, name)
        if any(key in pod.annotations for pod in pods for key in BONDS) or self._wanted.levels:
            yield self._apart(pods)

    def _fewer(self, pods: Sequence[Pod]) -> Reduction | None:
        most = _largest(len(pods) - 1, lambda count: self._fits(pods[:count]))
        if most is None:
            return None
        wanted = len(pods)
        return Reduction("members", str(wanted), str(most), f"{most} of {wanted} members fit")

    def _less(self, pods: Sequence[Pod], name: str) -> Reduction | None:
        largest = max(pod.requests[name] for pod in pods)
        step = STEPS.get(name, 1)
        most = _largest((largest - 1) // step, lambda steps: self._fits(_capped(pods, name, steps * step)))
        if most is None:
            return None
        wanted, fitting = amount_text(name, largest), amount_text(name, most * step)
        return Reduction(name, wanted, fitting, f"all {len(pods)} fit with {fitting} each, not {wanted}")

    def _apart(self, pods: Sequence[Pod]) -> Reduction | None:
        free = [
            replace(pod, annotations={key: text for key, text in pod.annotations.items() if key not in BONDS})
            for pod in pods
        ]
        if not self._fits(free, [Wish(pod) for pod in free]):
            return None
        return Reduction(
            "topology", "near each other", "anywhere", f"all {len(pods)} fit without their topology"
        )

    def _fits(self, pods: Sequence[Pod], wishes: Sequence[Wish] | None = None) -> bool:
        self._tick()
        try:
            self._planner.plan(wishes or [self._wanted.wish(pod) for pod in pods], self._wanted.key)
        except Refused:
            return False
        self._copy.undo([pod.uid for pod in pods])
        return True


def _largest(most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number from 1 to ``most`` that fits, where all smaller ones do too; None when none does."""
    if most < 1 or not fits(1):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _capped(pods: Sequence[Pod], name: str, most: int) -> list[Pod]:
    return [
        replace(pod, requests=Resources({**pod.requests, name: min(pod.requests[name], most)}))
        for pod in pods
    ]


def shown(answers: Sequence[Answer], asked: Asked, now: float) -> dict[str, object]:
    """The answers as JSON values; times are RFC 3339 and, beside it, seconds from now."""
    return {
        "fits": all(answer.fits for answer in answers),
        "gangs": [_shown(answer, now) for answer in answers],
        "ignored": asked.ignored,
        "notes": asked.notes,
    }


def _shown(answer: Answer, now: float) -> dict[str, object]:
    earliest = answer.earliest
    return {
        "gang": answer.gang,
        "members": answer.members,
        "fits": answer.fits,
        "reason": answer.reason.text if answer.reason is not None else "",
        "why": answer.reason.why.value if answer.reason is not None else "",
        "placement": [
            {
                "pod": name,
                "node": one.node,
                "backend": one.backend,
                "devices": [
                    {"path": share.path, "type": share.type, "amount": share.amount} for share in one.devices
                ],
            }
            for name, one in answer.placed
        ],
        "earliestStart": _moment(earliest) if earliest is not None else None,
        "earliestIn": in_words(max(earliest - now, 0.0)) if earliest is not None else None,
        "mayPreempt": answer.may_preempt,
        "reductions": [
            {"what": one.what, "wanted": one.wanted, "fitting": one.fitting, "text": one.text}
            for one in answer.reductions
        ],
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
