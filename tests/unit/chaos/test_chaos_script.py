"""The chaos benchmark's script is a function of its seed, and its checks see what they are for."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.chaos.deeds import Accident, Create, Delete, Form, Hit
from benchmarks.chaos.script import script
from benchmarks.chaos.truth import (
    devices_held_twice,
    half_placed,
    overfull,
    refused_and_left,
    waiting_although_it_fits,
)
from benchmarks.chaos.witness import Witness
from benchmarks.chaos.workloads import WORKLOAD, manifests
from fluence_extender.model.names import ALLOCATION_ANNOTATION

GANG = Create("w1", Form.LABELLED, 2, 1000)


def member(number: int, node: str = "", phase: str = "Running", **status: str) -> dict[str, Any]:
    (one,) = [pod for index, pod in enumerate(manifests(GANG)) if index == number]
    one["metadata"]["uid"] = f"u{number}"
    one["spec"]["nodeName"] = node
    one["status"] = {"phase": phase if node else "Pending", **status}
    return one


def node(name: str, cpu: int = 4) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}, "conditions": ready},
    }


@pytest.mark.parametrize("replicas", [1, 2])
def test_same_seed_gives_the_same_script(replicas: int) -> None:
    assert script(7, 50, replicas) == script(7, 50, replicas)
    assert script(7, 50, replicas) != script(8, 50, replicas)


def test_script_has_as_many_disturbances_as_asked_and_deletes_only_what_was_created() -> None:
    deeds = [step.deed for played in script(3, 200, 2) for step in played.steps]
    assert sum(isinstance(deed, Accident) for deed in deeds) == 200
    assert {deed.replica for deed in deeds if isinstance(deed, Hit)} == {0, 1}
    created: set[str] = set()
    for deed in deeds:
        if isinstance(deed, Create):
            created.add(deed.name)
        elif isinstance(deed, Delete):
            assert deed.name in created
    assert {
        form for form in Form if any(isinstance(deed, Create) and deed.form is form for deed in deeds)
    } == set(Form)


@pytest.mark.parametrize("form", list(Form))
def test_every_pod_of_a_workload_carries_its_name(form: Form) -> None:
    for one in manifests(Create("w1", form, 3, 500, 2)):
        if one["kind"] != "PodGroup":
            template = one["spec"]["template"] if one["kind"] == "Job" else one
            assert template["metadata"]["labels"][WORKLOAD] == "w1"


def test_half_placed_gang_is_found_unless_it_was_whole() -> None:
    wanted = {"w1": GANG}
    assert half_placed(wanted, [member(0, "n0"), member(1)], set())
    assert half_placed(wanted, [member(0, "n0")], set())
    assert not half_placed(wanted, [member(0, "n0"), member(1)], {"w1"})
    assert not half_placed(wanted, [member(0), member(1)], set())
    assert not half_placed(wanted, [member(0, "n0"), member(1, "n0", "Succeeded")], set())


def test_gang_that_runs_on_without_a_refused_member_is_found() -> None:
    refused = member(1, "n0", "Failed", reason="OutOfcpu")
    assert refused_and_left({"w1": GANG}, [member(0, "n0"), refused])
    assert not refused_and_left({"w1": GANG}, [member(0), refused])


def test_room_that_is_given_twice_is_found() -> None:
    pods = [member(0, "n0"), member(1, "n0")]
    assert not overfull({"n0": node("n0", 2)}, pods, ())
    assert overfull({"n0": node("n0", 1)}, pods, ())
    assert not overfull({"n0": node("n0", 1)}, pods, {"n0"})
    for pod in pods:
        pod["metadata"]["annotations"][ALLOCATION_ANNOTATION] = (
            '{"devices": [{"path": "/cluster/a", "type": "qpu", "amount": 1}]}'
        )
    assert devices_held_twice(pods) == ["device /cluster/a is held by ['w1-0', 'w1-1']"]


def test_gang_that_waits_although_it_fits_is_found() -> None:
    waiting = [member(0), member(1)]
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, waiting)
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 1)}, waiting)
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, waiting[:1])


def test_gang_that_fits_only_in_parts_of_cores_waits_for_an_engine_that_counts_whole_ones() -> None:
    small = [member(0), member(1)]
    for pod in small:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 1)}, small)
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 1)}, small, 1000)
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, small, 1000)
    bound = member(0, "n0")
    bound["metadata"]["labels"][WORKLOAD] = "w2"
    bound["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, [*small, bound], 1000)
    bound["spec"]["schedulerName"] = "default-scheduler"
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, [*small, bound], 1000)
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 3)}, [*small, bound], 1000)


def test_gang_was_whole_once_all_were_bound_until_none_is() -> None:
    witness = Witness(api=None, sizes={"w1": 2})  # type: ignore[arg-type]
    witness.take("ADDED", member(0, "n0"))
    assert not witness.whole
    witness.take("MODIFIED", member(1, "n0"))
    witness.take("DELETED", member(1, "n0"))
    assert witness.whole == {"w1"}
    witness.take("DELETED", member(0, "n0"))
    assert not witness.whole
