"""Whether a gang could ever be placed, asked while some of its members don't exist yet.

Two things are checked on the capacity of nodes on which nothing runs. Each existing kind of member needs a place by
itself. And the required number of members needs places together, with the smallest amounts that any existing member
asks for. Later members may ask for less, so the second reason is conditional and says so.

Invariant: the answer depends on the kinds of members that exist, the gang's size and the nodes, but not on how many
members exist. So the text stays the same while more members of the same kinds come, and it is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand, shape_key, unplannable
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.reasons import (
    Reasons,
    ShapeNodes,
    never_a_place,
    too_few_devices_ever,
    why_no_devices,
)
from fluence_extender.placement.search import Shape
from fluence_extender.room.room import Room

MOST_KINDS = 16
"""The most kinds of members of a gang that is judged before it is whole."""

MOST_ANSWERS, MOST_PODS = 512, 2**14
"""So many answers are remembered, and the kinds of so many pods or twice those of a gang; then they are dropped."""

CONDITION = ", unless members that are still to come ask for less than those that exist"


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Members that are alike for placement: one of them, and the number of kinds found before."""

    pod: Pod
    number: int


def _request_key(pod: Pod) -> tuple[object, ...]:
    """Return what a pod asks for; members with equal values are of one kind."""
    devices = tuple(sorted(pod.devices.items()))
    requires = tuple(pod.requires.items()) if devices else ()
    return shape_key(Demand(pod)), devices, requires, unplannable([pod]) is None


class PartialGangs:
    """Judges gangs of which only some members exist."""

    def __init__(self, eligibility: EligibilityIndex, reasons: Reasons) -> None:
        self._eligibility = eligibility
        self._reasons = reasons
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self._pods: dict[str, tuple[Pod, _Kind]] = {}
        self._answers: dict[tuple[frozenset[_Kind], int], Reason | None] = {}
        self._answers_for: object = None

    def never(self, room: Room, pods: Sequence[Pod], size: int) -> Reason | None:
        """Return why a gang that needs places for ``size`` members, ``pods`` among them, can never be placed.

        None means that it may be possible, or that the members' requests can't be read.
        """
        kinds = self._kinds_of(pods)
        if not 0 < len(kinds) <= MOST_KINDS or any(unplannable([kind.pod]) for kind in kinds):
            return None
        whole = room.whole
        state = id(whole), whole.revision, self._eligibility.journal.now, room.devices.catalogue
        if state != self._answers_for or len(self._answers) >= MOST_ANSWERS:
            self._answers.clear()
            self._answers_for = state
        key = frozenset(kinds), size
        if key not in self._answers:
            ordered = [kind.pod for kind in sorted(kinds, key=lambda kind: kind.number)]
            found = self._devices(room, ordered, size) or self._nodes(room, ordered, size)
            self._answers[key] = None if found is None else replace(found, assembling=True)
        return self._answers[key]

    def _kinds_of(self, pods: Sequence[Pod]) -> set[_Kind]:
        """Return the kinds of pods. They are cached, because a gang is judged anew with each further pod."""
        if len(self._pods) > max(MOST_PODS, 2 * len(pods)):
            self._pods.clear()
            self._kinds.clear()
        found: set[_Kind] = set()
        for pod in pods:
            known = self._pods.get(pod.uid)
            if known is None or known[0] is not pod:
                kind = self._kinds.setdefault(_request_key(pod), _Kind(pod, len(self._kinds)))
                known = self._pods[pod.uid] = pod, kind
            found.add(known[1])
        return found

    def _nodes(self, room: Room, pods: Sequence[Pod], size: int) -> Reason | None:
        whole = room.whole
        some = [self._alone(room, pod) for pod in pods]
        for one in some:
            alone = never_a_place([one], whole)
            if alone is not None:
                return alone
        shapes = [one.shape for one in some]
        ports = {shape.ports for shape in shapes}
        least = Shape(
            _least([shape.requests for shape in shapes]), size, (), ports.pop() if len(ports) == 1 else ()
        )
        everywhere = dict.fromkeys(name for one in some for name in one.possible)
        together = never_a_place([ShapeNodes(least, tuple(everywhere))], whole)
        return together and replace(together, text=f"{together.text}{CONDITION}")

    def _alone(self, room: Room, pod: Pod) -> ShapeNodes:
        """Return one member's shape with its nodes."""
        shape = Shape(pod.requests, 1, (), pod.host_ports)
        (found,) = self._reasons.shapes(room, [(shape, [pod])])
        return found

    def _devices(self, room: Room, pods: Sequence[Pod], size: int) -> Reason | None:
        catalogue = room.devices.catalogue
        everywhere = catalogue.nodes()
        for pod in pods:
            for kind in sorted(pod.devices):
                alone = why_no_devices(catalogue, kind, pod, everywhere)
                if alone.code is not ReasonCode.BUSY:
                    return alone
        if not all(pod.devices for pod in pods) or len({tuple(pod.requires.items()) for pod in pods}) > 1:
            return None
        least = _least([Resources(pod.devices) for pod in pods])
        for kind, amount in sorted(least.items()):
            found = too_few_devices_ever(catalogue, kind, amount, pods[0].requires, size)
            if found is not None:
                return replace(found, text=f"{found.text}{CONDITION}")
        return None


def _least(some: Sequence[Resources]) -> Resources:
    """Return the smallest amount of each resource that is in ``some``."""
    return Resources({name: min(one[name] for one in some) for name in some[0]})
