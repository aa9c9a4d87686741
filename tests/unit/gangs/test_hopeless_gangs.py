"""A gang that can never fit is told so from its first member on, and for as long as that is so."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import HostPort, Owner, Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement import partial_gangs
from fluence_extender.placement.reasons import never_a_place
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang
from tests.unit.gangs.test_job_status import said

UNLESS = ", unless members that are still to come ask for less than those that exist"
TWO_FIT = f"unsatisfiable: 2 of 5 members would fit if nothing else ran, short of cpu{UNLESS}"
TOO_LARGE = "unsatisfiable: no node has 8 cpu (the largest has 4 cpu)"


def reason(w: World, name: str = "g") -> Reason:
    found = w.gang(name).reason
    assert found is not None
    return found


def another(w: World, number: int, cpu: int, size: int, **fields: Any) -> Pod:
    """Create one more member of gang ``g``."""
    return w.pod(
        f"g-{number}",
        labels={GROUP_LABEL: "g"},
        annotations={GROUP_SIZE_ANNOTATION: str(size)},
        gates=(GATE,),
        requests=asks(cpu, 1),
        **fields,
    )


def test_first_member_is_told_and_further_ones_change_nothing(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 2000, size=5)
    w.advance(3)
    assert (reason(w).code, reason(w).text) == (ReasonCode.UNSATISFIABLE, TWO_FIT)
    for number in range(1, 4):
        another(w, number, 2000, 5)
        w.advance(3)
        assert reason(w).text == TWO_FIT
    assert w.told() == [f"gang default/g: {TWO_FIT}"]
    another(w, 4, 2000, 5)
    w.advance(3)
    assert reason(w).text == TWO_FIT.removesuffix(UNLESS)


def test_gang_waits_for_its_members_once_a_node_comes(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 2000, size=5)
    w.advance()
    w.cluster.put(node("n1", cpu=6000))
    w.advance()
    assert reason(w).text == "waiting for members (1 of 5 exist)"
    w.cluster.remove(node("n1"))
    w.advance()
    assert reason(w).text == TWO_FIT


def test_what_runs_now_is_not_counted(world: MakeWorld) -> None:
    w = world(node("n0", cpu=10_000), scheduling=False)
    w.foreign("n0", "runs", requests=asks(9000))
    gang(w, "g", 2000, size=5)
    w.advance()
    assert reason(w).text == "waiting for members (1 of 5 exist)"


def test_member_too_large_for_any_node_is_named_whatever_comes(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 100, 8000, size=5)
    w.advance()
    assert reason(w).text == TOO_LARGE


def test_larger_members_do_not_change_the_claim(world: MakeWorld) -> None:
    """A driver beside its executors: all members are taken to ask for as little as any that exists."""
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 2000, 4000, size=5)
    w.advance()
    assert reason(w).text == TWO_FIT


def test_gang_is_placed_if_its_last_members_ask_for_less(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 2000, size=5)
    w.advance()
    assert reason(w).code is ReasonCode.UNSATISFIABLE
    pods += [another(w, number, 500, 5) for number in range(1, 5)]
    w.advance(5)
    assert all(w.nodes_of(*pods))


def test_members_of_different_kinds_have_the_least_of_each_resource_in_common(world: MakeWorld) -> None:
    w = world(node("n0", cpu=4000, gib=4), scheduling=False)
    for number, (cpu, gib) in enumerate([(2000, 1), (1000, 2)]):
        w.pod(
            f"g-{number}",
            labels={GROUP_LABEL: "g"},
            annotations={GROUP_SIZE_ANNOTATION: "5"},
            gates=(GATE,),
            requests=asks(cpu, gib),
        )
    w.advance()
    fit = "unsatisfiable: 4 of 5 members would fit if nothing else ran, short of"
    assert reason(w).text == f"{fit} cpu, memory{UNLESS}"


def test_members_with_a_host_port_need_a_node_each(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    gang(w, "g", 100, size=3, host_ports=(HostPort(8080),))
    w.advance()
    assert reason(w).text.startswith("unsatisfiable: 2 of 3 members would fit")


def test_devices_that_do_not_suffice_are_told_at_once(world: MakeWorld) -> None:
    w = world(
        node("n0", cpu=64_000),
        ResourcesFile("test", "resources: [{type: qpu, name: a}, {type: qpu, name: b}]"),
        scheduling=False,
    )
    gang(w, "g", 100, size=3, devices={"qpu": 1})
    gang(w, "h", 100, size=3, devices={"qubit": 1})
    w.advance()
    fit = "unsatisfiable: 2 of 3 members would fit if nothing else ran"
    assert reason(w).text == f"{fit}, short of qpu (backends that match: a, b){UNLESS}"
    assert reason(w, "h").code is ReasonCode.NO_BACKEND


def test_members_that_name_another_scheduler_are_told_as_well(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 2000, size=5)
    another(w, 1, 2000, 5, scheduler="default-scheduler")
    w.advance()
    assert reason(w).text == f"{TWO_FIT}; 1 more names scheduler default-scheduler, not fluence"


def test_request_that_can_not_be_read_is_not_judged(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 8000, size=5, problem="cpu is 'x'")
    w.advance()
    assert reason(w).text == "waiting for members (1 of 5 exist)"


def test_job_and_pod_group_show_it_before_all_pods_exist(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "pg", "uid", 5), scheduling=False)
    w.cluster.put(Job("default", "j", "uid-j", 5))
    owner = Owner("Job", "j", "uid-j", "batch/v1")
    another(w, 0, 2000, 5, owner=owner)
    w.pod("p", group="pg", gates=(GATE,), requests=asks(2000))
    w.advance(5)
    assert w.cluster.reports["default", "pg"] == (False, "Unsatisfiable", TWO_FIT)
    assert said(w, "j") == TWO_FIT
    w.cluster.put(node("n1", cpu=6000))
    w.advance(5)
    assert said(w, "j") == ""


def test_gangs_that_are_alike_are_judged_once(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[object] = []

    def counting(*asked: Any) -> Reason | None:
        judged.append(asked)
        return never_a_place(*asked)

    monkeypatch.setattr(partial_gangs, "never_a_place", counting)
    w = world(node("n0"), scheduling=False)
    for number in range(40):
        another(w, number, 2000, 700)
        w.advance(0.1)
    for number in range(20):
        gang(w, f"other-{number}", 2000, size=700)
        w.advance(0.1)
    assert reason(w).text.startswith("unsatisfiable: 2 of 700 members")
    assert len(judged) == 2


@pytest.mark.parametrize("kinds", [1, partial_gangs.MOST_KINDS, partial_gangs.MOST_KINDS + 1])
def test_largest_size_with_many_kinds_is_answered(world: MakeWorld, kinds: int) -> None:
    w = world(*(node(f"n{number}") for number in range(50)), scheduling=False)
    gang(w, "g", *range(1, kinds + 1), size=1_000_000)
    w.advance()
    judged = kinds <= partial_gangs.MOST_KINDS
    assert reason(w).code is (ReasonCode.UNSATISFIABLE if judged else ReasonCode.WAITING_FOR_MEMBERS)
