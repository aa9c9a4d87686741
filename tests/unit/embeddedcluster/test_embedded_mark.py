"""New pods of an embedded cluster are marked if kube-scheduler has to leave their Binding to the extender."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from fluence_extender.cluster.decode.pod import Volume, decode_pod
from fluence_extender.embeddedcluster.admission import admit
from fluence_extender.embeddedcluster.mark import mark, needs_mark, take_off_copies
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.names import (
    MARK_RESOURCE,
    NODES_ANNOTATION,
    PINNED_ANNOTATION,
    PLACED_ANNOTATION,
)
from fluence_extender.webhook.draft import Draft
from tests.core.marks import PODS, VOLUMES, pod

JUDGED = "with a volume of kind persistentVolumeClaim"
NO_RESOURCES = parse_resources("")


def admitted(body: dict[str, Any]) -> Draft:
    draft = Draft(body)
    mark(draft)
    return draft


def test_pods_are_marked_for_the_kinds_of_volumes_that_are_read() -> None:
    assert Volume.__annotations__.keys() == VOLUMES.keys()


@pytest.mark.parametrize("what", PODS)
def test_pods_that_are_marked(what: str) -> None:
    body, marked = PODS[what]
    assert needs_mark(body) is marked
    assert decode_pod(json.dumps(admitted(body).object).encode()).marked is marked


def test_mark_is_requested_and_limited_in_the_first_container_only() -> None:
    body, _ = PODS[JUDGED]
    body = deepcopy(body)
    body["spec"]["containers"].append({"name": "other", "image": "app"})
    first, other = admitted(body).object["spec"]["containers"]
    assert first["resources"] == {"requests": {MARK_RESOURCE: "0"}, "limits": {MARK_RESOURCE: "0"}}
    assert "resources" not in other


def test_marked_pod_is_left_as_it_is() -> None:
    body, _ = PODS[JUDGED]
    assert admitted(admitted(body).object).operations == []


def test_bound_pod_is_neither_marked_nor_gated() -> None:
    named = {"name": "p", "namespace": "default"}
    body = pod(named, nodeName="n0", schedulingGroup={"podGroupName": "g"})
    bound = admit(body, NO_RESOURCES)
    assert (bound.marked, bound.gates) == (False, ())


COPIES = {
    PINNED_ANNOTATION: "n0",
    PLACED_ANNOTATION: "2 group/g",
    NODES_ANNOTATION: "n0,n1",
}


def test_plans_of_another_pod_are_taken_off() -> None:
    draft = Draft(pod({"annotations": {**COPIES, "users": "own"}}))
    take_off_copies(draft)
    kept = {PLACED_ANNOTATION: COPIES[PLACED_ANNOTATION], "users": "own"}
    assert draft.object["metadata"]["annotations"] == kept


def test_records_on_a_pod_with_a_node_are_left_for_the_policy_to_refuse() -> None:
    body = pod({"name": "p", "namespace": "default", "annotations": COPIES}, nodeName="n0")
    assert admit(body, NO_RESOURCES).annotations == COPIES
