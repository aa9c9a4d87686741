"""Gangs whose members differ in many ways, of which thousands cost no more than a step may take."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.planning import one_pass
from fluence_extender.kinds.job import Job
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import COMPLETION_INDEX, GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

POD_SET, REQUIRED = "kueue.x-k8s.io/podset-group-name", "kueue.x-k8s.io/podset-required-topology"
HOST = "kubernetes.io/hostname"


def gang_of_pod_sets(w: World, name: str, count: int, cpu: int, *, first: int = 0) -> None:
    """Create a gang in which each member is its own pod set. The first pod set has ``first`` more members."""
    for number in range(count + first):
        w.pod(
            f"{name}-{number:04}",
            labels={GROUP_LABEL: name},
            annotations={
                GROUP_SIZE_ANNOTATION: str(count + first),
                REQUIRED: HOST,
                POD_SET: f"s{max(number - first, 0)}",
            },
            requests=asks(cpu if number > first else 3000, 1),
            gates=(GATE,),
        )


@pytest.mark.parametrize("pod_sets", [47, 120, 256, 300])
def test_gang_of_many_pod_sets_is_planned_and_leaves_nothing_behind(world: MakeWorld, pod_sets: int) -> None:
    nodes = (node(f"n{number}", cpu=8000, gib=100, labels={HOST: f"n{number}"}) for number in range(2))
    w = world(*nodes)
    # The first pod set fits no node beside what runs, and the others do.
    w.foreign("n0", "a", requests=asks(5000, 1))
    w.foreign("n1", "b", requests=asks(5000, 1))
    gang_of_pod_sets(w, "sets", pod_sets, cpu=1, first=2)
    w.advance(1)
    (other,) = gang(w, "other", 100)
    w.advance(1)
    assert w.nodes_of(other) != [""]
    assert w.gang("sets").state is GangState.WAITING
    assert len(w.ledger.holdings) == 1


def test_pod_sets_that_find_no_node_together_hold_nothing(world: MakeWorld) -> None:
    nodes = (
        node(f"n{number}", cpu=8000, gib=1000, pods=500, labels={HOST: f"n{number}"}) for number in range(4)
    )
    w = world(*nodes)
    gang_of_pod_sets(w, "sets", 256, cpu=200)
    w.advance(2)
    assert w.gang("sets").state is GangState.WAITING
    assert not w.ledger.holdings


def test_elastic_gang_with_a_member_that_fits_nowhere_is_placed_in_several_steps(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_pass, "MOST_LOOKED_AT", 600)
    planned: list[int] = []
    plan = Places.plan

    def counted(self: Places, *arguments: object, **options: object) -> object:
        planned[-1] += 1
        return plan(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Places, "plan", counted)
    w = world(node("n0", cpu=64_000, gib=1000, pods=500), scheduling=False)
    step = w.driver.step

    def counting() -> None:
        planned.append(0)
        step()

    monkeypatch.setattr(w.driver, "step", counting)
    pods = gang(w, "elastic", *[10] * 59, 100_000, size=1)
    w.advance(3)
    assert sum(w.member(pod.uid).assignment is not None for pod in pods) == 59
    # Each look at the whole gang is one plan of all members, one of its size, and those of 600 // 60 members.
    assert max(planned) <= 12


def test_owner_of_many_pods_is_known_until_the_last_has_left(world: MakeWorld) -> None:
    w = world(node("n0", cpu=100))
    pods = [
        w.pod(
            f"p{number}",
            labels={GROUP_LABEL: "g"},
            annotations={GROUP_SIZE_ANNOTATION: "40", COMPLETION_INDEX: str(number)},
            owner=Owner("Job", f"j{number % 2}", f"job-{number % 2}", "batch/v1"),
            gates=(GATE,),
            requests=asks(1000, 1),
        )
        for number in range(40)
    ]
    w.advance(1)
    registry = w.controller.registry
    for pod in pods[:38:2]:
        w.cluster.remove(pod)
    w.advance(1)
    assert registry.gangs_of("default", "job-0")
    w.cluster.remove(pods[38])
    w.advance(1)
    assert not registry.gangs_of("default", "job-0")
    assert registry.gangs_of("default", "job-1")
    assert not w.controller.registry.workloads.all(Job)
