"""Pods of Jobs that are placed at birth, on a cluster where the webhook gives them their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.model.names import (
    AT_BIRTH,
    COMPLETION_INDEX,
    GATE,
    MARK_RESOURCE,
    NODE_NAME,
    NODES_ANNOTATION,
    PINNED_ANNOTATION,
    PLACED_ANNOTATION,
    PLACED_LABEL,
)
from fluence_extender.webhook.births import JOB_CONTROLLERS
from fluence_extender.webhook.contract import AdmissionRequest, Context
from fluence_extender.webhook.mutate import mutate
from tests.unit.webhook.pods import ALL, Json, applied, pod

CONTEXT = Context(gate_by_webhook=True)
BY_ITS_JOB = AdmissionRequest(
    "lab", "train-1", uid="r", user=JOB_CONTROLLERS[0], gated_jobs="", now="2026-01-01T00:00:00Z"
)
BY_A_USER = replace(BY_ITS_JOB, user="ada")
FRESH, OLD = "2026-01-01T00:00:30Z", "2025-12-31T23:59:59Z"
HERE = {"key": NODE_NAME, "operator": "In", "values": ["b"]}


def member(
    plan: str = "a,b", index: str = "1", owner: tuple[str, str] = ("Job", "train"), **spec: Any
) -> Json:
    """Return a pod as the Job controller creates it."""
    notes = {NODES_ANNOTATION: plan, COMPLETION_INDEX: index, PLACED_ANNOTATION: "2 job/train"}
    return pod(labels={PLACED_LABEL: AT_BIRTH}, annotations=notes, owner=owner, **spec)


def created(body: Json, request: AdmissionRequest = BY_ITS_JOB) -> Json:
    return applied(body, mutate(body, request, ALL, CONTEXT))


def notes(body: Json) -> Json:
    found: Json = body["metadata"]["annotations"]
    return found


def test_pod_of_a_fresh_plan_is_bound_by_its_creation() -> None:
    stored = created(member(f"a,b;{FRESH}"))
    assert stored["spec"]["nodeName"] == "b"
    assert "schedulingGates" not in stored["spec"]
    assert notes(stored) == {COMPLETION_INDEX: "1", PLACED_ANNOTATION: "2 job/train"}


@pytest.mark.parametrize(
    ("plan", "request_"),
    [
        (f"a,b;{OLD}", BY_ITS_JOB),
        ("a,b", BY_ITS_JOB),
        (f"a,b;{FRESH};{FRESH}", BY_ITS_JOB),
        (f"a,b;{FRESH}", BY_A_USER),
    ],
    ids=["late", "without a time", "with two times", "by a user"],
)
def test_other_pod_is_pinned_to_its_node(plan: str, request_: AdmissionRequest) -> None:
    stored = created(member(plan), request_)
    assert "nodeName" not in stored["spec"]
    assert "schedulingGates" not in stored["spec"]
    assert notes(stored)[PINNED_ANNOTATION] == "b"
    assert (PLACED_ANNOTATION in notes(stored)) is (request_ is BY_ITS_JOB)
    required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {"nodeSelectorTerms": [{"matchFields": [HERE]}]}


@pytest.mark.parametrize("plan", ["a,b", f"a,b;{FRESH}"])
def test_second_call_for_the_same_pod_changes_nothing(plan: str) -> None:
    stored = created(member(plan))
    assert created(stored) == stored


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        (member(index="2"), BY_ITS_JOB),
        (member(index="-1"), BY_ITS_JOB),
        (member(plan=",b", index="0"), BY_ITS_JOB),
        (member(plan="a," + "b" * 254), BY_ITS_JOB),
        (member(owner=("ReplicaSet", "train")), BY_ITS_JOB),
        (member(schedulingGates=[{"name": "theirs"}]), BY_ITS_JOB),
        (member(), replace(BY_ITS_JOB, gated_jobs='{"o": "its node is gone"}')),
        (member(), replace(BY_ITS_JOB, gated_jobs=None)),
    ],
    ids=["beyond", "negative", "empty", "no name", "no Job", "gates", "listed", "list unreadable"],
)
def test_pod_without_a_place_of_its_own_waits_marked_at_the_gate(
    body: Json, request_: AdmissionRequest
) -> None:
    stored = created(body, request_)
    assert {"name": GATE} in stored["spec"]["schedulingGates"]
    assert MARK_RESOURCE in stored["spec"]["containers"][0]["resources"]["requests"]
    assert notes(stored).keys() == {COMPLETION_INDEX}


def test_where_a_policy_does_it_the_webhook_leaves_pods_to_the_policy() -> None:
    body = member()
    assert not mutate(body, BY_ITS_JOB, ALL, Context()).patch
