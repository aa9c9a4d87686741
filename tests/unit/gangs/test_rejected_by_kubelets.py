"""A pod that its kubelet has rejected is replaced on another node."""

from __future__ import annotations

from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Owner, Pod
from tests.core.invariants import check
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

NUMA = "TopologyAffinityError: Resources cannot be allocated with Topology locality"


def reject_on(w: World, name: str, seconds: int) -> int:
    """Play a kubelet that rejects all pods; return how many it has rejected."""
    rejected = 0
    for _ in range(seconds):
        for pod in w.cluster.pods():
            if pod.node == name and not pod.finished:
                w.change(pod, phase="Failed", rejection=NUMA)
                rejected += 1
        w.advance(1)
    return rejected


def test_job_whose_pods_one_kubelet_rejects_runs_on_another_node(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("ddp", 2, cpu=2000)
    w.advance(0.5 + BINDS_FOR)
    assert reject_on(w, "n0", 60) <= 3
    running = [pod for pod in w.jobs.pods(job) if not pod.finished]
    assert [pod.node for pod in running] == ["n1", "n1"]
    check(w)


def test_replacement_by_another_controller_goes_to_another_node(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    owner = Owner("ReplicaSet", "web", "uid-web", "apps/v1")
    made: list[Pod] = []
    rejected = 0
    for _ in range(60):
        if not made or w.cluster.pod(made[-1]).finished:
            made.append(w.pod(f"web-{len(made)}", owner=owner, gates=(GATE,)))
        rejected += reject_on(w, "n0", 1)
    assert rejected <= 1
    assert w.cluster.pod(made[-1]).node == "n1"
    check(w)
