"""Small random gangs with rules about other pods against a search that tries all nodes in all orders."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, Requirement, SpreadRule
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.pod_rules import PodRules
from fluence_extender.room.ledger import Ledger
from tests.core.planning import LedgerPlanner
from tests.core.values import node, pod

KEYS = ("zone", "rack")
SEEDS = 400


def selects(app: str) -> tuple[Requirement, ...]:
    return (Requirement("app", "In", (app,)),)


def gang(dice: random.Random, keys: Sequence[str]) -> list[Pod]:
    """Equal members with some rules."""
    rules = {
        "apart": [PodTerm(dice.choice(keys), selects("a"), ("default",))] * (dice.random() < 0.3),
        "near": [PodTerm(dice.choice(keys), selects("a"), ("default",))] * (dice.random() < 0.4),
    }
    spread = [SpreadRule(dice.choice(keys), dice.randint(1, 2), selects("a"))] * (dice.random() < 0.5)
    return [
        pod(
            f"a{at}",
            1000,
            labels={"app": "a"},
            apart=tuple(rules["apart"]),
            near=tuple(rules["near"]),
            spread=tuple(spread),
        )
        for at in range(dice.randint(2, 5))
    ]


def exists(pods: Sequence[Pod], nodes: Sequence[Node], ledger: Ledger) -> bool:
    """Whether the equal members can be placed one after the other, tried with every node for each."""
    names = [one.name for one in nodes]
    by_name = {one.name: one for one in nodes}
    room = [ledger.accounts[one].free["cpu"] // 1000 for one in names]
    seen: set[tuple[int, ...]] = set()

    def rest(placed: tuple[int, ...]) -> bool:
        if len(placed) == len(pods):
            return True
        state = tuple(sorted(placed))
        if state in seen:
            return False
        seen.add(state)
        rules = PodRules([pods[0]], names, by_name, ledger.kept_apart)
        for row in placed:
            rules.put(0, row)
        allowed = rules.allowed(0).tolist()
        return any(
            may and placed.count(row) < room[row] and rest((*placed, row)) for row, may in enumerate(allowed)
        )

    return rest(())


def test_gang_is_placed_where_some_order_of_kube_scheduler_would_place_it() -> None:
    missed = []
    for seed in range(SEEDS):
        dice = random.Random(seed)
        one_label = dice.random() < 0.6
        nodes = [
            node(f"n{at}", 1000 * dice.randint(0, 3), labels={key: str(dice.randint(0, 2)) for key in KEYS})
            for at in range(dice.randint(1, 5))
        ]
        ledger, index = Ledger(), EligibilityIndex()
        ledger.load(nodes)
        for one in nodes:
            index.put(one)
        for at in range(dice.randint(0, 2)):
            where = dice.choice(nodes).name
            ledger.put_foreign(
                pod(f"f{at}", 0, 0, scheduler="x", node=where, labels={"app": dice.choice("ab")})
            )
        pods = gang(dice, KEYS[:1] if one_label else KEYS)
        possible = exists(pods, nodes, ledger)
        found = LedgerPlanner(ledger, index).find([Demand(one) for one in pods], "gang")
        assert possible or found is None, seed
        if possible and found is None:
            missed.append((seed, one_label))
    assert not [seed for seed, one_label in missed if one_label]
    assert len(missed) <= SEEDS // 100, missed
