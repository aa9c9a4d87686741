"""Gangs with claims, compared with an exact solver that allocates the devices itself.

What is placed gets its devices. Of what the solver can place, nearly all is placed. The rest is what kube-scheduler's
allocator, which takes the first devices, can't serve on any nodes in any order; a gang is told so as unsatisfiable.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import settings

from fluence_extender.devices.allocator import DeviceAllocator, choices, lens
from fluence_extender.devices.selectors import selects
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.plan import Planner
from tests.core.engine import FINE_EMBEDDED
from tests.property.claimed_gangs import can_be_placed, scene

SCENES = {"repeatable": 100, "nightly": 10_000}
MOST_GIVEN_UP = 0.001
MOST_MISSED = 0.05


@pytest.mark.timeout(7200)
def test_a_gang_with_claims_is_placed_if_its_devices_can_be_allocated() -> None:
    scenes = SCENES[settings.get_current_profile_name()]
    possible = 0
    missed: list[int] = []
    given_up: list[int] = []
    for seed in range(scenes):
        one = scene(seed)
        ledger, index = FINE_EMBEDDED.ledger(), EligibilityIndex()
        for node in one.nodes:
            index.put(node)
        ledger.load(one.nodes)
        fits = can_be_placed(one)
        possible += fits
        try:
            placed = Planner(ledger, index).plan([Demand(pod) for pod in one.pods], "gang")
        except GangRefused as refused:
            missed += [seed] if fits else []
            given_up += [seed] if fits and refused.reason.code is not ReasonCode.UNSATISFIABLE else []
            assert not ledger.allocations
        else:
            assert fits, f"scene {seed} can't be placed and was"
            _allocate(ledger, one.nodes, one.pods, {place.uid: place.node for place in placed}, seed)
        ledger.close()
    assert possible > scenes // 4
    assert len(given_up) <= MOST_GIVEN_UP * possible, (
        f"{len(given_up)} of {possible} given up: {given_up[:10]}"
    )
    assert len(missed) <= MOST_MISSED * possible, f"{len(missed)} of {possible} missed: {missed[:10]}"


def _allocate(
    ledger: Ledger, nodes: Sequence[Node], pods: Sequence[Pod], places: Mapping[str, str], seed: int
) -> None:
    """Allocate the devices of pods in a random order of those that are ungated, as kube-scheduler does."""
    dice = random.Random(seed)
    rooms = ledger.device_rooms
    present = {node.name: node for node in nodes}
    ungated: list[Pod] = []
    gated = list(pods)
    dice.shuffle(gated)
    while gated or ungated:
        ready = [pod for pod in gated if rooms.ungate(pod.uid)]
        ungated += ready
        gated = [pod for pod in gated if pod not in ready]
        assert ungated, f"scene {seed}: no pod may be ungated"
        served = ungated.pop(dice.randrange(len(ungated)))
        node = present[places[served.uid]]
        known = lens((served.claims,))
        view = known.view(node)
        after = DeviceAllocator(known, view, 100_000).after(view.start, served.claims)
        assert after is not None, f"scene {seed}: {served.name} is refused on {node.name}"
        seen = (
            device.name
            for device in node.devices
            if not device.held
            and any(selects(choice.selectors, device) is True for choice in choices(served.claims))
        )
        taken = {name for at, name in enumerate(seen) if after.taken >> at & 1}
        devices = (replace(device, held=device.held or device.name in taken) for device in node.devices)
        present[node.name] = node = replace(node, devices=tuple(devices))
        ledger.put_node(node)
        ledger.claims_changed(replace(served, claims=()))
