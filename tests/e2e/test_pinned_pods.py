"""Pods that a controller replaces are told their node by the very write that ungates them."""

from __future__ import annotations

from typing import Any

from fluence_extender.model.names import PINNED_ANNOTATION
from tests.e2e.harness import Manifest, Namespace, annotations_of, job, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation, gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, ours

PRESENT = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
FAST = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms_of(pod: Manifest) -> list[Manifest]:
    """The terms of the pod's required node affinity."""
    found: list[Manifest] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def names_in(term: Manifest) -> list[str]:
    """The nodes that a term names."""
    return [name for field in term.get("matchFields", ()) for name in field["values"]]


def test_pods_of_a_job_are_confined_to_their_nodes_and_never_nominated(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(4, cpu="2")
    namespace.create(job("array", ours("x", cpu="1"), parallelism=6, completions=6))
    pods = namespace.wait_until_bound(6)
    history.wait(6)
    for one in pods:
        assert annotations_of(one)[PINNED_ANNOTATION] == node_of(one) == names_in(terms_of(one)[0])[0]


def test_alternatives_of_a_user_are_kept_and_each_confined(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="2")
    template = ours("x", cpu="1")
    template["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [FAST, PRESENT]}}}
    namespace.create(deployment("web", template, 1))
    (one,) = namespace.wait_until_bound(1)
    fast, present = terms_of(one)
    assert names_in(fast) == names_in(present) == [node_of(one)]
    assert fast["matchExpressions"] == FAST["matchExpressions"]
    assert present["matchExpressions"] == PRESENT["matchExpressions"]


def test_pod_whose_nodes_have_all_gone_is_replaced_by_its_controller(
    namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    (gone,) = own_nodes(1, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(deployment("web", ours("x", cpu="1"), 1))
        (first,) = namespace.wait_for_pods(
            lambda pods: len(pods) == 1 and not gates_of(pods[0]), "a pod that is ungated"
        )
        assert annotations_of(first)[PINNED_ANNOTATION] == gone
        namespace.api.patch(f"/api/v1/nodes/{gone}", {"spec": {"unschedulable": True}})
        (there,) = own_nodes(1, cpu="2")
    (second,) = namespace.wait_until_bound(1, 150)
    assert node_of(second) == there
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    wait_for(
        lambda: any("its successor is placed anew" in event["note"] for event in events(namespace)),
        what="the Event about the pod that was evicted",
    )


IGNORES = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


COUNTS = {"rules": [{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def test_job_does_not_count_an_evicted_pod_as_failed_and_pods_of_one_whose_policy_does_are_not_pinned(
    namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    (gone,) = own_nodes(1, cpu="4")
    specs: dict[str, dict[str, Any]] = {
        "fragile": {"backoffLimit": 0},
        "ignores": {"backoffLimit": 0, "podFailurePolicy": IGNORES},
        "counts": {"backoffLimit": 9, "podFailurePolicy": COUNTS},
    }
    with installation.scheduler_stopped():
        for name, spec in specs.items():
            namespace.create(job(name, ours("x", cpu="1"), **spec))
        first = namespace.wait_for_pods(
            lambda pods: len(pods) == 3 and not any(map(gates_of, pods)), "three pods that are ungated"
        )
        pinned = {job_of(one): PINNED_ANNOTATION in annotations_of(one) for one in first}
        assert pinned == {"fragile": True, "ignores": True, "counts": False}
        namespace.api.patch(f"/api/v1/nodes/{gone}", {"spec": {"unschedulable": True}})
        (there,) = own_nodes(1, cpu="4")
    pods = namespace.wait_for_pods(
        lambda pods: [node_of(one) for one in pods] == [there] * 3, "three pods on the other node", 240
    )
    kept = {one["metadata"]["uid"] for one in first} & {one["metadata"]["uid"] for one in pods}
    assert [job_of(one) for one in pods if one["metadata"]["uid"] in kept] == ["counts"]
    assert {name: failed(namespace, name) for name in specs} == {"fragile": 0, "ignores": 0, "counts": 0}


def job_of(pod: Manifest) -> str:
    """The Job that the pod is of."""
    name: str = pod["metadata"]["ownerReferences"][0]["name"]
    return name


def failed(namespace: Namespace, name: str) -> int:
    """How many pods of a Job have failed, by its own count."""
    found = namespace.api.get(f"/apis/batch/v1/namespaces/{namespace.name}/jobs/{name}")
    return int(found["status"].get("failed", 0))


def events(namespace: Namespace) -> list[Manifest]:
    """All Events of the namespace."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events"
    found: list[Manifest] = namespace.api.get(path)["items"]
    return found
