"""Pods that are bound by their creation, as the API server treats them; the test plays the leader."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
)
from tests.e2e.expected_pods import (
    REQUIRED,
    Leader,
    as_created_by_its_job,
    bound_at_birth,
    created,
    is_direct,
    path_of,
    plan,
    pods_of,
    ranks,
    refusal,
    suspended,
    tried,
)
from tests.e2e.harness import Manifest, Namespace, annotations_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.workloads import QPU, ours
from tests.localcluster import Api, ControlPlane

LONG = 600.0
"""Seconds for which a plan binds pods, longer than any test takes."""

FRESH = "a;2999-01-01T00:00:00Z"
RECORD = "2 job/train"


NAME = "node-0123456789abcdef0123456789abcdef-a"
MANY = ",".join([NAME] * 5000)
UNTIL = FRESH[1:]


@pytest.fixture
def controller(control_plane: ControlPlane, leader: Leader) -> Api:
    """The API server, accessed as the Job controller does."""
    return Api(control_plane.kubeconfig_for("system:kube-controller-manager", "system:masters"))


def born(nodes: str, template: Manifest | None = None, record: str | None = RECORD) -> Manifest:
    """A pod as the Job controller creates it for a Job that was resumed with a plan."""
    body = as_created_by_its_job(nodes, template=template)
    if record is not None:
        body["metadata"]["annotations"][PLACED_ANNOTATION] = record
    return body


def test_pods_that_are_created_soon_are_bound_by_that(
    leader: Leader, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    first, second = own_nodes(2, cpu="4")
    created(namespace, ranks("train", 3))
    leader.resume(namespace, "train", [first, second, first], LONG)
    pods = pods_of(namespace, 3)
    assert [bound_at_birth(one) for one in pods] == [first, second, first]


def test_pods_that_are_created_later_are_direct(leader: Leader, namespace: Namespace) -> None:
    created(namespace, ranks("train", 2))
    leader.resume(namespace, "train", ["a", "b"], -1)
    assert all(map(is_direct, pods_of(namespace, 2)))


def test_affinity_that_a_user_wrote_stays_as_it_is(controller: Api, namespace: Namespace) -> None:
    labelled = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    affinity: Manifest = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [labelled]}}}
    stored = tried(namespace, born(FRESH, ours("born", affinity=affinity)), controller)
    assert stored["spec"]["nodeName"] == "a"
    assert stored["spec"]["affinity"] == affinity


def indexed(nodes: str, index: str) -> Manifest:
    """A pod of that completion index, of a Job with these nodes."""
    body = as_created_by_its_job(nodes + UNTIL, index)
    body["metadata"]["annotations"][PLACED_ANNOTATION] = RECORD
    return body


@pytest.mark.parametrize(
    ("body", "node"),
    [
        (born(FRESH), "a"),
        (born(FRESH, record=None), ""),
        (born("a"), ""),
        (born("a;"), ""),
        (born("a;1"), ""),
        (born("a;9;9"), ""),
        (born(UNTIL), ""),
        (born(FRESH, ours("born", requests={QPU: 1})), ""),
        (born(FRESH, ours("born", annotations={ALLOCATION_ANNOTATION: "q"})), ""),
        (indexed("a,b", "1"), "b"),
        (indexed("a,b", "2"), ""),
        (indexed("a,b", "1.5"), ""),
        (indexed("a,b", "first"), ""),
        (indexed("a,b", "99999999999999999999"), ""),
        (indexed(",b", "0"), ""),
        (indexed("No/Node", "0"), ""),
        (indexed(MANY, "4999"), NAME),
        (indexed(MANY + ",n" * 2401, "0"), ""),
    ],
    ids=[
        *("planned", "without its record", "without a time", "empty time", "past", "two times", "no node"),
        *("with a device", "with stamps", "in range", "beyond the last", "a fraction", "no number", "huge"),
        *("empty name", "no name", "5,000 nodes", "too long"),
    ],
)
def test_only_a_plain_pod_of_a_fresh_plan_is_bound_by_its_creation(
    controller: Api, namespace: Namespace, body: Manifest, node: str
) -> None:
    stored = tried(namespace, body, controller)
    assert stored["spec"].get("nodeName", "") == node
    assert is_direct(stored) is not bool(node)
    assert NODES_ANNOTATION not in annotations_of(stored)


def test_pod_with_a_gate_of_others_is_not_bound_by_its_creation(
    controller: Api, namespace: Namespace
) -> None:
    body = born(FRESH, ours("born", schedulingGates=[{"name": "x.y/z"}]))
    assert "nodeName" not in tried(namespace, body, controller)["spec"]


def test_pod_that_a_user_creates_like_that_is_not_bound(leader: Leader, namespace: Namespace) -> None:
    assert is_direct(tried(namespace, born(FRESH)))


@pytest.mark.parametrize("kind", ["ReplicaSet", "CronJob"])
def test_pod_of_another_controller_is_not_bound(controller: Api, namespace: Namespace, kind: str) -> None:
    body = born(FRESH)
    body["metadata"]["ownerReferences"][0]["kind"] = kind
    assert is_direct(tried(namespace, body, controller))


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_template_with_a_node_of_its_own_gains_nothing_by_our_keys(
    controller: Api, namespace: Namespace, kind: str
) -> None:
    """Users can't write the record on a Job's template, nor would a Job that has a node get one."""
    body = born("a", ours("born", nodeName="a"), record=None if kind == "Job" else RECORD)
    body["metadata"]["ownerReferences"][0]["kind"] = kind
    assert "get their node from fluence" in refusal(lambda: tried(namespace, body, controller))


def test_user_can_not_change_for_how_long_a_plan_binds(leader: Leader, namespace: Namespace) -> None:
    created(namespace, ranks("train", 2))
    leader.resume(namespace, "train", ["a", "b"], -1)
    pods_of(namespace, 2)
    api, path = namespace.api, path_of(namespace, "train")
    api.patch(path, {"spec": {"suspend": True}})
    pods_of(namespace, 0)
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    longer: dict[str, Any] = {"metadata": {"annotations": {NODES_ANNOTATION: plan("a,b", LONG)}}}
    assert "written by fluence" in refusal(lambda: api.patch(path, {"spec": {"template": longer}}))


def test_user_who_resumes_a_job_while_its_plan_binds_is_refused(
    leader: Leader, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    nodes = own_nodes(2, cpu="4")
    created(namespace, ranks("train", 2))
    began = time.monotonic()
    leader.resume(namespace, "train", nodes, 15)
    pods_of(namespace, 2)
    api, path = namespace.api, path_of(namespace, "train")
    api.patch(path, {"spec": {"suspend": True}})
    pods_of(namespace, 0)
    resuming = {"spec": {"suspend": False}}
    refused = refusal(lambda: api.patch(path, resuming))
    assert "resume it again" in refused or time.monotonic() - began > 14
    wait_for(lambda: not refusal(lambda: api.patch(path, resuming)), what="the plan to be over")
    assert time.monotonic() - began > 13
    assert all(map(is_direct, pods_of(namespace, 2)))


@pytest.fixture
def suspended_by_user(leader: Leader, namespace: Namespace, own_nodes: NodeFactory) -> str:
    """The path of a Job that its user has suspended while its plan binds pods."""
    created(namespace, ranks("train", 2))
    leader.resume(namespace, "train", own_nodes(2, cpu="4"), LONG)
    pods_of(namespace, 2)
    path = path_of(namespace, "train")
    namespace.api.patch(path, {"spec": {"suspend": True}})
    pods_of(namespace, 0)
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    return path


def test_user_who_forges_the_time_of_a_resumption_is_refused(
    suspended_by_user: str, namespace: Namespace
) -> None:
    record = {
        "manager": "forger",
        "operation": "Update",
        "apiVersion": "batch/v1",
        "time": "2999-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:suspend": {}}},
    }
    forged = {"metadata": {"managedFields": [record]}, "spec": {"suspend": False}}
    why = refusal(lambda: namespace.api.patch(suspended_by_user, forged))
    assert "resume it again in 30 seconds" in why


def test_user_may_give_the_nodes_up_and_resume_at_once(suspended_by_user: str, namespace: Namespace) -> None:
    without = {"metadata": {"annotations": {NODES_ANNOTATION: None}}}
    namespace.api.patch(suspended_by_user, {"spec": {"suspend": False, "template": without}})
    assert all(map(is_direct, pods_of(namespace, 2)))
