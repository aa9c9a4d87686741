"""A bound pod that its kubelet rejects on a real control plane: everybody is told at once. The test is the kubelet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fluence_extender.cluster.port import BINDS_FOR
from tests.e2e.harness import Cluster, Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import user_shell
from tests.e2e.proxied import behind_proxy
from tests.e2e.service import Fluence
from tests.e2e.test_gangs import condition
from tests.e2e.test_requeue import notes
from tests.e2e.workloads import grouped, indexed_job, ours, pod_group

DEVICE = "nvidia.com/gpu"

KUBELET = {
    "OutOfcpu": "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    "NodeAffinity": "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    "UnexpectedAdmissionError": "Allocate failed due to no healthy devices present, which is unexpected",
}


@pytest.fixture(scope="module", autouse=True)
def proxied(installation: Installation) -> Iterator[None]:
    """The service is reached through the API server while this module runs."""
    with behind_proxy(installation):
        yield


def reject(namespace: Namespace, pod: Manifest, reason: str) -> None:
    """Write what a kubelet writes on a pod that it doesn't admit."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod['metadata']['name']}/status"
    message = f"Pod was rejected: {KUBELET[reason]}"
    status = {"phase": "Failed", "reason": reason, "message": message, "conditions": None}
    namespace.api.patch(path, {"status": status})


@pytest.mark.parametrize("reason", sorted(KUBELET))
def test_rejected_member_is_named_everywhere_until_another_takes_its_place(
    reason: str,
    fluence: Fluence,
    cluster: Cluster,
    namespace: Namespace,
    nodes: NodeFactory,
    tmp_path: Path,
) -> None:
    nodes(2, cpu="1")
    namespace.create(pod_group("pair", 2))
    first, second = (grouped(ours(name, cpu="1"), "pair") for name in ("first", "second"))
    namespace.create(first, second)
    for name in ("first", "second"):
        namespace.wait_for_phase(name, "Running")
    wait_for(
        lambda: condition(namespace, "pair").get("status") == "True", what="the PodGroup to be Scheduled"
    )
    lost = namespace.pod("second")
    reject(namespace, lost, reason)

    rejected = f"kubelet rejected second on {node_of(lost)} ({reason}: {KUBELET[reason]})"
    seen = fluence.wait_for_reason(namespace.name, "pair", rejected)
    assert (seen["state"], seen["why"]) == ("committed", "Rejected")
    wait_for(lambda: condition(namespace, "pair").get("reason") == "Rejected", what="the condition")
    told = condition(namespace, "pair")
    assert told["status"] == "False"
    assert told["message"].startswith(rejected)
    wait_for(lambda: notes(namespace, "second", "Rejected"), what="the Event")
    (note,) = notes(namespace, "second", "Rejected")
    assert rejected in note
    assert not notes(namespace, "first", "Rejected")
    shell = user_shell(cluster.kubeconfig, namespace.name, tmp_path)
    assert rejected in shell.fluence("why", "pair").stdout
    assert rejected in shell.fluence("jobs", "-o", "wide").stdout

    namespace.create(grouped(ours("third", cpu="1"), "pair"))
    assert fluence.wait_for_state(namespace.name, "pair", "bound")["reason"] == ""
    wait_for(lambda: condition(namespace, "pair").get("status") == "True", what="it to be Scheduled again")
    assert namespace.pod("first")["status"]["phase"] == "Running"


def test_job_replaces_a_rejected_pod_and_its_gang_is_whole_again(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(2, cpu="1")
    namespace.create(indexed_job("train", ours("x", cpu="1"), 2))
    fluence.wait_for_state(namespace.name, "train", "bound")
    lost = namespace.pods(**{"batch.kubernetes.io/job-completion-index": "1"})[0]
    namespace.wait_for_phase(lost["metadata"]["name"], "Running")
    reject(namespace, lost, "OutOfcpu")

    def running() -> bool:
        return sum(1 for one in namespace.pods() if one["status"]["phase"] == "Running") == 2

    wait_for(running, what="two running pods")
    assert fluence.wait_for_state(namespace.name, "train", "bound")["reason"] == ""


def test_members_that_run_are_left_alone_while_the_node_of_another_reboots(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, nodes: NodeFactory
) -> None:
    """The kubelet is back before the device plugin: the node has no devices for a while, and the pod is rejected."""
    nodes(2, cpu="1", extended={DEVICE: 8})
    asks = {"cpu": "100m", DEVICE: "8"}
    template = ours("x")
    template["spec"]["containers"][0]["resources"] = {"requests": asks, "limits": {DEVICE: "8"}}
    namespace.create(indexed_job("train", template, 2))
    fluence.wait_for_state(namespace.name, "train", "bound")
    runs, lost = namespace.pods()
    for one in (runs, lost):
        namespace.wait_for_phase(one["metadata"]["name"], "Running")
    # A member that has run for some seconds has run, whatever its kubelet says later. And while the plan binds pods,
    # the next pod is created on the same node.
    time.sleep(BINDS_FOR + 2)

    def devices(count: str) -> None:
        cluster.api.patch(
            f"/api/v1/nodes/{node_of(lost)}/status", {"status": {"allocatable": {DEVICE: count}}}
        )

    devices("0")
    reject(namespace, lost, "UnexpectedAdmissionError")
    wait_for(lambda: len(replacements(namespace, runs, lost)) == 1, what="the Job's next pod")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        assert namespace.pod(runs["metadata"]["name"])["metadata"]["uid"] == runs["metadata"]["uid"]
        seen = fluence.gang(namespace.name, "train")
        assert seen is not None
        assert seen["why"] != "Unsatisfiable"
        (other,) = replacements(namespace, runs, lost)
        assert not node_of(other)
        time.sleep(0.5)
    devices("8")
    fluence.wait_for_state(namespace.name, "train", "bound")
    (other,) = replacements(namespace, runs, lost)
    assert node_of(other) == node_of(lost)
    assert namespace.pod(runs["metadata"]["name"])["status"]["phase"] == "Running"


def replacements(namespace: Namespace, *former: Manifest) -> list[Manifest]:
    """Return the pods that exist in place of former ones."""
    uids = {one["metadata"]["uid"] for one in former}
    return [one for one in namespace.pods() if one["metadata"]["uid"] not in uids]
