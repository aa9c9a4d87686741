"""The service as the verbs and the state API see it, in a world in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fluence_extender.api.gangs import Allocation
from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.http.scheduler.port import Anywhere, Nowhere, On, RequestedPod, Undecided
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.core.engine import EMBEDDED
from tests.core.state_api import drawn, every
from tests.core.values import GIB, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import gang

POOL = ResourcesFile("test", "resources: [{type: simulator, name: sv1, count: 3, attributes: {vendor: aws}}]")


@pytest.fixture
def w() -> Iterator[World]:
    made = World(node("n0", extra={"nvidia.com/gpu": 2}), node("n1"), POOL, scheduling=False)
    yield made
    made.close()


def test_a_foreign_pod_may_run_anywhere(w: World) -> None:
    assert w.placements.locate(RequestedPod("default", "p", "u", "default-scheduler")) == Anywhere()


def test_a_pod_that_was_not_seen_yet_has_to_wait(w: World) -> None:
    assert w.placements.locate(RequestedPod("default", "p", "u", "fluence")) == Undecided(
        "the pod has not been seen yet"
    )


def test_the_location_is_the_planned_node_and_then_the_bound_one(w: World) -> None:
    one = gang(w, "g", 1000)[0]
    assert w.placements.locate(w.asked(one)) == Undecided("the gang is about to be placed")
    w.advance(1)
    assert w.placements.locate(w.asked(one)) == On("n0")
    w.run(w.placements.bind(w.asked(one), "n0"))
    w.change(node("n0"), unschedulable=True)
    w.advance(1)
    assert w.placements.locate(w.asked(one)) == On("n0")


def test_a_look_up_changes_nothing(w: World) -> None:
    one, lonely = gang(w, "g", 1000)[0], gang(w, "h", 1000, size=2)[0]
    w.advance(1)
    allocations, version = dict(w.ledger.holdings), w.ledger.version
    answers = {str(w.placements.locate(w.asked(pod))) for _ in range(50) for pod in (one, lonely)}
    assert len(answers) == 2
    assert (dict(w.ledger.holdings), w.ledger.version) == (allocations, version)


def test_the_reason_is_that_of_the_gang(w: World) -> None:
    one = gang(w, "g", 1000, size=3)[0]
    w.advance(1)
    assert w.placements.locate(w.asked(one)) == Nowhere("waiting for members (1 of 3 exist)")


def test_gangs_are_listed_with_state_reason_and_members(w: World) -> None:
    gang(w, "b", 9000)
    pods = gang(w, "a", 1000, 1000, devices={"simulator": 1})
    w.advance(1)
    first, second = every(w.state.gangs(False, EVERYTHING))
    assert (first.namespace, first.name, first.state, first.size) == ("default", "a", "committed", 2)
    assert [(one.pod, one.uid, one.node, one.backend) for one in first.members] == [
        (pod.name, pod.uid, "n0", "sv1") for pod in pods
    ]
    assert (second.state, second.reason) == (
        "waiting",
        "unsatisfiable: no node has 9 cpu (the largest has 4 cpu)",
    )


def test_allocations_show_what_each_pod_holds(w: World) -> None:
    one = w.pod("p", gates=(GATE,), requests=asks(1500, 2, nvidia_com__gpu=1), devices={"simulator": 2})
    w.advance(1)
    assert every(w.state.allocations()) == [
        Allocation(
            "default", "p", one.uid, "n0", 1.5, 2 * GIB, 1, "sv1", {"simulator": 2}, (), "p", "committed"
        )
    ]


def test_eviction_may_not_leave_a_gang_below_its_size(w: World) -> None:
    pods = gang(w, "g", 500, 500, 500, size=2)
    w.advance(1)
    w.run(_bind_all(w, pods))
    uids = [pod.uid for pod in pods]
    assert w.placements.may_evict(uids[:1])
    assert not w.placements.may_evict(uids[:2])
    assert w.placements.may_evict(uids)
    assert w.placements.may_evict(["foreign"])


async def _bind_all(w: World, pods: list[Pod]) -> None:
    for pod in pods:
        await w.cluster.bind(w.now(pod), "n0", {})


def test_graph_is_the_cluster_in_whole_units(w: World) -> None:
    names = {one["metadata"]["name"] for one in drawn(w)["graph"]["nodes"]}
    assert {"cluster", "n0", "n1", "sv1"} <= names
    cores = [one["metadata"] for one in drawn(w)["graph"]["nodes"] if one["metadata"]["type"] == "core"]
    assert sum(one["size"] for one in cores) == 8


def test_service_is_ready_when_all_is_listed_and_replayed(w: World) -> None:
    missing = ["waiting for the list of pod"]
    controller = Controller(EMBEDDED.ledger())
    placements = LivePlacements(controller, Driver(controller, w.cluster), lambda: missing[0])
    assert placements.not_ready_reason == "waiting for the list of pod"
    missing[0] = ""
    assert (
        placements.not_ready_reason
        == "the cluster has been listed; the pods that run there are being replayed"
    )
    controller.start()
    assert placements.not_ready_reason == ""


def test_a_placed_gang_shows_why_kube_scheduler_refuses_a_member(w: World) -> None:
    first = gang(w, "g", 1000, 1000)[0]
    w.advance(1)
    w.change(first, refusal="no PersistentVolumeClaim data")
    (view,) = every(w.state.gangs(False, EVERYTHING))
    assert view.reason == "placed; kube-scheduler refuses g-0: no PersistentVolumeClaim data"
