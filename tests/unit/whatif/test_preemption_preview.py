"""What-if: which gangs would be preempted for a gang that has no place now, and where it would go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.apps.kubectl.simulate import answer_lines
from fluence_extender.cluster.budgets import Budget, BudgetSpec, BudgetStatus
from fluence_extender.gangs.preemption.preemptions import Preemption
from fluence_extender.gangs.queue.submissions import newcomer
from fluence_extender.model.access import EVERYTHING, CallerSight
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.objects.fields import LabelSelector
from fluence_extender.objects.meta import Metadata
from fluence_extender.whatif.preemption_preview import PreemptionOutcome, PreemptionPreview
from fluence_extender.whatif.result_json import named_namespaces, results_as_json
from fluence_extender.whatif.simulation import SimulationResult
from tests.core.values import node, pod
from tests.unit.whatif.conftest import NOW, RACK, Cluster, job

GROUP = "fluence.flux-framework.org/group"
DEVICES = "resources: [{type: qpu, name: fez}]"
QPU = {"fluxion.flux-framework.org/qpu": "1"}


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


HIGH = priority_class("high", 1000)


def high(name: str, count: int, cpu: str, named: str = "high", **fields: Any) -> dict[str, Any]:
    """Return a Job of ``count`` pods with a PriorityClass."""
    made = job(name, count, cpu, **fields)
    made["spec"]["template"]["spec"]["priorityClassName"] = named
    return made


def low(name: str, count: int, cpu: int, **fields: Any) -> list[Pod]:
    """Return the pods of a running gang of low priority."""
    labels = {GROUP: name}
    return [pod(f"{name}-{number}", cpu, labels=labels, **fields) for number in range(count)]


def preemption(answer: SimulationResult) -> PreemptionPreview:
    assert not answer.fits
    assert answer.preemption is not None
    return answer.preemption


def test_victims_are_named_and_places_given(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1"), node("n2")])
    there.run_gang(low("low-1", 2, 4000))
    there.run_gang(low("low-2", 1, 4000))
    (answer,) = there.ask(high("train", 6, "2"), HIGH)
    found = preemption(answer)
    assert found.outcome is PreemptionOutcome.PREEMPTS
    assert found.text == "would preempt 2 gangs (3 pods): default/low-1 (2), default/low-2 (1)"
    assert [(str(one.gang), one.pods, one.members, one.surplus) for one in found.victims] == [
        ("default/low-1", 2, 2, False),
        ("default/low-2", 1, 1, False),
    ]
    assert [(name, at.node) for name, at in found.placed] == [
        (f"train-{number}", f"n{number // 2}") for number in range(6)
    ]


def test_the_fewest_gangs_of_the_lowest_priority_are_victims(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run_gang(low("dear", 1, 4000, priority=5))
    there.run_gang(low("cheap", 1, 4000, priority=1))
    (answer,) = there.ask(high("one", 2, "2"), HIGH)
    assert preemption(answer).text == "would preempt 1 gang (1 pod): default/cheap (1)"


def test_the_surplus_of_an_elastic_gang_is_taken_alone(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("wide", 4, 1000), size=2)
    (answer,) = there.ask(high("one", 1, "1"), HIGH)
    found = preemption(answer)
    assert found.text == "would preempt 1 gang (1 pod): default/wide (1 of 4)"
    assert found.victims[0].surplus


@pytest.mark.parametrize("there_is", [[], [1000], [2000]])
def test_gangs_of_equal_or_higher_priority_are_no_victims(
    there_is: list[int], cluster: type[Cluster]
) -> None:
    there = cluster([node("n0")])
    there.run([pod("loner", 3000, 1)])
    for priority in there_is:
        there.run_gang(low("other", 1, 1000, priority=priority))
    (answer,) = there.ask(high("train", 1, "4"), HIGH)
    found = preemption(answer)
    assert (found.outcome, found.victims, found.placed) == (PreemptionOutcome.IN_VAIN, (), ())
    assert found.text == ("would preempt no gang: none that runs has a lower priority than this one (1000)")


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([], "none that runs has a lower priority than this one (0)"),
        ([0, 0], "none that runs has a lower priority than this one (0)"),
        ([0, -5], "evicting gangs of lower priority (below 0) would not make enough room"),
    ],
)
def test_lower_priorities_are_spoken_of_only_if_a_gang_of_such_a_priority_runs(
    runs: list[int], told: str, cluster: type[Cluster]
) -> None:
    there = cluster([node("n0")])
    there.run([pod("loner", 1000, 1)])
    for number, priority in enumerate(runs):
        there.run_gang(low(f"other-{number}", 1, 1000, priority=priority))
    (answer,) = there.ask(job("train", 1, "4"))
    assert preemption(answer).text == f"would preempt no gang: {told}"


def test_preemption_policy_never_is_respected(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("low", 1, 4000))
    polite = priority_class("polite", 9, preemptionPolicy="Never")
    (answer,) = there.ask(high("train", 1, "2", "polite"), polite)
    assert preemption(answer).outcome is PreemptionOutcome.NEVER


def test_priority_classes_of_the_cluster_are_used_where_the_manifests_have_none(
    cluster: type[Cluster],
) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("low", 1, 4000, priority=5))
    (answer,) = there.ask(high("train", 1, "2"), classes=[HIGH])
    assert preemption(answer).outcome is PreemptionOutcome.PREEMPTS
    usual = priority_class("usual", 10, globalDefault=True)
    (answer,) = there.ask(job("train", 1, "2"), classes=[usual])
    assert preemption(answer).outcome is PreemptionOutcome.PREEMPTS
    (answer,) = there.ask(job("train", 1, "2"), classes=[usual, priority_class("other", 1)])
    assert preemption(answer).outcome is PreemptionOutcome.PREEMPTS
    (answer,) = there.ask(job("train", 1, "2"))
    assert preemption(answer).outcome is PreemptionOutcome.IN_VAIN
    (answer,) = there.ask(high("train", 1, "2", "system-cluster-critical"))
    assert preemption(answer).outcome is PreemptionOutcome.PREEMPTS


def test_priority_of_an_unknown_class_is_not_guessed(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("low", 1, 4000))
    (answer,) = there.ask(high("train", 1, "2"))
    assert answer.reason is not None
    assert answer.reason.text == (
        "the API server refuses the pods of Job default/train: no PriorityClass with name high was found"
    )


def test_disruption_budgets_protect_gangs_and_are_named(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run_gang(low("cheap", 1, 4000, priority=1))
    there.run_gang(low("dear", 1, 4000, priority=5))
    selector = BudgetSpec(LabelSelector({GROUP: "cheap"}))
    budget = Budget(Metadata("keep", "default"), selector, BudgetStatus(0))
    elsewhere = Budget(Metadata("all", "lab"), BudgetSpec(LabelSelector()), BudgetStatus(0))
    there.budgets = [elsewhere, budget]
    (answer,) = there.ask(high("one", 2, "2"), HIGH)
    assert preemption(answer).text == "would preempt 1 gang (1 pod): default/dear (1)"
    (answer,) = there.ask(high("two", 4, "2"), HIGH)
    assert preemption(answer).text == (
        "would preempt no gang: evicting gangs of lower priority (below 1000) would not make enough room; "
        "PodDisruptionBudget default/keep allows 0 of 1 evictions"
    )


def test_unknown_budgets_are_noted(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("low", 1, 4000))
    there.budgets = None
    (answer,) = there.ask(high("one", 1, "2"), HIGH)
    assert preemption(answer).outcome is PreemptionOutcome.PREEMPTS
    assert there.request.notes == ["PodDisruptionBudgets are not known here: they may forbid the preemptions"]


def test_no_gang_is_a_victim_twice_in_one_simulation(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run_gang(low("a", 1, 4000, priority=1))
    there.run_gang(low("b", 1, 4000, priority=2))
    first, second, third = there.ask(high("x", 1, "4"), high("y", 1, "4"), high("z", 1, "4"), HIGH)
    assert preemption(first).text == "would preempt 1 gang (1 pod): default/a (1)"
    assert preemption(second).text == "would preempt 1 gang (1 pod): default/b (1)"
    assert preemption(third).outcome is PreemptionOutcome.IN_VAIN
    assert third.reason is not None
    assert third.reason.text.endswith("; behind default/x (priority 1000)")


def test_capacity_of_departing_pods_is_counted(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    (departing,) = there.run_gang(low("departing", 1, 4000))
    there.run_gang(low("low", 1, 4000))
    there.world.change(departing, deleting=True)
    there.world.advance(0.5)
    (answer,) = there.ask(high("train", 1, "4"), HIGH)
    found = preemption(answer)
    assert (found.outcome, found.victims) == (PreemptionOutcome.WAITS, ())
    assert [at.node for _, at in found.placed] == ["n0"]


def test_gangs_of_the_same_manifests_may_be_victims(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    first, second = there.ask(job("first", 4, "1"), high("second", 1, "4"), HIGH)
    assert first.fits
    assert preemption(second).text == "would preempt 1 gang (4 pods): default/first (4)"


def test_members_beyond_the_size_of_a_gang_do_not_preempt(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run_gang(low("low", 1, 4000))
    notes = {"fluence.flux-framework.org/group-size": "1"}
    (answer,) = there.ask(high("train", 2, "4", annotations=notes), HIGH)
    assert preemption(answer).outcome is PreemptionOutcome.SIZE_FITS


def waits_for_qpu(key: GangKey) -> Preemption:
    """Return a preemption under way for a gang that needs a qpu."""
    order = newcomer(key, 500, (0.0, 0))
    return Preemption(order=order, priority=500, device_types=frozenset({"qpu"}))


def test_gang_that_could_preempt_a_preemptor_may_use_nodes_held_for_it(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    waiting = GangKey("lab", "waiting", Convention.LABEL)
    there.preemptors[waiting] = waits_for_qpu(waiting), {"n0"}
    passing, behind = there.ask(high("train", 1, "1"), job("small", 1, "1"), HIGH)
    assert passing.fits
    assert behind.reason is not None
    assert "behind lab/waiting (priority 500)" in behind.reason.full_text
    (devices,) = there.ask(job("device", 1, "1", limits=QPU))
    assert devices.reason is not None
    assert devices.reason.full_text == "busy: qpu held for lab/waiting (priority 500)"


def test_gang_that_waits_for_held_devices_has_no_reductions(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")], DEVICES)
    waiting = GangKey("lab", "waiting", Convention.LABEL)
    there.preemptors[waiting] = waits_for_qpu(waiting), set()
    (answer,) = there.ask(job("device", 2, "1", limits=QPU))
    assert answer.reason is not None
    assert answer.reason.full_text == "busy: qpu held for lab/waiting (priority 500)"
    assert answer.reductions == ()


def test_devices_of_victims_come_free(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")], DEVICES)
    there.run_gang(low("holder", 1, 100, devices={"qpu": 1}))
    (answer,) = there.ask(high("next", 1, "100m", limits=QPU), HIGH)
    found = preemption(answer)
    assert found.text == "would preempt 1 gang (1 pod): default/holder (1)"
    assert len(found.placed[0][1].devices) == 1


def test_preemptor_keeps_to_its_topology(cluster: type[Cluster]) -> None:
    there = cluster([node(f"n{number}", labels={RACK: f"r{number // 2}"}) for number in range(4)])
    for number in (0, 2, 3):
        there.run_gang(low(f"low-{number}", 1, 3000))
    near = {"fluence.flux-framework.org/topology-required": "rack"}
    (answer,) = there.ask(high("near", 2, "4", annotations=near), HIGH)
    nodes = {at.node for _, at in preemption(answer).placed}
    assert nodes in ({"n0", "n1"}, {"n2", "n3"})


def test_search_that_runs_out_of_time_is_reported(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("low", 1, 4000))
    (answer,) = there.ask(high("train", 1, "4"), HIGH, patience=-1.0)
    found = preemption(answer)
    assert found.outcome is PreemptionOutcome.UNKNOWN
    assert found.text.startswith("may preempt: the search for victims did not end within")


def test_gangs_that_fit_or_never_fit_have_no_preemption(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    fits, never = there.ask(high("fits", 1, "4"), high("never", 1, "200"), HIGH)
    assert fits.fits
    assert (fits.preemption, never.preemption) == (None, None)


def test_preemption_is_in_the_text_and_in_the_json(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run_gang(low("low", 2, 2000))
    answers = there.ask(high("train", 2, "2"), HIGH)
    document = results_as_json(answers, there.request, NOW, EVERYTHING)
    assert list(answer_lines(document)) == [
        "default/train (2 pods): doesn't fit now",
        "  busy: 0 of 2 fit now, short of cpu",
        "  would preempt 1 gang (2 pods): default/low (2)",
        "  then on n0 (2)",
    ]
    gangs: Any = document["gangs"]
    assert gangs[0]["preemption"] == {
        "outcome": "Preempts",
        "text": "would preempt 1 gang (2 pods): default/low (2)",
        "victims": [
            {"gang": "default/low", "priority": 0, "pods": 2, "members": 2, "surplus": False},
        ],
        "hidden": 0,
        "placement": [
            {"pod": f"train-{number}", "node": "n0", "backend": "", "devices": []} for number in range(2)
        ],
    }


def test_gangs_of_namespaces_out_of_sight_are_counted(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    for namespace in ("bank", "default", "vault"):
        there.run_gang([replace(one, namespace=namespace) for one in low("low", 1, 1000)])
    answers = there.ask(high("train", 1, "4"), HIGH)

    def shown(*namespaces: str) -> Any:
        sight = CallerSight(frozenset(namespaces))
        gangs: Any = results_as_json(answers, there.request, NOW, sight)["gangs"]
        return gangs[0]["preemption"]

    begin = "would preempt 3 gangs (3 pods): "
    own, other, every = shown("default"), shown("default", "bank"), shown("default", "bank", "vault")
    assert own["text"] == other["text"] == f"{begin}default/low (1), and 2 of other namespaces"
    assert every["text"] == f"{begin}bank/low (1), default/low (1), vault/low (1)"
    assert [one["gang"] for one in own["victims"]] == ["default/low"]
    assert [one["gang"] for one in other["victims"]] == ["bank/low", "default/low"]
    assert [one["hidden"] for one in (own, other, every)] == [2, 1, 0]
    assert named_namespaces(answers) == {"bank", "default", "vault"}


def test_many_equal_gangs_that_do_not_fit_get_one_result(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run([pod("loner", 4000, 1)])
    answers = there.ask(*(job(f"j{number}", 1, "1") for number in range(40)))
    texts = {(one.reason.text, one.preemption.text) for one in answers if one.reason and one.preemption}
    assert len(answers) == 40
    assert [one.gang for one in answers] == [f"default/j{number}" for number in range(40)]
    assert len(texts) == 1
    assert replace(answers[20], gang="") == replace(answers[39], gang="")


def test_gangs_with_the_same_result_are_printed_once(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    web = {"kind": "Deployment", "metadata": {"name": "web"}}
    template = job("any", 1, "1")["spec"]["template"]
    template["metadata"]["labels"] = {"app": "web"}
    del template["spec"]["restartPolicy"]
    selector = {"matchLabels": {"app": "web"}}
    answers = there.ask({**web, "spec": {"replicas": 20, "selector": selector, "template": template}})
    assert list(answer_lines(results_as_json(answers, there.request, NOW, EVERYTHING))) == [
        "default/web-0 to default/web-7 (8 times 1 pod): fits now",
        "  on n0 (4), n1 (4)",
        "default/web-8 to default/web-19 (12 times 1 pod): doesn't fit now",
        "  busy: 0 of 1 fit now, short of cpu",
        "  would preempt no gang: none that runs has a lower priority than this one (0)",
    ]
