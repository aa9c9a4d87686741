"""Preemption in arbitrary clusters: gangs are evicted whole or not at all, and never in vain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.core.invariants import check, check_at_rest
from tests.core.values import asks, node
from tests.core.world import World

EXAMPLES = settings().max_examples // 2
STEP = 0.4


@dataclass(frozen=True)
class Shape:
    """A gang: the millicores of each member; the last ``spare`` members are more than its size."""

    members: tuple[int, ...]
    spare: int
    priority: int
    preempts: bool = True


shapes = st.builds(
    Shape,
    st.lists(st.sampled_from([500, 1000, 2000, 3000]), min_size=1, max_size=4).map(tuple),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([0, 0, 5, 10]),
    st.sampled_from([True, True, True, False]),
)


def create(world: World, name: str, shape: Shape) -> list[Pod]:
    size = max(len(shape.members) - shape.spare, 1)
    return [
        world.pod(
            f"{name}-{number}",
            labels={GROUP_LABEL: name},
            annotations={GROUP_SIZE_ANNOTATION: str(size)},
            requests=asks(millicores, 1),
            gates=(GATE,),
            priority=shape.priority,
            preempts=shape.preempts,
        )
        for number, millicores in enumerate(shape.members)
    ]


def rest(world: World, seconds: float = 30.0) -> None:
    """Let terminating pods go, and let everything happen that follows from it."""
    for _ in range(int(seconds / 2)):
        world.advance(2)
        world.cluster.reap()
    world.advance(8)


def no_gang_is_left_below_its_size(world: World) -> None:
    for gang in world.controller.registry.gangs.values():
        bound = sum(1 for member in gang.alive() if member.pod.node)
        assert bound == 0 or bound >= gang.size, f"{gang.key}: {bound} of {gang.size} are left"


def evicted(world: World) -> set[str]:
    return {pod for verb, pod in world.cluster.calls if verb == "evict"}


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.integers(1, 3), st.lists(shapes, min_size=1, max_size=5), shapes)
def test_gang_preempts_exactly_if_it_fits_without_gangs_of_lower_priority(
    nodes: int, others: Sequence[Shape], last: Shape
) -> None:
    world = World(*(node(f"n{number}") for number in range(nodes)))
    bare = World(*(node(f"n{number}") for number in range(nodes)))
    try:
        names = {f"g{number}": shape for number, shape in enumerate(others)}
        for name, shape in names.items():
            create(world, name, shape)
            rest(world, 4)
        before = evicted(world)
        bound = {pod.name: pod.node for pod in world.cluster.pods() if pod.node}
        surplus = {
            f"{name}-{number}"
            for name, shape in names.items()
            for number in range(max(len(shape.members) - shape.spare, 1), len(shape.members))
        }
        mine = create(world, "last", last)
        rest(world)
        check_at_rest(world)
        no_gang_is_left_below_its_size(world)
        gone = {key.partition("/")[2] for key in evicted(world) - before}
        for name in gone:
            assert names[name.rpartition("-")[0]].priority < last.priority, f"{name} was evicted for no gang"
        placed = sum(1 for node_name in world.nodes_of(*mine) if node_name)
        needed = max(len(last.members) - last.spare, 1)
        assert not gone or placed >= needed, f"{gone} were evicted in vain: {world.gang('last').reason}"
        for pod_name, where in bound.items():
            kept = names[pod_name.rpartition("-")[0]].priority >= last.priority
            if kept:
                assert any(one.name == pod_name and one.node == where for one in world.cluster.pods())
                # With a uid of its own, because the worlds number their pods alike.
                kept_pod = next(one for one in world.cluster.pods() if one.name == pod_name)
                bare.cluster.put(replace(kept_pod, uid=f"kept-{kept_pod.uid}"))
        if last.preempts and not surplus:
            bare.advance(1)
            alone = create(bare, "last", last)
            bare.advance(6)
            assert placed >= needed or not all(bare.nodes_of(*alone)), world.gang("last").reason
    finally:
        world.close()
        bare.close()


events = st.lists(
    st.one_of(
        st.tuples(st.just("gang"), shapes),
        st.tuples(
            st.sampled_from(["reap", "restart", "delete", "fail", "wait", "guard", "unguard"]),
            st.integers(0, 9),
        ),
    ),
    min_size=4,
    max_size=25,
)


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.integers(1, 3), events)
def test_disturbed_preemptions_leave_no_gang_half_evicted(
    nodes: int, happenings: Sequence[tuple[str, object]]
) -> None:
    world = World(*(node(f"n{number}") for number in range(nodes)))
    try:
        for number, (what, detail) in enumerate(happenings):
            pods = [pod for pod in world.cluster.pods() if not pod.deleting]
            if isinstance(detail, Shape):
                create(world, f"g{number}", detail)
            elif what == "reap":
                world.cluster.reap()
            elif what == "restart":
                world.restart()
            elif what == "delete" and pods:
                label = pods[int(str(detail)) % len(pods)].labels[GROUP_LABEL]
                for pod in pods:
                    if pod.labels[GROUP_LABEL] == label:
                        world.cluster.delete(pod)
            elif what == "fail":
                world.cluster.fail("evict", times=int(str(detail)) % 3)
            elif what == "guard" and pods:
                world.cluster.protected.add(pods[int(str(detail)) % len(pods)].uid)
            elif what == "unguard":
                world.cluster.protected.clear()
            world.advance(STEP)
            check(world)
        world.cluster.protected.clear()
        rest(world, 40)
        check_at_rest(world)
        if not any(what == "restart" for what, _ in happenings):
            no_gang_is_left_below_its_size(world)
        assert not world.drifted, world.drifted
    finally:
        world.close()
