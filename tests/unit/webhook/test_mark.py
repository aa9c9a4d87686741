"""The webhook marks pods whose Binding kube-scheduler has to leave to the extender."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace

import pytest

from fluence_extender.cluster.decode.pod import Volume, decode_pod
from fluence_extender.model.names import (
    FIRST_SEEN_ANNOTATION,
    MARK_RESOURCE,
    NODES_ANNOTATION,
    PINNED_ANNOTATION,
    PLACED_ANNOTATION,
)
from fluence_extender.webhook.mark import needs_mark
from fluence_extender.webhook.mutate import mutate
from tests.core.marks import PODS, VOLUMES, pod
from tests.unit.webhook.pods import CONTEXT, REQUEST, admitted

BY_WEBHOOK = replace(CONTEXT, gate_by_webhook=True)
JUDGED = "with a volume of kind persistentVolumeClaim"


def test_pods_are_marked_for_the_kinds_of_volumes_that_are_read() -> None:
    assert Volume.__annotations__.keys() == VOLUMES.keys()


@pytest.mark.parametrize("what", PODS)
def test_pods_that_are_marked(what: str) -> None:
    body, marked = PODS[what]
    assert needs_mark(body) is marked
    assert decode_pod(json.dumps(admitted(body, BY_WEBHOOK, handlers=())).encode()).marked is marked


def test_mark_is_requested_and_limited_in_the_first_container_only() -> None:
    body, _ = PODS[JUDGED]
    body = deepcopy(body)
    body["spec"]["containers"].append({"name": "other", "image": "app"})
    first, other = admitted(body, BY_WEBHOOK, handlers=())["spec"]["containers"]
    assert first["resources"] == {"requests": {MARK_RESOURCE: "0"}, "limits": {MARK_RESOURCE: "0"}}
    assert "resources" not in other


def test_marked_pod_is_left_as_it_is() -> None:
    body, _ = PODS[JUDGED]
    once = admitted(body, BY_WEBHOOK, handlers=())
    assert mutate(once, REQUEST, (), BY_WEBHOOK).patch == ()


def test_webhook_marks_no_pod_if_a_policy_does() -> None:
    body, _ = PODS[JUDGED]
    assert mutate(body, REQUEST, (), CONTEXT).patch == ()


def test_bound_pod_is_not_marked() -> None:
    assert (
        mutate(pod(nodeName="n0", schedulingGroup={"podGroupName": "g"}), REQUEST, (), BY_WEBHOOK).patch == ()
    )


COPIES = {
    PINNED_ANNOTATION: "n0",
    PLACED_ANNOTATION: "2 group/g",
    FIRST_SEEN_ANNOTATION: "1",
    NODES_ANNOTATION: "n0,n1",
}


def test_records_of_another_pod_are_taken_off_where_no_policy_does() -> None:
    body = pod({"annotations": {**COPIES, "users": "own"}})
    assert admitted(body, BY_WEBHOOK, handlers=())["metadata"]["annotations"] == {"users": "own"}
    assert mutate(body, REQUEST, (), CONTEXT).patch == ()


def test_records_on_a_pod_with_a_node_are_left_for_the_policy_to_refuse() -> None:
    assert mutate(pod({"annotations": COPIES}, nodeName="n0"), REQUEST, (), BY_WEBHOOK).patch == ()
