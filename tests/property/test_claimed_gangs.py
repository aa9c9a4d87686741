"""Gangs with claims, compared with two searches: one chooses nodes and devices, one nodes and the order of pods.

What is placed gets its devices, and fits by the first search. What isn't placed can't be: either it doesn't fit by the
first search, or by the second kube-scheduler's allocator, which takes the first devices, can't serve it on any nodes in
any order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import settings

from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused
from fluence_extender.room.ledger import Ledger
from tests.core.engine import EMBEDDED
from tests.core.planning import LedgerPlanner
from tests.core.verdicts import evaluated_at_once  # noqa: F401
from tests.property.claimed_gangs import (
    Scene,
    allocated,
    can_be_allocated,
    can_be_placed,
    scene,
)

pytestmark = pytest.mark.usefixtures("evaluated_at_once")

SCENES = {"repeatable": 200, "nightly": 10_000}
MOST_MISSED = 0.001


@pytest.mark.timeout(7200)
def test_a_gang_with_claims_is_placed_if_kube_scheduler_can_allocate_its_devices() -> None:
    scenes = SCENES[settings.get_current_profile_name()]
    possible = 0
    missed: list[int] = []
    for seed in range(scenes):
        one = scene(seed)
        ledger, index = EMBEDDED.ledger(), EligibilityIndex()
        for node in one.nodes:
            index.put(node)
        ledger.load(one.nodes)
        fits = can_be_placed(one)
        try:
            placed = LedgerPlanner(ledger, index).plan([Demand(pod) for pod in one.pods], "gang")
        except GangRefused:
            missed += [seed] if fits and can_be_allocated(one) else []
            assert not ledger.holdings
        else:
            possible += 1
            assert fits, f"scene {seed} can't be placed and was"
            _allocate(ledger, one, {place.uid: place.node for place in placed}, seed)
    possible += len(missed)
    assert possible > scenes // 5
    assert len(missed) <= MOST_MISSED * possible, f"{len(missed)} of {possible} missed: {missed[:10]}"


def _allocate(ledger: Ledger, one: Scene, places: Mapping[str, str], seed: int) -> None:
    """Let kube-scheduler serve the ungated pods in a random order; each node has one of them at most."""
    dice = random.Random(seed)
    rooms = ledger.claim_rooms
    ungated: list[Pod] = []
    gated = list(one.pods)
    dice.shuffle(gated)
    while gated or ungated:
        ready = [pod for pod in gated if rooms.ungate(pod.uid)]
        ungated += ready
        gated = [pod for pod in gated if pod not in ready]
        assert ungated, f"scene {seed}: no pod may be ungated"
        assert len({places[pod.uid] for pod in ungated}) == len(ungated), (
            f"scene {seed}: two at once on one node"
        )
        served = ungated.pop(dice.randrange(len(ungated)))
        place = places[served.uid]
        after = allocated(one, next(node for node in one.nodes if node.name == place), served.claims)
        assert after is not None, f"scene {seed}: {served.name} is refused on {place}"
        one = after
        ledger.put_node(next(node for node in one.nodes if node.name == place))
        ledger.claims_changed(replace(served, claims=()))
