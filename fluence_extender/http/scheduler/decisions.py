"""What the verbs decide, as plain functions of the plan and the request.

Rules of the protocol (kube-scheduler's extender.go): a node that is refused as unresolvable is no preemption candidate,
which is right for a pod whose place is planned elsewhere. The texts end up in the pod's condition, and kube-scheduler
wakes the pod whenever they change, so they only change when the plan does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.http.scheduler.offer import Offer
from fluence_extender.http.scheduler.port import (
    Anywhere,
    Location,
    Nowhere,
    On,
    Placements,
    RequestedPod,
    Undecided,
)
from fluence_extender.http.scheduler.wire import MetaVictims
from fluence_extender.model.names import SCHEDULER_NAME

# kube-scheduler's MaxExtenderPriority.
TOP_SCORE = 10


@dataclass(frozen=True, slots=True)
class AllPass:
    """Every offered node passes."""


@dataclass(frozen=True, slots=True)
class OnePasses:
    """Only ``node`` passes, and it was offered."""

    node: str


@dataclass(frozen=True, slots=True)
class NonePasses:
    """No offered node passes; ``missed`` is the planned node that wasn't offered, "" without a plan."""

    reason: str
    missed: str = ""


Verdict = AllPass | OnePasses | NonePasses


def is_ours(pod: RequestedPod) -> bool:
    """Return whether we are the pod's scheduler; a foreign pod never waits for us."""
    return pod.scheduler == SCHEDULER_NAME


def location_of(pod: RequestedPod, placements: Placements) -> Location:
    """Return where the pod is to run. A foreign pod may run anywhere, whatever state we are in."""
    return placements.locate(pod) if is_ours(pod) else Anywhere()


def filter_offer(location: Location, offer: Offer) -> Verdict:
    """Return which of the offered nodes the pod may have."""
    match location:
        case Anywhere():
            return AllPass()
        case On(node):
            if offer.holds(node):
                return OnePasses(node)
            return NonePasses(f"planned on node {node}, which isn't among the nodes offered", missed=node)
        case Nowhere(reason) | Undecided(reason):
            return NonePasses(reason)


def scores(location: Location, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield a score for each name: the planned node gets the highest, all others get 0."""
    planned = location.node if isinstance(location, On) else None
    return ((name, TOP_SCORE if name == planned else 0) for name in names)


def preemptable(
    victims: Mapping[str, MetaVictims], may_evict: Callable[[Sequence[str]], bool]
) -> dict[str, MetaVictims]:
    """Return the nodes whose victims may all be evicted; a node whose victims would break a gang is left out."""
    return {node: found for node, found in victims.items() if not found.pods or may_evict(found.uids())}
