"""kube-scheduler's own filters refuse by any fixed rules: a gang ends bound or with a reason, and doesn't thrash.

One of which members were bound before the last was refused is evicted whole when its time is over.

The rules stand for what we don't judge: affinity between pods, topology spread, volumes. They may allow no placement at
all, or one that we have to find by being refused.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.core.invariants import check
from tests.core.scheduler import LONGEST_BACKOFF, Rule
from tests.core.values import asks, node
from tests.core.world import World

LIMITS = Limits(bind_wait=5.0, excluded_for=8.0, back_off=20.0, completion=60.0)
LONG = 100.0
WATCHED = 600.0
"""Seconds within which each gang that waits must have rested and said why: its tries, each after a back-off."""

STEPS = 120
NODES = 4
MOST_ATTEMPTS_A_SECOND = 1 / LONGEST_BACKOFF + 0.05
"""For each pod: hardly more than kube-scheduler tries a pod that rests."""

MOST_STEERS_A_SECOND = 0.1
"""For each pod: the rests between the rounds of tries get longer."""


def forbidden(density: float, seed: int) -> Rule:
    """A fixed set of pairs of pods and nodes that are refused."""

    def rule(pod: Pod, where: str, _: object) -> bool:
        return random.Random(f"{seed} {pod.name} {where}").random() >= density

    return rule


def apart(pod: Pod, where: str, placed: Mapping[str, str]) -> bool:
    """Anti-affinity: members of one gang keep away from each other."""
    stem = pod.name.split("-")[0]
    return not any(there == where and name.startswith(f"{stem}-") for name, there in placed.items())


def even(pod: Pod, where: str, placed: Mapping[str, str]) -> bool:
    """Topology spread over nodes with maxSkew 1, all nodes counting as domains."""
    stem = pod.name.split("-")[0]
    mine = [there for name, there in placed.items() if name.startswith(f"{stem}-")]
    return mine.count(where) <= min(mine.count(f"n{number}") for number in range(NODES))


def steers(world: World) -> int:
    """How often a pod was told its node."""
    return sum(verb in ("nominate", "ungate") for verb, _ in world.cluster.calls)


RULES: dict[str, Rule] = {"apart": apart, "even": even}


@settings(deadline=None, max_examples=settings().max_examples // 5)
@given(
    st.integers(0, 2**16),
    st.sampled_from((0.0, 0.3, 0.6, 0.9, 1.0)),
    st.sets(st.sampled_from(sorted(RULES))),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
)
def test_gang_that_filters_refuse_ends_bound_or_with_a_reason(
    seed: int, density: float, named: set[str], sizes: list[int]
) -> None:
    world = World(*(node(f"n{number}", 4000) for number in range(NODES)), limits=LIMITS)
    try:
        world.scheduler.rules = [forbidden(density, seed), *(RULES[name] for name in sorted(named))]
        for number, size in enumerate(sizes):
            for member in range(size):
                world.pod(
                    f"g{number}-{member}",
                    labels={GROUP_LABEL: f"g{number}"},
                    annotations={GROUP_SIZE_ANNOTATION: str(size)},
                    requests=asks(1000, 1),
                )
        world.advance(LONG)
        before, steered = world.scheduler.attempts, steers(world)
        told: set[object] = set()
        for _ in range(STEPS):
            world.advance(WATCHED / STEPS)
            told |= {gang.key for gang in world.controller.registry.gangs.values() if gang.reason is not None}
        check(world)
        assert world.scheduler.attempts - before <= MOST_ATTEMPTS_A_SECOND * WATCHED * sum(sizes)
        assert steers(world) - steered <= MOST_STEERS_A_SECOND * WATCHED * sum(sizes)
        for gang in world.controller.registry.gangs.values():
            size = sizes[int(gang.key.name[1:])]
            bound = [bool(member.bound) for member in gang.alive()]
            assert all(bound) or (not any(bound) and gang.key in told), f"{gang.key}: {bound}, {gang.reason}"
            if density == 0.0 and size <= NODES:
                assert bound == [True] * size, f"{gang.key} could be placed: {gang.reason}"
    finally:
        world.close()
