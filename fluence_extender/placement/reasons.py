"""Why a gang has no place: whether it is busy or unsatisfiable, and what is missing.

Everything is counted on exact amounts. A gang is unsatisfiable if it certainly wouldn't fit even if nothing ran. Nodes
that are only cordoned or not ready count as present, because they may come back. Invariant: the texts contain no
counters or times that change while the gang waits for the same thing, because each change of a text wakes its pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible, why_none
from fluence_extender.model.names import HOSTNAME
from fluence_extender.model.pod import ALONE, Pod
from fluence_extender.model.quantity import in_binary
from fluence_extender.model.reason import Reason, ReasonCode, busy, short, unsatisfiable
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from fluence_extender.placement.demand import Group
from fluence_extender.placement.eligibility import EligibilityIndex, by_frequency, passes, refusal
from fluence_extender.placement.errors import NoPlace, SearchBudgetSpent
from fluence_extender.placement.pod_rules import PodRules
from fluence_extender.placement.ruled_search import RuledSearch
from fluence_extender.placement.search import Shape, capacity, decide, homeless
from fluence_extender.placement.shortage import Part, largest_part, part_that_fits
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.devices import DeviceUse, most_served
from fluence_extender.room.kept_apart import KeptApart
from fluence_extender.room.room import Room

MOST_KINDS = 3
"""The most kinds of members that are listed."""

MOST_RESOURCES = 8
"""The most resources of one member that a reason names."""

MOST_BACKENDS = 10
"""The most backends that are named."""

MOST_REMEMBERED = 1024
"""The most kinds of gangs for which it is cached whether they would fit if nothing ran."""


@dataclass(frozen=True, slots=True)
class ShapeNodes:
    """A shape with its nodes.

    ``possible`` are the nodes that it could ever use, including cordoned nodes and nodes that aren't ready.
    ``refusals`` are the reasons that exclude other nodes, each with the number of nodes. ``tie`` are the kinds of
    devices that tie the shape to a few nodes, "" for none.
    """

    shape: Shape
    possible: tuple[str, ...]
    refusals: Mapping[str, int] = field(default_factory=dict)
    tie: str = ""

    @property
    def a_node(self) -> str:
        """The phrase for one of the nodes."""
        return f"node with {self.tie}" if self.tie else "node"


class Reasons:
    """Explains why members have no place in a room."""

    def __init__(self, eligibility: EligibilityIndex) -> None:
        self._eligibility = eligibility
        self._never: dict[object, tuple[object, Reason | None]] = {}
        self._never_at: tuple[CapacityTable | None, int] = None, -1

    def possible(self, room: Room, groups: Sequence[Group]) -> list[tuple[str, ...]]:
        """Return the nodes that each shape could ever use, cordoned and not ready ones included."""
        return [room.in_order(self._eligibility.possible(pods[0])) for _, pods in groups]

    def reason(self, room: Room, no: NoPlace) -> Reason:
        """Return why the shapes have no place."""
        shapes = self.shapes(room, no.groups)
        never = self._never_a_place(room, shapes)
        if never is not None:
            return never
        found = no_place_now(shapes, room.free)
        if no.ruled is not None and (found.fitting is None or no.ruled <= found.fitting):
            return self._ruled_out(room, no)
        if no.devices is not None and all(one.shape.nodes or not one.tie for one in shapes):
            pods = [pod for _, pods in no.groups for pod in pods]
            fitting = part_that_fits([one.shape for one in shapes], room.free).members
            return _too_few_devices(pods, fitting, room.devices) or no.devices
        return found

    def _ruled_out(self, room: Room, no: NoPlace) -> Reason:
        """Return the reason for members that rules about other pods leave without a place."""
        pods = [pods[0] for _, pods in no.groups]
        wanted = sum(shape.count for shape, _ in no.groups)
        whole, nodes = room.whole, KeptApart(self._eligibility.nodes)
        ideal = [
            replace(shape, nodes=possible, claim_room=shape.claim_room and shape.claim_room.whole)
            for (shape, _), possible in zip(no.groups, self.possible(room, no.groups), strict=True)
        ]
        rules = PodRules(pods, whole.names, self._eligibility.nodes, nodes)
        search = RuledSearch(ideal, whole, rules)
        # What the first members need beside them may still come, and others may fit in an order that isn't tried.
        never = rules.simple and all(nodes.counts(term, pods[0]) for term in pods[0].near)
        if never and search.run() is None:
            return unsatisfiable(ruled_text(pods, search.placed, wanted), search.placed)
        fitting = min(no.ruled or 0, wanted - 1)
        return Reason(ReasonCode.BUSY, f"busy: {ruled_text(pods, fitting, wanted)} now", fitting)

    def lacking(self, room: Room, group: Group, part: Part) -> Reason:
        """Return why equal members wait of which only ``part`` fits now, if amounts alone decide that."""
        shape, pods = group
        (possible,) = self.possible(room, [group])
        shapes = [ShapeNodes(shape, possible, self._eligibility.refusals(pods[0]))]
        return self._never_a_place(room, shapes) or no_place_beside(shapes, part)

    def _never_a_place(self, room: Room, shapes: Sequence[ShapeNodes]) -> Reason | None:
        """Return `never_a_place`. It is cached, because many waiting gangs are alike.

        The cache is dropped when a node's capacity changes, and when it becomes too large.
        """
        whole = room.whole
        if (
            self._never_at[0] is not whole
            or self._never_at[1] != whole.revision
            or len(self._never) >= MOST_REMEMBERED
        ):
            self._never.clear()
            self._never_at = whole, whole.revision
        # A shape may come from a room with further pods. These don't matter here, unlike the devices of nodes.
        claims = room.claims.revision if any(one.shape.claim_room for one in shapes) else None
        key = (
            claims,
            *(
                # The index returns the same tuple of nodes each time, and to compare thousands of names takes long.
                (
                    (one.shape.requests, one.shape.count, one.shape.ports, one.shape.claim_room),
                    (id(one.possible), one.tie, tuple(one.refusals.items())),
                )
                for one in shapes
            ),
        )
        if key not in self._never:
            self._never[key] = [one.possible for one in shapes], never_a_place(shapes, whole)
        return self._never[key][1]

    def shapes(self, room: Room, groups: Sequence[Group]) -> list[ShapeNodes]:
        """Return the shapes with their nodes; pods that devices tie to some nodes are shapes of their own."""
        catalogue, known = room.devices.catalogue, self._eligibility.nodes
        found = []
        for (shape, pods), possible in zip(groups, self.possible(room, groups), strict=True):
            by_tie: dict[tuple[frozenset[str] | None, str], list[Pod]] = {}
            for pod in pods:
                tied = _tied_to(catalogue, pod) if pod.devices else None
                kinds = " and ".join(sorted(pod.devices)) if tied is not None else ""
                by_tie.setdefault((tied, kinds), []).append(pod)
            for (tied, kinds), some in by_tie.items():
                count = len(some)
                if tied is None:
                    refusals = {**self._eligibility.refusals(some[0]), **_kept_apart(room, some[0])}
                    own = shape if count == shape.count else replace(shape, count=count)
                    found.append(ShapeNodes(own, possible, refusals))
                    continue
                refused = (refusal(some[0], known[name]) for name in tied if name in known)
                found.append(
                    ShapeNodes(
                        replace(
                            shape, count=count, nodes=tuple(name for name in shape.nodes if name in tied)
                        ),
                        tuple(name for name in possible if name in tied),
                        by_frequency(Counter(why for why in refused if why is not None))
                        | _kept_apart(room, some[0], tied),
                        kinds,
                    )
                )
        return found


def _kept_apart(room: Room, pod: Pod, within: Set[str] | None = None) -> dict[str, int]:
    """Return how many nodes (of those ``within``) the pod must avoid because of other pods, by the reason why."""
    kept_apart = room.kept_apart
    kept = kept_apart.nodes(pod)
    count = len(kept if within is None else kept & within)
    return {kept_apart.why(pod): count} if count else {}


# Nodes.


def no_place_now(shapes: Sequence[ShapeNodes], free: CapacityTable) -> Reason:
    """Return the reason for a gang that has to wait for capacity; ``free`` is what the nodes have left."""
    for one in shapes:
        if one.tie and not one.shape.nodes:
            refused = _refused(one.refusals)
            return Reason(
                ReasonCode.BUSY, f"busy: no {one.a_node} may be used now{refused}{_members(one, shapes)}"
            )
    return no_place_beside(shapes, part_that_fits([one.shape for one in shapes], free))


def no_place_beside(shapes: Sequence[ShapeNodes], part: Part) -> Reason:
    """Return the reason for a gang of which only ``part`` fits now."""
    wanted = sum(one.shape.count for one in shapes)
    reason = busy(min(part.members, wanted - 1), wanted, part.short_of)
    if part.short_of == (ALONE,) and len(shapes) == 1:
        reason = replace(reason, text=f"busy: {different_nodes(part.members, wanted)} now")
    refused = _refused(_passing_refusals(shapes))
    return replace(reason, text=f"{reason.text}{refused}") if refused else reason


def never_a_place(shapes: Sequence[ShapeNodes], whole: CapacityTable) -> Reason | None:
    """Return why a gang wouldn't fit even if nothing ran; None when it would, or when that isn't certain.

    ``whole`` is what the nodes have when nothing runs.
    """
    ideal = [
        replace(one.shape, nodes=one.possible, claim_room=one.shape.claim_room and one.shape.claim_room.whole)
        for one in shapes
    ]
    for index in homeless(ideal, whole):
        one = shapes[index]
        if not one.possible:
            return unsatisfiable(f"{_no_node(one)}{_members(one, shapes)}")
        no_devices = _no_devices(ideal[index], whole, one.a_node)
        if no_devices:
            return unsatisfiable(f"{no_devices}{_members(one, shapes)}")
        too_large, lacking = _too_large(ideal[index], whole, one.a_node)
        return unsatisfiable(f"{too_large}{_members(one, shapes)}", 0, () if one.tie else lacking)
    try:
        if decide(ideal, whole) is not None:
            return None
    except SearchBudgetSpent:
        return None
    part = largest_part(ideal, whole)
    wanted = sum(shape.count for shape in ideal)
    members = f"{'at least ' if part.cut_short else ''}{part.members} of {wanted} members"
    fit = f"{members} would fit if nothing else ran{short(part.short_of)}"
    if part.short_of == (ALONE,) and len(shapes) == 1:
        fit = different_nodes(part.members, wanted)
    return unsatisfiable(f"{fit}{_left_over(ideal, part)}", part.members, part.short_of)


def different_nodes(fitting: int, wanted: int, key: str = HOSTNAME) -> str:
    """Return the sentence for members of which each needs a node, or another domain, of its own."""
    domains = "nodes" if key == HOSTNAME else f"values of {key}"
    take = "takes" if fitting == 1 else "take"
    return f"needs {wanted} different {domains} (required podAntiAffinity), {fitting or 'none'} {take} it"


def ruled_text(pods: Sequence[Pod], fitting: int, wanted: int) -> str:
    """Return in words that the rules of ``pods``, one of each kind, let only some members fit."""
    (first, *others) = pods
    if not others and len(first.apart) == 1 and not first.near and not first.spread:
        return different_nodes(fitting, wanted, first.apart[0].key)
    rules = [
        *(f"required podAffinity by {term.key}" for pod in pods for term in pod.near),
        *(f"required podAntiAffinity by {term.key}" for pod in pods for term in pod.apart),
        *(f"DoNotSchedule spread over {rule.key}" for pod in pods for rule in pod.spread),
    ]
    return f"the {_listed([*dict.fromkeys(rules)], ' and ')} lets {fitting} of {wanted} members fit"


def _members(one: ShapeNodes, shapes: Sequence[ShapeNodes]) -> str:
    """Return the end of a sentence about one shape, such as ", for 2 of 5 members"; "" if all members are equal."""
    wanted = sum(each.shape.count for each in shapes)
    return f", for {one.shape.count} of {wanted} members" if len(shapes) > 1 else ""


def _left_over(shapes: Sequence[Shape], part: Part) -> str:
    """Return in words which of unequal members have no place in ``part``."""
    left: dict[str, int] = {}
    for shape, count in zip(shapes, part.counts, strict=True):
        if len(shapes) > 1 and count < shape.count:
            text = requests_text(shape.requests)
            left[text] = left.get(text, 0) + shape.count - count
    if not left:
        return ""
    listed = [f"{count} x {text}" for text, count in sorted(left.items())]
    more = f" and {len(listed) - MOST_KINDS} more kinds" if len(listed) > MOST_KINDS else ""
    return f"; no place for {', '.join(listed[:MOST_KINDS])}{more}"


def _no_node(one: ShapeNodes) -> str:
    if not one.refusals:
        return "the cluster has no nodes" if not one.tie else f"no {one.a_node} is there"
    return f"no {one.a_node} may be used{_refused(one.refusals)}"


def _no_devices(shape: Shape, whole: CapacityTable, a_node: str) -> str:
    """Return the phrase that no node with the amounts has the devices, "" if amounts are missing."""
    if shape.claim_room is None or not capacity(replace(shape, claim_room=None), whole).any():
        return ""
    failure = shape.claim_room.failure(shape.nodes)
    return f"no {a_node} has {shape.claim_room.text}{f' ({failure})' if failure else ''}"


def _passing_refusals(shapes: Sequence[ShapeNodes]) -> dict[str, int]:
    """Return the refusals that end by themselves, each with the most nodes for which it holds for any shape."""
    counts: dict[str, int] = {}
    for one in shapes:
        for why, count in one.refusals.items():
            if passes(why):
                counts[why] = max(counts.get(why, 0), count)
    return by_frequency(counts)


def _refused(refusals: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count} {why}" for why, count in refusals.items())
    return f" (nodes refused: {listed})" if listed else ""


def _too_large(shape: Shape, whole: CapacityTable, a_node: str) -> tuple[str, tuple[str, ...]]:
    """Return in words which amounts no node has, with the largest that exists, or what the nearest node has.

    Also return the resources of which no node has enough.
    """
    requests = shape.requests
    amounts = whole.free[whole.at(shape.nodes)]
    names = [name for name in sorted(requests) if requests[name] > 0]
    columns = [whole.column(name) for name in names]
    requested = np.array([requests[name] for name in names])
    largest = amounts[:, columns].max(axis=0)
    lacking = {
        name: f"{amount_text(name, requests[name])} "
        f"(the largest has {amount_text(name, int(most)) if most > 0 else 'none'})"
        for name, most in zip(names, largest, strict=True)
        if requests[name] > most
    }
    if lacking:
        return f"no {a_node} has {_listed([*lacking.values()], ', nor ')}", tuple(lacking)
    missing = amounts[:, columns] < requested
    fewest = missing[missing.sum(axis=1) == missing.sum(axis=1).min()]
    nearest = min(tuple(np.flatnonzero(row).tolist()) for row in np.unique(fewest, axis=0))
    alike = (missing == np.isin(np.arange(len(names)), nearest)).all(axis=1)
    best = max(amounts[alike][:, [columns[one] for one in nearest]].tolist())
    had = " and ".join(_have(names[one], int(amount)) for one, amount in zip(nearest, best, strict=True))
    wanted = [
        amount_text(name, requests[name])
        for place, name in enumerate(names)
        if name != PODS or place in nearest
    ]
    return f"no single {a_node} has {_listed(wanted, ' and ')} (the nearest has {had})", ()


def _have(name: str, amount: int) -> str:
    return amount_text(name, amount) if amount > 0 else f"no {name}"


# Devices.


def _tied_to(catalogue: DeviceCatalogue, pod: Pod) -> frozenset[str] | None:
    """Return the nodes that have the devices a pod asks for; None when its devices don't restrict its node."""
    tied: frozenset[str] | None = None
    for kind, amount in pod.devices.items():
        devices = eligible(catalogue, kind, pod.requires)
        if not devices or not all(device.node for device in devices):
            continue
        nodes = frozenset(
            node
            for node in {device.node for device in devices}
            if most_served([device for device in devices if device.node == node], amount)
        )
        tied = nodes if tied is None else tied & nodes
    return tied


def why_no_devices(catalogue: DeviceCatalogue, kind: str, pod: Pod, nodes: Container[str]) -> Reason:
    """Return why a pod that may use ``nodes`` doesn't get the devices of a kind that it asks for."""
    text = why_none(catalogue, kind, pod.requires)
    if text is not None:
        return Reason(ReasonCode.NO_BACKEND, f"no backend: {text}")
    amount, matching = pod.devices[kind], eligible(catalogue, kind, pod.requires)
    totals: Counter[str] = Counter()
    for device in matching:
        totals[device.node] += device.count
    most = totals.pop("", 0) + max(totals.values(), default=0)
    if amount > most:
        return unsatisfiable(
            f"the backends that match have {most} {kind} for one pod, and it asks for {amount}: "
            "ask for less in each pod"
        )
    if not any(not device.node or device.node in nodes for device in matching):
        return Reason(ReasonCode.BUSY, f"busy: no node with {kind} that matches may be used now")
    backends = ", ".join(sorted({device.backend for device in matching})[:MOST_BACKENDS])
    return Reason(ReasonCode.BUSY, f"busy: {amount} {kind} not free on any backend that matches ({backends})")


def _too_few_devices(pods: Sequence[Pod], fitting: int, use: DeviceUse) -> Reason | None:
    """Return why a gang of ``pods`` waits for devices, if all requests for devices are equal and of one kind.

    ``fitting`` is how many pods would fit now, apart from devices.
    """
    requesting = [pod for pod in pods if pod.devices]
    alike = {(tuple(pod.devices.items()), tuple(sorted(pod.requires.items()))) for pod in requesting}
    if len(pods) < 2 or len(alike) != 1 or len(requesting[0].devices) != 1:
        return None
    ((kind, amount),) = requesting[0].devices.items()
    requires, without = requesting[0].requires, len(pods) - len(requesting)
    catalogue = use.catalogue
    never = too_few_devices_ever(catalogue, kind, amount, requires, len(pods), without)
    if never is not None:
        return never
    devices = eligible(catalogue, kind, requires)
    now = without + most_served(devices, amount, use)
    if now < len(pods):
        fit = busy(min(now, fitting), len(pods), ()).text
        return Reason(ReasonCode.BUSY, f"{fit}{_short_of_devices(kind, devices)}")
    return None


def too_few_devices_ever(
    catalogue: DeviceCatalogue,
    kind: str,
    amount: int,
    requires: Mapping[str, str],
    members: int,
    without: int = 0,
) -> Reason | None:
    """Return why the devices wouldn't suffice for a gang even if all were free, None if they would.

    Each of ``members`` asks for ``amount`` of ``kind``, except for those ``without`` devices.
    """
    devices = eligible(catalogue, kind, requires)
    ever = without + most_served(devices, amount)
    if ever >= members:
        return None
    fit = f"{ever} of {members} members would fit if nothing else ran"
    return unsatisfiable(f"{fit}{_short_of_devices(kind, devices)}")


def _short_of_devices(kind: str, devices: Sequence[Device]) -> str:
    names = ", ".join(sorted({device.backend for device in devices})[:MOST_BACKENDS])
    return f", short of {kind} (backends that match: {names})"


# Amounts.


def amount_text(name: str, amount: int) -> str:
    """Return an amount as people write it: ``2 cpu``, ``500m cpu``, ``4Gi memory``, ``2 nvidia.com/gpu``."""
    if name == CPU:
        return f"{amount // 1000} cpu" if amount % 1000 == 0 else f"{amount}m cpu"
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        binary = in_binary(amount)
        return (
            f"{amount} byte{'' if amount == 1 else 's'} of {name}" if binary is None else f"{binary} {name}"
        )
    return f"{amount} {name}"


def requests_text(requests: Resources) -> str:
    """Return one member's request, such as ``4 cpu + 1Gi memory``, without the pod slot that every member takes."""
    amounts = [amount_text(name, requests[name]) for name in sorted(requests) if name != PODS]
    return _listed(amounts, " + ") if amounts else "no resources"


def _listed(amounts: Sequence[str], between: str) -> str:
    """Return the first amounts as a list. The list ends with the number of amounts that it leaves out."""
    more = len(amounts) - MOST_RESOURCES
    return between.join([*amounts[:MOST_RESOURCES], *([f"{more} more resources"] if more > 0 else [])])
