"""What PodDisruptionBudgets say to evicting several pods together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.budgets import Budget, decode_budgets, forbidding, forbidding_anywhere
from fluence_extender.model.pod import Pod
from tests.core.values import pod


def budgets(*some: tuple[str, dict[str, Any] | None, int]) -> tuple[Budget, ...]:
    items = [
        {
            "metadata": {"name": name, "generation": 1, "uid": "u"},
            "spec": {"minAvailable": 1, **({} if selector is None else {"selector": selector})},
            "status": {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 3},
        }
        for name, selector, allowed in some
    ]
    return decode_budgets(json.dumps({"kind": "PodDisruptionBudgetList", "items": items}).encode())


def running(name: str, **labels: str) -> Pod:
    return pod(name, labels=labels, phase="Running", node="n0")


APP = {"matchLabels": {"app": "x"}}
PODS = [running("a", app="x"), running("b", app="x"), running("c")]


def test_no_budget_forbids_nothing() -> None:
    assert forbidding(budgets(), PODS) is None


def test_budget_that_allows_all_of_them_forbids_nothing() -> None:
    assert forbidding(budgets(("b", APP, 2)), PODS) is None


def test_budget_that_allows_a_part_forbids_the_whole() -> None:
    found = forbidding(budgets(("b", APP, 1)), PODS)
    assert found is not None
    assert found.reason == "PodDisruptionBudget default/b allows 1 of 2 evictions"
    assert found.uids == {PODS[0].uid, PODS[1].uid}


def test_pod_under_two_budgets_can_not_be_evicted() -> None:
    found = forbidding(budgets(("one", APP, 9), ("two", {}, 9)), PODS)
    assert found is not None
    assert found.reason == "pod default/a is covered by more than one PodDisruptionBudget (one, two)"


def test_budget_whose_status_lags_forbids() -> None:
    (lagging,) = decode_budgets(
        b'{"items": [{"metadata": {"name": "b", "generation": 2}, "spec": {"selector": {}},'
        b' "status": {"disruptionsAllowed": 5, "observedGeneration": 1}}]}'
    )
    assert forbidding((lagging,), PODS) is not None


def test_pods_that_do_not_run_need_no_budget() -> None:
    waiting = [pod("w", labels={"app": "x"}), pod("d", labels={"app": "x"}, phase="Running", deleting=True)]
    assert forbidding(budgets(("b", APP, 0)), waiting) is None


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        (None, False),
        ({}, True),
        (APP, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "z"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}, False),
    ],
)
def test_selectors(selector: dict[str, Any] | None, covered: bool) -> None:
    (budget,) = budgets(("b", selector, 0))
    assert budget.covers(running("a", app="x")) is covered


def test_budgets_hold_in_their_own_namespace() -> None:
    listed = decode_budgets(
        b'{"items": [{"metadata": {"name": "b", "namespace": "lab"}, "spec": {"selector": {}}, "status": {}}]}'
    )
    assert forbidding_anywhere(listed, PODS) is None
    found = forbidding_anywhere(listed, [*PODS, replace(PODS[2], namespace="lab", uid="other")])
    assert found is not None
    assert found.reason == "PodDisruptionBudget lab/b allows 0 of 1 evictions"
    assert found.about({"a": [PODS[0]], "b": [replace(PODS[2], uid="other")], "c": []}) == "b"
    assert found.about({"a": [PODS[0]], "c": [PODS[1]]}) == "c"
