"""A search for victims finds what trying each set by itself on the ledger finds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.preemption.search import (
    TRIALS,
    SearchResult,
    Victim,
    VictimQuery,
    choose,
    search,
    victims_of,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.plan import Planner
from tests.core.planning import planner_for
from tests.core.values import GIB, PodFields, node, pod
from tests.core.world import World

HIGH = GangKey("default", "high", Convention.LABEL)
PORT = (HostPort(8080),)
DEVICES_ASKED: tuple[dict[str, int], ...] = ({}, {}, {}, {"qpu": 1}, {"lane": 1})
DEVICES = """
resources:
  - {type: qpu, name: fez, count: 2}
  - {type: accelerator, name: chip0, parent: n0, with: [{type: lane, count: 1}]}
"""


def busy_world(dice: random.Random) -> World:
    """Return up to six nodes on which gangs of all kinds run."""
    nodes = [node(f"n{number}", 4000) for number in range(dice.randint(1, 6))]
    world = World(*nodes, ResourcesFile("test", DEVICES), scheduling=True)
    for number in range(dice.randint(1, 8)):
        size = dice.randint(1, 3)
        for member in range(size + dice.choice((0, 0, 1))):
            world.pod(
                f"low{number}-{member}",
                labels={GROUP_LABEL: f"low{number}"},
                annotations={GROUP_SIZE_ANNOTATION: str(size)},
                requests=asked(dice),
                priority=dice.randint(0, 3),
                gates=(GATE,),
                host_ports=PORT if dice.random() < 0.2 else (),
                devices={"qpu": 1} if dice.random() < 0.15 else {},
            )
    world.advance(4)
    return world


def asked(dice: random.Random) -> Resources:
    return Resources(
        {"cpu": dice.choice((500, 1000, 2000, 3000)), "memory": dice.randint(0, 3) * GIB, "pods": 1}
    )


def wanted(dice: random.Random) -> list[Pod]:
    like: PodFields = {
        "requests": asked(dice),
        "host_ports": PORT if dice.random() < 0.2 else (),
        "devices": dice.choice(DEVICES_ASKED),
    }
    mixed = dice.random() < 0.3
    return [
        pod(f"high-{number}", **((like | {"requests": asked(dice)}) if mixed else like))
        for number in range(dice.randint(1, 4))
    ]


def by_itself(world: World, planner: Planner, query: VictimQuery) -> tuple[Victim, ...]:
    """Try each set on a new copy of the ledger, pod by pod."""

    def fits(gone: frozenset[str]) -> bool:
        room = world.ledger.room().open_to(query.key).without(gone)
        return planner.find(room, query.demands, query.settled) is not None

    gangs = world.controller.registry.gangs.values()
    candidates = [
        victim
        for gang in gangs
        if gang.priority < query.priority
        and (query.usable is None or any(one.assignment for one in gang.alive()))
        for victim in victims_of(gang)
    ]
    return choose(candidates, fits, TRIALS[1]) or ()


def fits_there(world: World, query: VictimQuery, found: SearchResult) -> bool:
    """Return whether the places have enough capacity once the victims are gone, counted again."""
    left = {name: account.free for name, account in world.ledger.accounts.items()}
    for uid in (uid for victim in found.victims for uid in victim.uids):
        node = world.ledger.holdings[uid].assignment.node
        left[node] = left[node] + world.ledger.accounts[node].users[uid]
    nodes = {one.uid: one.node for one in found.places}
    for demand in query.demands:
        node = nodes[demand.pod.uid]
        left[node] = left[node] - demand.pod.requests
        if refusal(demand.pod, world.controller.eligibility.nodes[node]) is not None:
            return False
    return all(amount >= 0 for node in nodes.values() for amount in left[node].values())


@given(st.integers(0, 2**20))
def test_search_finds_what_trying_each_set_by_itself_finds(seed: int) -> None:
    dice = random.Random(seed)
    world = busy_world(dice)
    try:
        planner = planner_for(world.ledger, world.controller.eligibility)
        demands = [Demand(one) for one in wanted(dice)]
        usable = None if any(one.pod.devices for one in demands) else set(world.controller.eligibility.nodes)
        query = VictimQuery(HIGH, demands, (), frozenset(), 2, lambda _: True, usable, frozenset())
        version, held = world.ledger.version, dict(world.ledger.holdings)
        expected = by_itself(world, planner, query)
        found = search(world.controller.registry.gangs.values(), world.ledger.room(), planner, query)
        assert (found.victims if found is not None else ()) == expected
        assert found is None or fits_there(world, query, found)
        assert (world.ledger.version, dict(world.ledger.holdings)) == (version, held)
    finally:
        world.close()
