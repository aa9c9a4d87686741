"""A user can write any annotation, gate, nomination and node name on their own pods: nothing is gained by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    ATTRIBUTE_PREFIX,
    BACKEND_ANNOTATION,
    REQUIRE_PREFIX,
)
from fluence_extender.model.pod import Pod
from tests.core.invariants import check
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

DEVICES = ResourcesFile(
    "test",
    "resources: [{type: qpu, name: a, attributes: {vendor: x}}, {type: qpu, name: b, attributes: {vendor: y}}]",
)


def stamp(path: str, amount: int = 1, kind: str = "qpu") -> str:
    return json.dumps({"devices": [{"path": path, "type": kind, "amount": amount}]})


def forge(w: World, pod: Pod, **annotations: str) -> None:
    named = {
        f"fluence.flux-framework.org/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    w.change(pod, annotations={**w.now(pod).annotations, **named})


def backends(w: World, *pods: Pod) -> list[str]:
    return [
        w.ledger.holdings[pod.uid].assignment.backend if pod.uid in w.ledger.holdings else "" for pod in pods
    ]


def quantum(w: World, name: str, **fields: Any) -> Pod:
    (pod,) = gang(w, name, 500, devices={"qpu": 1}, **fields)
    w.advance(3)
    return pod


@pytest.mark.parametrize("victim", [0, 1])
def test_stamp_that_names_anothers_device_gives_no_device_away_twice(world: MakeWorld, victim: int) -> None:
    w = world(node("n0"), DEVICES)
    pods = [quantum(w, "first"), quantum(w, "second")]
    assert sorted(backends(w, *pods)) == ["a", "b"]
    taken = backends(w, *pods)[victim]
    forge(w, pods[1 - victim], allocation=stamp(f"/cluster/{taken}"), backend=taken)
    w.restart()
    assert sorted(backends(w, *pods)) == ["a", "b"]
    waits = quantum(w, "waits")
    assert not w.now(waits).node
    check(w)


def test_stamp_of_a_running_pod_counts_for_nothing_while_the_service_runs(world: MakeWorld) -> None:
    w = world(node("n0"), DEVICES)
    pods = [quantum(w, "first"), quantum(w, "second")]
    before = backends(w, *pods)
    forge(w, pods[0], allocation=stamp(f"/cluster/{before[1]}"), backend=before[1])
    w.advance(20)
    assert backends(w, *pods) == before
    assert w.drifted == []


def test_stamp_cannot_choose_what_the_pod_may_not_use(world: MakeWorld) -> None:
    w = world(node("n0"), DEVICES)
    pod = w.pod(
        "bound",
        node="n0",
        requests=asks(500),
        devices={"qpu": 1},
        annotations={f"{REQUIRE_PREFIX}vendor": "y", ALLOCATION_ANNOTATION: stamp("/cluster/a")},
    )
    w.restart()
    assert backends(w, pod) == ["b"]


@pytest.mark.parametrize(
    "text",
    [
        stamp("/cluster/a", 1000),
        stamp("/cluster/a", -1),
        stamp("/cluster/n0"),
        stamp("/cluster/a", kind="simulator"),
        stamp("../../a"),
        json.dumps({"devices": [{"path": "/cluster/a", "type": "qpu", "amount": 1}] * 60}),
        "[" * 5000,
        '{"devices": {"a": 1}}',
        "null",
        "\u0000",
    ],
)
def test_odd_stamp_gives_what_the_pod_asks_for_and_no_more(world: MakeWorld, text: str) -> None:
    w = world(node("n0"), DEVICES)
    pod = w.pod(
        "p", node="n0", requests=asks(500), devices={"qpu": 1}, annotations={ALLOCATION_ANNOTATION: text}
    )
    w.restart()
    (held,) = w.ledger.holdings.values()
    assert held.uid == pod.uid
    assert [share.amount for share in held.assignment.devices] == [1]
    assert backends(w, quantum(w, "next")) != backends(w, pod)
    check(w)


def test_pod_that_asks_for_no_device_gets_none_by_a_stamp(world: MakeWorld) -> None:
    w = world(node("n0"), DEVICES)
    pod = w.pod("p", node="n0", requests=asks(500), annotations={ALLOCATION_ANNOTATION: stamp("/cluster/a")})
    foreign = w.foreign(
        "n0",
        "f",
        requests=asks(500),
        devices={"qpu": 1},
        annotations={ALLOCATION_ANNOTATION: stamp("/cluster/b")},
    )
    w.restart()
    assert backends(w, pod, foreign) == ["", ""]
    assert sorted(backends(w, quantum(w, "one"), quantum(w, "two"))) == ["a", "b"]


def test_results_written_by_the_user_beforehand_are_overwritten_by_the_binding(world: MakeWorld) -> None:
    w = world(node("n0"), DEVICES)
    plain, pod = gang(w, "plain", 500)[0], quantum(w, "q")
    late = w.pod(
        "late",
        requests=asks(500),
        annotations={
            ALLOCATION_ANNOTATION: stamp("/cluster/a"),
            BACKEND_ANNOTATION: "a",
            f"{ATTRIBUTE_PREFIX}vendor": "x",
        },
    )
    w.advance(3)
    notes = w.now(late).annotations
    assert (notes[BACKEND_ANNOTATION], notes[f"{ATTRIBUTE_PREFIX}vendor"]) == ("", "")
    assert json.loads(notes[ALLOCATION_ANNOTATION])["devices"] == []
    assert BACKEND_ANNOTATION not in w.now(plain).annotations
    assert w.now(pod).annotations[BACKEND_ANNOTATION] == backends(w, pod)[0]


def test_pod_that_brings_its_own_node_is_counted_there_and_takes_no_held_device(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), DEVICES)
    pods = [quantum(w, "first"), quantum(w, "second")]
    before = backends(w, *pods)
    w.disturb("n0")
    intruder = w.pod(
        "intruder",
        node="n0",
        requests=asks(500),
        devices={"qpu": 1},
        annotations={ALLOCATION_ANNOTATION: stamp("/cluster/a")},
    )
    w.advance(1)
    assert backends(w, *pods, intruder) == [*before, ""]
    assert w.ledger.accounts["n0"].free["cpu"] == -500
    assert w.ledger.overcommitted == {"n0"}
    w.cluster.remove(w.now(intruder))
    w.advance(1)
    assert not w.ledger.overcommitted


def test_member_that_ungates_and_nominates_itself_is_not_bound_before_its_gang(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    (pod,) = gang(w, "g", 1000, size=2)
    w.change(pod, gates=(), nominated="n1")
    w.advance(20)
    assert not w.now(pod).node
    assert not w.now(pod).nominated
    assert pod.uid not in w.ledger.holdings


def test_nomination_written_by_a_user_reserves_nothing_through_a_restart(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    pods = gang(w, "g", 1000, size=2)
    w.change(pods[0], gates=(), nominated="n0")
    w.restart()
    (other,) = gang(w, "other", 1000)
    w.advance(20)
    assert w.now(other).node == "n0"
    assert not w.now(pods[0]).node
