"""What-if on a running controller: the leader preempts as the simulation predicts."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fluence_extender.apiserver.defaults import AdmissionObjects
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.gangs.execution.driver import SWITCH_INTERVAL, short_switch_interval
from fluence_extender.gangs.preemption.preemptions import Departures
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.objects.queues import Queue, Quota
from fluence_extender.whatif.simulator import Simulator
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import gang
from tests.unit.whatif.conftest import job


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    """Collect worlds, which are closed at the end."""
    made: list[World] = []
    yield made
    for one in made:
        one.close()


CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"of-{value}"},
        "value": value,
    }
    for value in range(11)
]
"""The PriorityClasses of `high`."""


def departures(w: World) -> Departures:
    """What frees capacity in the world without further action."""
    return w.controller.lifecycle.preemption.facts(w.ledger.snapshot(), lambda _: frozenset()).departures


def simulated(world: World, *manifests: dict[str, Any]) -> list[Any]:
    """Return what the service answers to a list of manifests."""
    session = EmbeddedSession(world.cluster)
    body = json.dumps({"kind": "List", "items": [*CLASSES, *manifests]}).encode()
    simulator = Simulator(world.controller, session.try_pod, session.disruption_budgets)
    document = asyncio.run(simulator.answer(body))
    gangs: list[Any] = document["gangs"]
    return gangs


def high(name: str, count: int, cpu: str, priority: int) -> dict[str, Any]:
    made = job(name, count, cpu)
    made["spec"]["template"]["metadata"]["annotations"] = {GROUP_SIZE_ANNOTATION: str(count)}
    made["spec"]["template"]["spec"]["priorityClassName"] = f"of-{priority}"
    return made


@pytest.mark.parametrize("seed", range(12))
def test_the_leader_does_what_the_simulation_predicted(seed: int, worlds: list[World]) -> None:
    dice = Random(seed)
    w = World(*(node(f"n{number}") for number in range(6)))
    worlds.append(w)
    for number in range(8):
        sizes = [dice.choice((500, 1000, 2000)) for _ in range(dice.randint(1, 4))]
        gang(w, f"low{number}", *sizes, size=dice.randint(1, len(sizes)), priority=dice.randint(0, 3))
    w.advance(3)
    revision = w.controller.registry.revision
    count, priority = dice.randint(1, 4), dice.randint(1, 5)
    (result,) = simulated(w, high("high", count, "2", priority))
    assert w.controller.registry.revision == revision
    gang(w, "high", *[2000] * count, priority=priority)
    w.advance(2)
    reason = w.gang("high").reason
    if result["fits"]:
        assert reason is None or not reason.text.startswith("preempting")
        return
    preempting = departures(w).pods()
    assert len(preempting) == sum(one["pods"] for one in result["preemption"]["victims"])
    victims = {
        member.pod.labels[GROUP_LABEL]
        for _, member in w.controller.registry.members()
        if member.pod.uid in preempting
    }
    assert {f"default/{name}" for name in victims} == {one["gang"] for one in result["preemption"]["victims"]}


def test_priority_classes_and_budgets_of_the_cluster_are_read(worlds: list[World]) -> None:
    w = World(node("n0"))
    worlds.append(w)
    gang(w, "low", 3000)
    w.advance(3)
    manifest = job("high", 1, "2")
    manifest["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    urgent = {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}
    (result,) = simulated(w, manifest)
    refused = (
        "the API server refuses the pods of Job default/high: no PriorityClass with name urgent was found"
    )
    assert (result["why"], result["reason"]) == ("InvalidRequest", refused)
    w.cluster.objects = AdmissionObjects([urgent])
    (result,) = simulated(w, manifest)
    assert result["preemption"]["outcome"] == "Preempts"


def test_pod_groups_of_the_cluster_count(worlds: list[World]) -> None:
    w = World(node("n0"))
    worlds.append(w)
    member = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "schedulerName": "fluence",
            "schedulingGroup": {"podGroupName": "pair"},
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    pair = [member, {**member, "metadata": {"name": "q"}}]
    (result,) = simulated(w, *pair)
    assert result["reason"] == "waiting for PodGroup default/pair to exist"
    w.cluster.put(PodGroup("default", "pair", "uid", 2))
    w.advance(1)
    (result,) = simulated(w, *pair)
    assert result["fits"]
    (result,) = simulated(w, member)
    assert result["reason"] == "waiting for members (1 of 2 exist)"


def test_standby_answers_too(worlds: list[World]) -> None:
    w = World(node("n0"), node("n1"))
    worlds.append(w)
    w.controller.stand_down("another replica leads")
    gang(w, "low", 3000)
    w.foreign("n1", "other", requests=asks(3000, 1))
    w.advance(3)
    (result,) = simulated(w, high("high", 1, "3", 5))
    assert result["fits"]
    assert [one["node"] for one in result["placement"]] == ["n0"]


def test_gang_that_is_being_evicted_is_no_victim_again(worlds: list[World]) -> None:
    w = World(node("n0"), node("n1"))
    worlds.append(w)
    gang(w, "low", 3000)
    gang(w, "other", 3000)
    w.advance(3)
    gang(w, "first", 3000, priority=5)
    w.advance(2)
    (result,) = simulated(w, high("second", 1, "3", 5))
    assert result["reason"].endswith("; behind default/first (priority 5)")
    assert result["preemption"]["text"] == "would preempt 1 gang (1 pod): default/low (1)" or (
        result["preemption"]["text"] == "would preempt 1 gang (1 pod): default/other (1)"
    )
    evicted = frozenset(departures(w).evicted)
    assert result["preemption"]["victims"][0]["gang"] not in {str(one) for one in evicted}


def test_under_a_node_exclusive_policy_a_node_opens_when_its_gang_goes(worlds: list[World]) -> None:
    w = World(node("n0"), policy="lonodex")
    worlds.append(w)
    gang(w, "low", 1000)
    w.advance(3)
    first, second = simulated(w, high("high", 1, "1", 5), high("equal", 1, "1", 0))
    assert first["preemption"]["text"] == "would preempt 1 gang (1 pod): default/low (1)"
    assert not second["fits"]


def test_switch_interval_is_short_until_the_last_computation_ends() -> None:
    before = sys.getswitchinterval()
    first, second = short_switch_interval(), short_switch_interval()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_switch_interval_is_restored_after_a_failure() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(ValueError, match="bad"), short_switch_interval():
        raise ValueError("bad")
    assert sys.getswitchinterval() == pytest.approx(before)


def test_what_other_queues_keep_is_not_there_for_a_question(worlds: list[World]) -> None:
    w = World(node("n0"), node("n1"))
    worlds.append(w)
    w.controller.queue.settings.put(Queue("vip", quota=Quota({"cpu": 1000}, lendable={"cpu": 0}), uid="vip"))
    w.pod("runs", gates=(GATE,), requests=asks(3000, 0))
    w.advance(2)
    (busy,) = simulated(w, high("wide", 5, "1", 0))
    assert (busy["fits"], busy["why"]) == (False, "Busy")
    assert "what other queues keep for themselves" in busy["reason"]
    (fits,) = simulated(w, high("narrow", 4, "1", 0))
    assert fits["fits"]
    (never,) = simulated(w, high("huge", 8, "1", 0))
    assert (never["fits"], never["why"]) == (False, "Unsatisfiable")
