"""The local control plane is a real cluster, and the judge and the played kubelets do what tests rely on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import (
    FAIL_AFTER,
    NODE_READY,
    STOP_FOR,
    Cluster,
    Namespace,
    job,
    node_of,
    phase_of,
    pod,
    start_api_server,
    wait_for,
)
from tests.e2e.nodes import NodeFactory
from tests.localcluster import (
    Api,
    ApiError,
    Component,
    ControlPlane,
)
from tests.localcluster.recipe import release


def test_server_is_of_the_release_that_is_tested_on(control_plane: ControlPlane) -> None:
    assert control_plane.api.get("/version")["gitVersion"] == release().kubernetes


def test_stock_scheduler_binds_a_pod_and_it_runs(
    namespace: Namespace, nodes: NodeFactory, default_scheduler: Component | None
) -> None:
    names = nodes(2, cpu="2")
    namespace.create(pod("one", cpu="1", nodeSelector={"kubernetes.io/hostname": names[1]}))
    assert node_of(namespace.wait_for_phase("one", "Running")) == names[1]


def test_job_completes_once_its_pods_have_run_their_time(
    namespace: Namespace, nodes: NodeFactory, default_scheduler: Component | None, control_plane: ControlPlane
) -> None:
    nodes(1, cpu="4")
    namespace.create(job("work", pod("x", cpu="1", run_for="200ms"), parallelism=3))
    path = f"/apis/batch/v1/namespaces/{namespace.name}/jobs/work"
    wait_for(lambda: control_plane.api.get(path)["status"].get("succeeded") == 3, what="the Job to complete")
    assert {phase_of(member) for member in namespace.pods()} == {"Succeeded"}


def test_pod_fails_and_lingers_as_its_annotations_say(
    namespace: Namespace, nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1)
    namespace.create(pod("failing", annotations={FAIL_AFTER: "100ms"}))
    namespace.create(pod("lingering", annotations={STOP_FOR: "3s"}))
    namespace.bind("failing", node)
    namespace.bind("lingering", node)
    assert namespace.wait_for_phase("failing", "Failed")["status"].get("reason") is None
    namespace.wait_for_phase("lingering", "Running")
    began = time.monotonic()
    path = f"/api/v1/namespaces/{namespace.name}/pods/lingering"
    assert namespace.api.delete(path, gracePeriodSeconds="30")["metadata"]["deletionTimestamp"]
    namespace.wait_for_pods(lambda pods: len(pods) == 1, "the lingering pod to go")
    assert time.monotonic() - began > 2.9


def test_init_containers_are_done_and_sidecars_run_as_long_as_the_pod(
    namespace: Namespace, nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1)
    first = {"name": "first", "image": "first"}
    sidecar = {"name": "sidecar", "image": "sidecar", "restartPolicy": "Always"}
    stays = pod("stays", initContainers=[first, sidecar])
    ends = pod("ends", initContainers=[first, sidecar], restartPolicy="Never", run_for="100ms")
    namespace.create(stays, ends)
    namespace.bind("stays", node)
    namespace.bind("ends", node)
    runs = namespace.wait_for_phase("stays", "Running")["status"]
    ended = namespace.wait_for_phase("ends", "Succeeded")["status"]
    assert states(runs) == {"first": "terminated", "sidecar": "running", "main": "running"}
    assert states(ended) == {"first": "terminated", "sidecar": "terminated", "main": "terminated"}
    ready = {entry["type"]: entry["status"] for entry in runs["conditions"]}
    assert ready.items() >= {"PodScheduled": "True", "Initialized": "True", "Ready": "True"}.items()
    assert {entry["status"] for entry in ended["conditions"] if entry["type"] == "Ready"} == {"False"}


def states(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the state of each container by its name."""
    every = [*status["initContainerStatuses"], *status["containerStatuses"]]
    return {container["name"]: next(iter(container["state"])) for container in every}


@pytest.mark.overcommits
def test_judge_fails_the_pod_that_overcommits_its_node(
    cluster: Cluster, namespace: Namespace, nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1, cpu="2")
    namespace.create(pod("first", cpu="1500m"), pod("second", cpu="501m"), pod("third", cpu="500m"))
    for name in ("first", "second", "third"):
        namespace.bind(name, node)
    refused = namespace.wait_for_phase("second", "Failed")
    assert refused["status"]["reason"] == "OutOfcpu"
    assert "requested: 501, used: 1500, capacity: 2000" in refused["status"]["message"]
    namespace.wait_for_phase("first", "Running")
    namespace.wait_for_phase("third", "Running")
    mine = [violation for violation in cluster.judge.violations if violation.node == node]
    assert [(violation.pod, violation.reason) for violation in mine] == [
        (f"{namespace.name}/second", "OutOfcpu")
    ]


@pytest.mark.overcommits
def test_rejected_pod_stays_failed_whatever_its_kubelet_says(
    namespace: Namespace, nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1, memory="1Gi")
    namespace.create(pod("over", memory="1025Mi"))
    namespace.bind("over", node)
    namespace.wait_for_phase("over", "Failed")
    path = f"/api/v1/namespaces/{namespace.name}/pods/over/status"
    control_plane.api.patch(path, {"status": {"phase": "Running", "reason": None}})
    assert namespace.wait_for_phase("over", "Failed")["status"]["reason"] == "OutOfmemory"


def test_judge_gives_the_room_of_an_ended_pod_to_the_next(
    cluster: Cluster, namespace: Namespace, nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1, cpu="2")
    namespace.create(pod("ends", cpu="2", run_for="100ms"), pod("deleted", cpu="2"), pod("last", cpu="2"))
    namespace.bind("ends", node)
    namespace.wait_for_phase("ends", "Succeeded")
    namespace.bind("deleted", node)
    namespace.wait_for_phase("deleted", "Running")
    namespace.delete_pod("deleted")
    namespace.bind("last", node)
    namespace.wait_for_phase("last", "Running")
    assert cluster.judge.settle()


def test_service_account_may_do_what_rbac_grants_and_no_more(
    namespace: Namespace, service_account: Callable[[str], Path], control_plane: ControlPlane
) -> None:
    api = Api(service_account("reader"))
    pods = f"/api/v1/namespaces/{namespace.name}/pods"
    with pytest.raises(ApiError, match=r"reader.*cannot list") as refused:
        api.get(pods)
    assert refused.value.status == 403
    namespace.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace.name}],
        }
    )

    wait_for(lambda: api.reachable(pods), what="the RoleBinding to take effect")


def test_native_pod_groups_are_served_and_go_when_deleted(
    namespace: Namespace, control_plane: ControlPlane
) -> None:
    served = control_plane.api.get(f"/apis/{release().pod_groups}")["resources"]
    assert {"PodGroup", "Workload"} <= {entry["kind"] for entry in served}
    group = {
        "apiVersion": release().pod_groups,
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    namespace.create(group)
    path = control_plane.api.path_of(group, namespace.name)
    control_plane.api.delete(path)
    wait_for(lambda: not control_plane.api.reachable(path), what="the deleted PodGroup to go")


def test_node_is_unready_while_its_annotation_says_so(
    nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1, extended={"example.com/gpu": 2}, labels={"rack": "r1"})
    path = f"/api/v1/nodes/{node}"
    assert control_plane.api.get(path)["status"]["allocatable"]["example.com/gpu"] == "2"

    def tainted() -> bool:
        taints = control_plane.api.get(path)["spec"].get("taints") or ()
        return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)

    control_plane.api.patch(path, {"metadata": {"annotations": {NODE_READY: "false"}}})
    wait_for(tainted, what="the not-ready taint")
    control_plane.api.patch(path, {"metadata": {"annotations": {NODE_READY: None}}})
    wait_for(lambda: not tainted(), what="the not-ready taint to go")


@pytest.mark.overcommits
def test_judge_sees_what_is_bound_after_a_restart_of_the_api_server(
    namespace: Namespace, nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    (node,) = nodes(1, cpu="1")
    namespace.create(pod("fits", cpu="1"), pod("over", cpu="1"))
    namespace.bind("fits", node)
    namespace.wait_for_phase("fits", "Running")
    control_plane.component("kube-apiserver").stop()
    start_api_server(control_plane)
    namespace.bind("over", node)
    assert namespace.wait_for_phase("over", "Failed")["status"]["reason"] == "OutOfcpu"
