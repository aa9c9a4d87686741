"""PodDisruptionBudgets decide whether several pods may be evicted together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.budgets import (
    Budget,
    decode_budget,
    decode_budgets,
    eviction_block,
)
from fluence_extender.model.pod import Pod
from tests.core.values import pod


def budgets(*some: tuple[str, dict[str, Any] | None, int]) -> tuple[Budget, ...]:
    items = [
        {
            "metadata": {"name": name, "namespace": "default", "generation": 1, "uid": "u"},
            "spec": {"minAvailable": 1, **({} if selector is None else {"selector": selector})},
            "status": {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 3},
        }
        for name, selector, allowed in some
    ]
    return decode_budgets(json.dumps({"kind": "PodDisruptionBudgetList", "items": items}).encode())


def running(name: str, **labels: str) -> Pod:
    return pod(name, labels=labels, phase="Running", node="n0", ready=True)


APP = {"matchLabels": {"app": "x"}}
PODS = [running("a", app="x"), running("b", app="x"), running("c")]


def test_no_budget_forbids_nothing() -> None:
    assert eviction_block(budgets(), PODS) is None


def test_budget_that_allows_all_evictions_forbids_nothing() -> None:
    assert eviction_block(budgets(("b", APP, 2)), PODS) is None


def test_budget_that_allows_some_evictions_forbids_all_together() -> None:
    found = eviction_block(budgets(("b", APP, 1)), PODS)
    assert found is not None
    assert found.reason == "PodDisruptionBudget default/b allows 1 of 2 evictions"
    assert found.uids == {PODS[0].uid, PODS[1].uid}


def test_pod_under_two_budgets_can_not_be_evicted() -> None:
    found = eviction_block(budgets(("one", APP, 9), ("two", {}, 9)), PODS)
    assert found is not None
    assert (
        found.reason
        == "pod default/a is covered by more than one PodDisruptionBudget (default/one, default/two)"
    )


def test_budget_whose_status_lags_forbids() -> None:
    (lagging,) = decode_budgets(
        b'{"items": [{"metadata": {"name": "b", "namespace": "default", "generation": 2}, "spec": {"selector": {}},'
        b' "status": {"disruptionsAllowed": 5, "observedGeneration": 1}}]}'
    )
    assert eviction_block((lagging,), PODS) is not None


def test_pods_that_do_not_run_need_no_budget() -> None:
    waiting = [pod("w", labels={"app": "x"}), pod("d", labels={"app": "x"}, phase="Running", deleting=True)]
    assert eviction_block(budgets(("b", APP, 0)), waiting) is None


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "ready", "forbids"),
    [
        ("AlwaysAllow", 0, 2, [False, False], False),
        ("AlwaysAllow", 0, 2, [False, True], True),
        ("IfHealthyBudget", 2, 2, [False, False], False),
        (None, 2, 2, [False, False], False),
        (None, 1, 2, [False, False], True),
        (None, 0, 0, [False, False], True),
        (None, 2, 2, [False, True], True),
    ],
)
def test_pods_that_are_not_ready_need_no_budget_where_its_policy_says_so(
    policy: str | None, healthy: int, desired: int, ready: list[bool], forbids: bool
) -> None:
    document = {
        "metadata": {"name": "b", "namespace": "default", "generation": 1},
        "spec": {"selector": APP, "unhealthyPodEvictionPolicy": policy},
        "status": {"observedGeneration": 1, "currentHealthy": healthy, "desiredHealthy": desired},
    }
    budget = decode_budget(json.dumps(document).encode())
    some = [replace(one, ready=is_so) for one, is_so in zip(PODS, ready, strict=False)]
    found = eviction_block([budget], some)
    assert (found is not None) is forbids
    if found is not None and any(ready):
        assert found.reason == "PodDisruptionBudget default/b allows 0 of 1 evictions"


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
def test_selectors_follow_the_rules_of_kubernetes(selector: dict[str, Any] | None, covered: bool) -> None:
    (budget,) = budgets(("b", selector, 0))
    assert budget.covers(running("a", app="x")) is covered


def test_budgets_hold_in_their_own_namespace() -> None:
    listed = decode_budgets(
        b'{"items": [{"metadata": {"name": "b", "namespace": "lab"}, "spec": {"selector": {}}, "status": {}}]}'
    )
    assert eviction_block(listed, PODS) is None
    found = eviction_block(listed, [*PODS, replace(PODS[2], namespace="lab", uid="other")])
    assert found is not None
    assert found.reason == "PodDisruptionBudget lab/b allows 0 of 1 evictions"
    assert found.last_concerned({"a": [PODS[0]], "b": [replace(PODS[2], uid="other")], "c": []}) == "b"
    assert found.last_concerned({"a": [PODS[0]], "c": [PODS[1]]}) == "c"
