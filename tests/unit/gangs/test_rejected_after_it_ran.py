"""A pod that has run isn't one that its kubelet has rejected: its gang was whole, and the others run on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.model.gang import GangState
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from tests.core.invariants import check
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld

NPU = "example.com/npu"
GONE = "UnexpectedAdmissionError: no devices of example.com/npu"


@pytest.mark.parametrize("rejection", [GONE, ""], ids=["rejected", "failed"])
def test_other_members_run_on_while_a_node_comes_back_without_its_devices(
    rejection: str, world: MakeWorld
) -> None:
    nodes = [
        replace(node(name), allocatable=node(name).allocatable + Resources({NPU: 8})) for name in ("n0", "n1")
    ]
    w = world(*nodes)
    requests = asks(1000) + Resources({NPU: 8})
    job = w.jobs.submit("a", 2, requests=requests)
    w.advance(2)
    first, second = w.jobs.pods(job)
    for pod in (first, second):
        w.change(pod, phase="Running")
    w.advance(150)
    assert w.gang("a").state is GangState.BOUND
    lost = next(one for one in nodes if one.name == first.node)
    w.cluster.put(replace(lost, allocatable=lost.allocatable - Resources({NPU: 8})))
    w.change(w.cluster.pod(first), phase="Failed", rejection=rejection)
    w.advance(5)
    reason = w.gang("a").reason
    assert not w.cluster.pod(second).deleting
    assert not w.cluster.job(job).suspended
    assert reason is None or reason.code is not ReasonCode.UNSATISFIABLE, reason
    w.cluster.put(lost)
    w.advance(10)
    assert not w.cluster.pod(second).deleting
    assert sorted(w.jobs.nodes(job)) == ["n0", "n1"]
    check(w)
