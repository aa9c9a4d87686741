"""By how much less a gang would fit now: the largest version of it of each kind that does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fluence_extender.model.names import TOPOLOGY_PREFERRED_ANNOTATION, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.quantity import floor_whole, in_exact_binary
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from fluence_extender.placement.demand import shape_key
from fluence_extender.placement.explain import amount_text
from fluence_extender.placement.plan import Demand, Planner
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.placement.ranks import rank_key
from fluence_extender.placement.shortage import weights
from fluence_extender.placement.topology_constraints import PODSET_PREFERRED, PODSET_REQUIRED, SLICE_REQUIRED
from fluence_extender.whatif.manifests import Wanted

STEPS = {CPU: 1, MEMORY: 2**20, EPHEMERAL_STORAGE: 2**20}
"""How finely a smaller request is looked for, a millicore and a mebibyte; others are whole devices or pages."""

HUGE_PAGES = "hugepages-"
MOST_SHAPES = 16
"""Of gangs with more kinds of members only the first ones are counted that fit."""

NAMED = 4
"""So many members that would have to be left out are named."""

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


class Probe:
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
        most = _largest(len(pods) - 1, lambda count: self._fits(pods[:count])) or 0
        some = self._smaller_ones(pods)
        wanted = len(pods)
        if len(some) > most:
            fitting = {pod.uid for pod in some}
            left = first_few([pod.name for pod in pods if pod.uid not in fitting], NAMED)
            text = f"{len(some)} of {wanted} members fit, without {left}"
            return Reduction("members", str(wanted), str(len(some)), text)
        if not most:
            return None
        return Reduction("members", str(wanted), str(most), f"{most} of {wanted} members fit")

    def _smaller_ones(self, pods: Sequence[Pod]) -> list[Pod]:
        """As many as fit where those that ask for less come first, whatever their ranks; nobody where all are alike."""
        shapes: dict[object, list[Pod]] = defaultdict(list)
        for pod in pods:
            devices = (frozenset(kinds.items()) for kinds in (pod.devices, pod.requires))
            shapes[shape_key(Demand(pod)), *devices].append(pod)
        taken: list[Pod] = []
        if 1 < len(shapes) <= MOST_SHAPES:
            groups = list(shapes.values())
            heavy = weights([some[0].requests for some in groups], self._copy.free.now())
            scarce = [sum(some[0].devices.values()) for some in groups]
            for at in sorted(range(len(groups)), key=lambda at: (scarce[at], heavy[at])):
                taken = self._with_most_of(groups[at], taken)
        return taken

    def _with_most_of(self, alike: Sequence[Pod], taken: list[Pod]) -> list[Pod]:
        """``taken`` and as many of ``alike`` as fit beside them."""
        most = _largest(len(alike), lambda count: self._fits(_ranked(taken, alike[:count])))
        return _ranked(taken, alike[:most]) if most else taken

    def _less(self, pods: Sequence[Pod], name: str) -> Reduction | None:
        largest = max(pod.requests[name] for pod in pods)
        step = _step(name)
        most = _largest((largest - 1) // step, lambda steps: self._fits(_capped(pods, name, steps * step)))
        if most is None:
            return None
        wanted, fitting = _exactly(name, largest), _exactly(name, most * step)
        least = "at most " if any(0 < pod.requests[name] < largest for pod in pods) else ""
        each = " each" if len(pods) > 1 else ""
        text = f"{_all_fit(len(pods))} with {least}{fitting}{each}, not {wanted}"
        return Reduction(name, wanted, fitting, text)

    def _apart(self, pods: Sequence[Pod]) -> Reduction | None:
        free = [
            replace(pod, annotations={key: text for key, text in pod.annotations.items() if key not in BONDS})
            for pod in pods
        ]
        if not self._fits(free, [Demand(pod) for pod in free]):
            return None
        whose = "their" if len(pods) > 1 else "its"
        return Reduction(
            "topology", "near each other", "anywhere", f"{_all_fit(len(pods))} without {whose} topology"
        )

    def _fits(self, pods: Sequence[Pod], demands: Sequence[Demand] | None = None) -> bool:
        self._tick()
        asked = demands or tuple(self._wanted.demand(pod) for pod in pods)
        if self._planner.find(asked, self._wanted.key) is None:
            return False
        self._copy.undo([pod.uid for pod in pods])
        return True


def _step(name: str) -> int:
    if name.startswith(HUGE_PAGES):
        return max(floor_whole(name.removeprefix(HUGE_PAGES)), 1)
    return STEPS.get(name, 1)


def _exactly(name: str, amount: int) -> str:
    """An amount that can be written into a manifest as it is: rounded, it might not fit."""
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES):
        return f"{in_exact_binary(amount)} {name}"
    return amount_text(name, amount)


def _ranked(some: Sequence[Pod], others: Sequence[Pod]) -> list[Pod]:
    return sorted((*some, *others), key=rank_key)


def _all_fit(count: int) -> str:
    return f"all {count} fit" if count > 1 else "it fits"


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
    capped = {
        requests: Resources({**requests, name: min(requests[name], most)})
        for requests in {pod.requests for pod in pods}
    }
    return [replace(pod, requests=capped[pod.requests]) for pod in pods]
