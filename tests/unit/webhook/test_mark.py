"""The mark by which kube-scheduler leaves a pod's Binding to us, where the webhook puts it on."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace

import pytest

from fluence_extender.cluster.decode import decode_pod
from fluence_extender.cluster.wire import Volume
from fluence_extender.model.names import MARK_RESOURCE
from fluence_extender.webhook.mark import JUDGED_VOLUMES, is_to_be_marked
from fluence_extender.webhook.mutate import mutate
from tests.core.marks import PODS, VOLUMES, pod
from tests.unit.webhook.pods import CONTEXT, REQUEST, admitted

BY_WEBHOOK = replace(CONTEXT, gate_by_webhook=True)
JUDGED = "with a volume of kind persistentVolumeClaim"


def test_pods_are_marked_for_the_kinds_of_volumes_that_are_read() -> None:
    assert set(JUDGED_VOLUMES) == Volume.__annotations__.keys() == VOLUMES.keys()


@pytest.mark.parametrize("what", PODS)
def test_who_is_marked(what: str) -> None:
    body, marked = PODS[what]
    assert is_to_be_marked(body) is marked
    assert decode_pod(json.dumps(admitted(body, BY_WEBHOOK, handlers=())).encode()).marked is marked


def test_mark_is_asked_for_and_granted_in_the_first_container_alone() -> None:
    body, _ = PODS[JUDGED]
    body = deepcopy(body)
    body["spec"]["containers"].append({"name": "other", "image": "app"})
    first, other = admitted(body, BY_WEBHOOK, handlers=())["spec"]["containers"]
    assert first["resources"] == {"requests": {MARK_RESOURCE: "1"}, "limits": {MARK_RESOURCE: "1"}}
    assert "resources" not in other


def test_marked_pod_is_left_as_it_is() -> None:
    body, _ = PODS[JUDGED]
    once = admitted(body, BY_WEBHOOK, handlers=())
    assert mutate(once, REQUEST, (), BY_WEBHOOK).patch == ()


def test_policy_marks_where_there_is_one() -> None:
    body, _ = PODS[JUDGED]
    assert mutate(body, REQUEST, (), CONTEXT).patch == ()


def test_bound_pod_is_not_marked() -> None:
    assert (
        mutate(pod(nodeName="n0", schedulingGroup={"podGroupName": "g"}), REQUEST, (), BY_WEBHOOK).patch == ()
    )
