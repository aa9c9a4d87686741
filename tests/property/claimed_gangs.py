"""Random small clusters with devices, each with a gang that claims some, and a solver that decides whether it fits.

Half of the clusters are built around a placement, so that the gang needs nearly all of their devices.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import sub

from ortools.sat.python import cp_model

from fluence_extender.devices.allocator import DeviceAllocator, choices, lens
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import (
    AttributeConstraint,
    Choice,
    Claims,
    ClaimSpec,
    DeviceRequest,
)
from fluence_extender.model.devices import DeviceId, NodeDevice
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.core.values import node, pod

DRIVER = "gpu.example.com"
MODEL, NUMA = f"{DRIVER}/model", f"{DRIVER}/numa"
MODELS = ("a100", "h100", "l40")


@dataclass(frozen=True, slots=True)
class Scene:
    """One cluster and one gang."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]

    @property
    def held(self) -> frozenset[DeviceId]:
        """The devices that are allocated."""
        return frozenset(device.id for place in self.nodes for device in place.devices if device.held)


def scene(seed: int) -> Scene:
    """Make the scene with this number."""
    dice = random.Random(seed)
    nodes = tuple(_node(dice, f"n{number}") for number in range(dice.randint(1, 4)))
    if dice.random() < 0.6:
        some = _fitting(dice, nodes)
    else:
        kinds = [_claims(dice) for _ in range(dice.randint(1, 4))]
        some = [dice.choice(kinds) for _ in range(dice.randint(1, 8))]
    pods = (pod(f"p{at}", 10, 0, claims=claims, gates=(GATE,)) for at, claims in enumerate(some))
    return Scene(nodes, tuple(pods))


def _fitting(dice: random.Random, nodes: Sequence[Node]) -> list[Claims]:
    """Return claims that use up most of the devices, if they get the right ones."""
    some: list[Claims] = []
    for place in nodes:
        free = list(place.devices)
        dice.shuffle(free)
        left = dict(place.counters)
        while free and dice.random() < 0.95 and len(some) < 14:
            first = free.pop()
            if any(left[counter] < amount for counter, amount in first.consumes.items()):
                continue
            for counter, amount in first.consumes.items():
                left[counter] -= amount
            alike = [one for one in free if one.attributes == first.attributes and not one.consumes]
            others = alike[: dice.choice((0, 0, 1, 3))]
            free = [one for one in free if one not in others]
            model = first.attributes[MODEL] if dice.random() < 0.75 else ""
            bound = (AttributeConstraint(NUMA),) if dice.random() < 0.25 else ()
            some.append((ClaimSpec((DeviceRequest("r", (_of(str(model), 1 + len(others)),)),), bound),))
    dice.shuffle(some)
    return some or [_claims(dice)]


def _node(dice: random.Random, name: str) -> Node:
    """A node with devices of one model, or of several in any order, or with devices that are whole or in parts."""
    count = dice.choice((2, 4, 4, 8))
    if dice.random() < 0.15:
        return _parted(name, dice.randint(1, 2))
    own = dice.choice(MODELS)
    models = [own] * count if dice.random() < 0.6 else [dice.choice(MODELS) for _ in range(count)]
    devices = (
        NodeDevice(DRIVER, name, f"gpu-{number}", {MODEL: model, NUMA: 2 * number // count})
        for number, model in enumerate(models)
    )
    return _with(name, tuple(devices))


def _parted(name: str, gpus: int) -> Node:
    devices: list[NodeDevice] = []
    for gpu in range(gpus):
        counter = (DRIVER, name, f"gpu-{gpu}", "memory")
        for model, size, number in (("h100", 4, 1), ("half", 2, 2), ("part", 1, 4)):
            devices += [
                NodeDevice(
                    DRIVER, name, f"{gpu}-{model}-{at}", {MODEL: model, NUMA: gpu}, consumes={counter: size}
                )
                for at in range(number)
            ]
    return _with(name, tuple(devices), gpus)


def _with(name: str, devices: tuple[NodeDevice, ...], gpus: int = 0) -> Node:
    plain = node(name)
    counters = {(DRIVER, name, f"gpu-{gpu}", "memory"): 4 for gpu in range(gpus)}
    return Node(name, allocatable=plain.allocatable, devices=devices, counters=counters)


def _choice(dice: random.Random, name: str, models: Sequence[str]) -> Choice:
    model = dice.choice((*MODELS, *models))
    return _of(model, dice.choice((1, 1, 1, 2, 2, 4)), name)


def _of(model: str, count: int, name: str = "") -> Choice:
    selectors = (f'device.attributes["{DRIVER}"].model == "{model}"',) if model else ()
    return Choice("gpus", selectors, count, name=name)


def _claims(dice: random.Random, models: Sequence[str] = (*MODELS, "half", "part", "", "")) -> Claims:
    if dice.random() < 0.1:
        choices = tuple(_choice(dice, f"s{number}", models) for number in range(2))
        return (ClaimSpec((DeviceRequest("gpu", choices),)),)
    requests = tuple(
        DeviceRequest(f"r{at}", (_choice(dice, "", models),)) for at in range(dice.choice((1, 1, 1, 2)))
    )
    alike = (AttributeConstraint(NUMA),) if dice.random() < 0.25 else ()
    return (ClaimSpec(requests, alike),)


def allocated(one: Scene, node: Node, claims: Claims) -> Scene | None:
    """Return the scene once kube-scheduler has allocated a pod's claims on a node, None where it can't."""
    known = lens((claims,))
    view = known.view(node)
    after = DeviceAllocator(known, view, 100_000).after(view.start, claims)
    if after is None:
        return None
    parts = [
        device.id
        for device in node.devices
        if not device.held and any(selects(choice.selectors, device) is True for choice in choices(claims))
    ]
    taken = {name for at, name in enumerate(parts) if after.taken >> at & 1}
    places = tuple(_with_held(place, taken) for place in one.nodes)
    return replace(one, nodes=places)


def _with_held(node: Node, taken: Collection[DeviceId]) -> Node:
    devices = (replace(device, held=device.held or device.id in taken) for device in node.devices)
    return replace(node, devices=tuple(devices))


def can_be_allocated(one: Scene) -> bool:
    """Return whether kube-scheduler serves all pods on some nodes in some order: all of both are tried."""
    kinds = tuple({pod.claims: None for pod in one.pods})
    wanted = tuple(sum(pod.claims == claims for pod in one.pods) for claims in kinds)
    left = {wanted}
    for place in one.nodes:
        here = _servable(replace(one, nodes=(place,)), kinds, wanted)
        less = (tuple(map(sub, have, some)) for have in left for some in here)
        left = {some for some in less if min(some) >= 0}
    return (0,) * len(kinds) in left


def _servable(one: Scene, kinds: Sequence[Claims], most: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return which numbers of pods of the kinds are served, up to ``most`` of each."""
    begun = (0,) * len(kinds)
    found, new = {begun}, [(one, begun)]
    seen: set[object] = set()
    while new:
        now, counts = new.pop()
        for at, claims in enumerate(kinds):
            more = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
            for place in now.nodes if more[at] <= most[at] else ():
                after = allocated(now, place, claims)
                if after is not None and (after.held, more) not in seen:
                    seen.add((after.held, more))
                    found.add(more)
                    new.append((after, more))
    return found


def can_be_placed(one: Scene) -> bool:
    """Return whether some choice of nodes and devices serves all pods, whoever makes it."""
    model = cp_model.CpModel()
    taken: dict[DeviceId, list[cp_model.IntVar]] = {}
    for number, member in enumerate(one.pods):
        here = {place.name: model.new_bool_var(f"{number} on {place.name}") for place in one.nodes}
        model.add_exactly_one(here.values())
        for place in one.nodes:
            for claim in member.claims:
                _serve(model, place, claim, here[place.name], taken)
    devices = {device.id: device for place in one.nodes for device in place.devices}
    for uses in taken.values():
        model.add_at_most_one(uses)
    for place in one.nodes:
        for counter, amount in place.counters.items():
            used = [
                device.consumes[counter] * use
                for device in devices.values()
                if counter in device.consumes
                for use in taken.get(device.id, ())
            ]
            model.add(sum(used) <= amount)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _serve(
    model: cp_model.CpModel,
    place: Node,
    claim: ClaimSpec,
    here: cp_model.IntVar,
    taken: dict[DeviceId, list[cp_model.IntVar]],
) -> None:
    """Let the claim have its devices on the node if its pod is ``here``."""
    by_value: dict[object, list[cp_model.IntVar]] = {}
    for request in claim.requests:
        ways = [model.new_bool_var("") for _ in request.choices]
        model.add(sum(ways) == here)
        for way, choice in zip(ways, request.choices, strict=True):
            uses = []
            for device in _selected(choice, place.devices):
                use = model.new_bool_var("")
                uses.append(use)
                taken.setdefault(device.id, []).append(use)
                by_value.setdefault(device.attributes[NUMA], []).append(use)
            model.add(sum(uses) == choice.count * way)
    if claim.constraints:
        sides = {value: model.new_bool_var("") for value in by_value}
        model.add(sum(sides.values()) <= 1)
        for value, uses in by_value.items():
            for use in uses:
                model.add_implication(use, sides[value])


def _selected(choice: Choice, devices: Sequence[NodeDevice]) -> Iterator[NodeDevice]:
    """Yield the devices of the model that a choice selects, read from its expression without evaluating it."""
    for device in devices:
        if all(f'"{device.attributes[MODEL]}"' in selector for selector in choice.selectors):
            yield device
