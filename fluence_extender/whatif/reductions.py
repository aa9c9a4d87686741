"""By how much a gang would have to be smaller to fit now, for each kind of change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fluence_extender.model.bisection import largest_fitting
from fluence_extender.model.names import TOPOLOGY_PREFERRED_ANNOTATION, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.quantity import floor_whole, in_exact_binary
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from fluence_extender.placement.demand import Demand, shape_key
from fluence_extender.placement.ranks import rank_key
from fluence_extender.placement.reasons import amount_text
from fluence_extender.placement.search import weights
from fluence_extender.placement.topology_constraints import PODSET_PREFERRED, PODSET_REQUIRED, SLICE_REQUIRED
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.whatif.manifests import RequestedGang

STEPS = {CPU: 1, MEMORY: 2**20, EPHEMERAL_STORAGE: 2**20}
"""The steps of smaller requests: a millicore, a mebibyte. Other resources are whole devices or pages."""

HUGE_PAGES = "hugepages-"
MOST_SHAPES = 16
"""For a gang with more kinds of members, only the members with the lowest ranks are tried."""

NAMED_MEMBERS = 4
"""The most left-out members that are named."""

TOPOLOGY_KEYS = (
    TOPOLOGY_REQUIRED_ANNOTATION,
    TOPOLOGY_PREFERRED_ANNOTATION,
    PODSET_REQUIRED,
    PODSET_PREFERRED,
    SLICE_REQUIRED,
)
"""The annotations that bind the members of a gang to a topology domain."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """One change with which the gang would fit now; ``what`` is ``members``, a resource, or ``topology``."""

    what: str
    wanted: str
    fitting: str
    text: str


class OutOfTime(Exception):
    """The time for the details of a question is over."""


class Reducer:
    """Tries smaller versions of one gang.

    ``free`` is what nodes have free, and ``fits`` returns whether members with some demands fit there. ``tick`` may
    raise `OutOfTime` to end the search.
    """

    def __init__(
        self,
        gang: RequestedGang,
        free: CapacityTable,
        fits: Callable[[Sequence[Demand]], bool],
        tick: Callable[[], None],
    ) -> None:
        self._gang = gang
        self._free = free
        self._would_fit = fits
        self._tick = tick

    def reductions(self, pods: Sequence[Pod]) -> Iterator[Reduction | None]:
        """Yield the smallest change of each kind; None for a kind that does not help."""
        yield self._fewer_members(pods)
        for name in sorted({name for pod in pods for name in pod.requests if name != PODS}):
            yield self._smaller_requests(pods, name)
        if any(key in pod.annotations for pod in pods for key in TOPOLOGY_KEYS) or self._gang.has_levels:
            yield self._without_topology(pods)

    def _fewer_members(self, pods: Sequence[Pod]) -> Reduction | None:
        most = _largest(len(pods) - 1, lambda count: self._fits(pods[:count])) or 0
        some = self._smallest_first(pods)
        wanted = len(pods)
        if len(some) > most:
            fitting = {pod.uid for pod in some}
            left_out = first_few([pod.name for pod in pods if pod.uid not in fitting], NAMED_MEMBERS)
            text = f"{len(some)} of {wanted} members fit, without {left_out}"
            return Reduction("members", str(wanted), str(len(some)), text)
        if not most:
            return None
        return Reduction("members", str(wanted), str(most), f"{most} of {wanted} members fit")

    def _smallest_first(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return as many members as fit if those that ask for less come first; none if all members are alike."""
        shapes: dict[object, list[Pod]] = defaultdict(list)
        for pod in pods:
            devices = (frozenset(kinds.items()) for kinds in (pod.devices, pod.requires))
            shapes[shape_key(Demand(pod)), *devices].append(pod)
        taken: list[Pod] = []
        if 1 < len(shapes) <= MOST_SHAPES:
            groups = list(shapes.values())
            heavy = weights([some[0].requests for some in groups], self._free)
            scarce = [sum(some[0].devices.values()) for some in groups]
            for at in sorted(range(len(groups)), key=lambda at: (scarce[at], heavy[at])):
                taken = self._with_most_of(groups[at], taken)
        return taken

    def _with_most_of(self, alike: Sequence[Pod], taken: list[Pod]) -> list[Pod]:
        """Return ``taken`` and as many of ``alike`` as fit with them."""
        most = _largest(len(alike), lambda count: self._fits(_ranked(taken, alike[:count])))
        return _ranked(taken, alike[:most]) if most else taken

    def _smaller_requests(self, pods: Sequence[Pod], name: str) -> Reduction | None:
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

    def _without_topology(self, pods: Sequence[Pod]) -> Reduction | None:
        free = [
            replace(
                pod,
                annotations={key: text for key, text in pod.annotations.items() if key not in TOPOLOGY_KEYS},
            )
            for pod in pods
        ]
        if not self._fits(free, [Demand(pod) for pod in free]):
            return None
        text = f"{_all_fit(len(pods))} without {'their' if len(pods) > 1 else 'its'} topology"
        return Reduction("topology", "near each other", "anywhere", text)

    def _fits(self, pods: Sequence[Pod], demands: Sequence[Demand] | None = None) -> bool:
        self._tick()
        return self._would_fit(demands or tuple(map(self._gang.demand, pods)))


def _step(name: str) -> int:
    if name.startswith(HUGE_PAGES):
        return max(floor_whole(name.removeprefix(HUGE_PAGES)), 1)
    return STEPS.get(name, 1)


def _exactly(name: str, amount: int) -> str:
    """Return the exact amount in a form for manifests, because a rounded one might not fit."""
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES):
        return f"{in_exact_binary(amount)} {name}"
    return amount_text(name, amount)


def _ranked(some: Sequence[Pod], others: Sequence[Pod]) -> list[Pod]:
    return sorted((*some, *others), key=rank_key)


def _all_fit(count: int) -> str:
    return f"all {count} fit" if count > 1 else "it fits"


def _largest(most: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number from 1 to ``most`` that fits, given that all smaller ones do; None if none fits."""
    return largest_fitting(most, fits) if most >= 1 and fits(1) else None


def _capped(pods: Sequence[Pod], name: str, most: int) -> list[Pod]:
    """Return the pods with no more than ``most`` of one resource requested by each."""
    capped = {
        requests: Resources({**requests, name: min(requests[name], most)})
        for requests in {pod.requests for pod in pods}
    }
    return [replace(pod, requests=capped[pod.requests]) for pod in pods]
