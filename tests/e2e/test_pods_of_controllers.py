"""Pods that controllers make and replace get their node from the service, and keep what their users wrote."""

from __future__ import annotations

from fluence_extender.model.names import DIRECT_SCHEDULER_NAME
from tests.e2e.expected_pods import ranks
from tests.e2e.harness import Namespace, job, node_of
from tests.e2e.history import History
from tests.e2e.installation import Installation, gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, ours

PRESENT = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
FAST = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def test_pods_of_a_job_are_bound_without_any_other_write_of_a_scheduler(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(4, cpu="2")
    namespace.create(job("array", ours("x", cpu="1"), parallelism=6, completions=6))
    pods = namespace.wait_until_bound(6)
    history.wait(6)
    for one in pods:
        assert (one["spec"]["schedulerName"], gates_of(one)) == (DIRECT_SCHEDULER_NAME, [])
        assert "nominatedNodeName" not in one["status"]
        assert "affinity" not in one["spec"]


def test_alternatives_of_a_user_are_kept_as_they_are(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="2")
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [FAST, PRESENT]}}}
    template = ours("x", cpu="1")
    template["spec"]["affinity"] = affinity
    namespace.create(deployment("web", template, 1))
    (one,) = namespace.wait_until_bound(1)
    assert one["spec"]["affinity"] == affinity


def test_pod_whose_planned_node_is_cordoned_goes_to_another_and_is_not_replaced(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    (gone,) = own_nodes(1, cpu="2")
    template = ours("x", filtered=True, cpu="1", labels={"app": "web"})
    with installation.scheduler_stopped():
        namespace.create(deployment("web", template, 1))
        (first,) = namespace.wait_for_pods(
            lambda pods: len(pods) == 1 and pods[0]["status"].get("nominatedNodeName") == gone,
            "a pod that is nominated",
        )
        namespace.api.patch(f"/api/v1/nodes/{gone}", {"spec": {"unschedulable": True}})
        (there,) = own_nodes(1, cpu="2")
    (bound,) = namespace.wait_until_bound(1, 150)
    assert node_of(bound) == there
    assert bound["metadata"]["uid"] == first["metadata"]["uid"]


def test_job_does_not_count_an_evicted_pod_as_failed(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(ranks("fragile", 2, ours("x", cpu="1"), backoffLimit=0))
    first, _ = namespace.wait_until_bound(2)
    name, uid = first["metadata"]["name"], first["metadata"]["uid"]
    namespace.wait_for_phase(name, "Running")
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    namespace.api.request("POST", path, body)
    namespace.wait_for_pods(
        lambda pods: (
            len([one for one in pods if node_of(one) and one["status"]["phase"] == "Running"]) == 2
            and uid not in {one["metadata"]["uid"] for one in pods}
        ),
        "another pod in its place",
        240,
    )
    found = namespace.api.get(f"/apis/batch/v1/namespaces/{namespace.name}/jobs/fragile")
    assert int(found["status"].get("failed", 0)) == 0
