"""Two gangs that each fit never block each other, whatever they are named by and however their pods arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.core.invariants import check
from tests.core.named_gangs import NAMED_BY, fields, objects
from tests.core.values import asks, node
from tests.core.world import World


@dataclass(frozen=True)
class Side:
    """One of the two gangs: each member asks for ``cpu`` millicores; the objects come ``late`` or before the pods."""

    named_by: str
    size: int
    cpu: int
    gated: bool
    late: bool
    priority: int


sides = st.builds(
    Side,
    st.sampled_from(NAMED_BY),
    st.integers(1, 4),
    st.sampled_from([500, 1000, 1500, 2000]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 5]),
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    first=sides,
    second=sides,
    nodes=st.lists(st.sampled_from([1000, 2000, 3000]), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 0.1, 2.0]), min_size=8, max_size=8),
    refusals=st.integers(0, 2),
    restart=st.booleans(),
)
def test_one_runs_then_the_other_and_never_a_part_of_either(
    first: Side,
    second: Side,
    nodes: list[int],
    order: Any,
    pauses: list[float],
    refusals: int,
    restart: bool,
) -> None:
    gangs = {"alpha": first, "beta": second}
    gangs = {name: side for name, side in gangs.items() if fits(side, nodes)}
    w = World(*(node(f"n{number}", cpu=cpu, gib=64) for number, cpu in enumerate(nodes)))
    try:
        pods = arrive(w, gangs, order, pauses, refusals)
        if restart:
            w.restart()
        left = dict(gangs)
        for _ in gangs:
            w.advance(60)
            check(w)
            running = {name for name in left if bound(w, pods[name]) == left[name].size}
            assert all(bound(w, pods[name]) in (0, left[name].size) for name in left), (
                "a gang is bound in part"
            )
            assert running or not left, f"{set(left)} wait for each other: {reasons(w)}"
            for name in running:
                for pod in pods[name]:
                    w.cluster.remove(w.now(pod))
                del left[name]
        assert not left
    finally:
        w.close()


def fits(side: Side, nodes: list[int]) -> bool:
    """Whether the gang would fit by itself."""
    return sum(cpu // side.cpu for cpu in nodes) >= side.size


def arrive(
    w: World, gangs: dict[str, Side], order: Any, pauses: list[float], refusals: int
) -> dict[str, list[Pod]]:
    """Let the pods of both come in any order."""
    for node_name in {one.name for one in w.cluster.nodes()}:
        w.scheduler.refusing[node_name] = refusals
    for name, side in gangs.items():
        if not side.late:
            for one in objects(side.named_by, name, side.size):
                w.cluster.put(one)
    comers = [(name, number) for name, side in gangs.items() for number in range(side.size)]
    order.shuffle(comers)
    pods: dict[str, list[Pod]] = {name: [] for name in gangs}
    for (name, number), pause in zip(comers, pauses, strict=False):
        side = gangs[name]
        said = fields(side.named_by, name, side.size, number)
        said["gates"] = (GATE,) if side.gated else ()
        said["requests"] = asks(side.cpu, 1)
        said["priority"] = side.priority
        pods[name].append(w.pod(f"{name}-{number}", **said))
        w.advance(pause)
    for name, side in gangs.items():
        for one in objects(side.named_by, name, side.size):
            w.cluster.put(one)
    return pods


def bound(w: World, pods: list[Pod]) -> int:
    return sum(map(bool, w.nodes_of(*pods)))


def reasons(w: World) -> list[str]:
    return [
        f"{gang.key}: {gang.reason}"
        for gang in w.controller.registry.gangs.values()
        if gang.state is not GangState.BOUND
    ]
