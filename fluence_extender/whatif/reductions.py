"""By how much less a gang would fit now: the largest version of it of each kind that does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fluence_extender.model.names import TOPOLOGY_PREFERRED_ANNOTATION, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from fluence_extender.placement.bonds import PODSET_PREFERRED, PODSET_REQUIRED, SLICE_REQUIRED
from fluence_extender.placement.explain import amount_text
from fluence_extender.placement.plan import Planner, Wish
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.whatif.manifests import Wanted

STEPS = {CPU: 1, MEMORY: 2**20, EPHEMERAL_STORAGE: 2**20}
"""How finely a smaller request is looked for, a millicore and a mebibyte; other resources are whole devices."""

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
        asked = wishes or tuple(self._wanted.wish(pod) for pod in pods)
        if self._planner.find(asked, self._wanted.key) is None:
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
    capped = {
        requests: Resources({**requests, name: min(requests[name], most)})
        for requests in {pod.requests for pod in pods}
    }
    return [replace(pod, requests=capped[pod.requests]) for pod in pods]
