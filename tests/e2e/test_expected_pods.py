"""Jobs whose pods the service places before they exist."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.model.names import COMPLETION_INDEX, DIRECT_SCHEDULER_NAME, NODES_ANNOTATION
from tests.e2e.expected_pods import bound_at_birth, held, index_of, path_of, ranks
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, phase_of, pod, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.test_outages import freeze
from tests.e2e.test_rejected_pods import reject
from tests.e2e.workloads import ours
from tests.localcluster import ControlPlane


def cores(name: str, count: int, cpu: str = "1", **spec: object) -> Manifest:
    """An Indexed Job whose pods ask for so much CPU each."""
    return ranks(name, count, ours("x", cpu=cpu), **spec)


def delete(namespace: Namespace, name: str) -> None:
    """Delete a Job with its pods."""
    namespace.api.request("DELETE", path_of(namespace, name), {"propagationPolicy": "Background"})


def running(namespace: Namespace, count: int) -> list[Manifest]:
    """The running pods of the namespace by completion index, once there are so many."""
    found = namespace.wait_for_pods(
        lambda pods: sum(phase_of(one) == "Running" for one in pods) == count, f"{count} running pods"
    )
    return sorted((one for one in found if phase_of(one) == "Running"), key=index_of)


def test_job_is_placed_whole_before_its_pods_exist(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    nodes = own_nodes(2, cpu="4")
    namespace.create(cores("train", 8))
    pods = running(namespace, 8)
    template = namespace.api.get(path_of(namespace, "train"))["spec"]["template"]
    plan = annotations_of(template)[NODES_ANNOTATION].partition(";")[0].split(",")
    assert [node_of(one) for one in pods] == plan
    assert [bound_at_birth(one) for one in pods] == plan
    assert set(plan) == set(nodes)
    fluence.wait_for_state(namespace.name, "train", "bound")


def test_job_that_does_not_fit_has_no_pods_and_says_why(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(cores("small", 2), cores("large", 4))
    running(namespace, 2)
    fluence.wait_for_reason(namespace.name, "large", "busy")
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events"

    def told() -> list[str]:
        events = namespace.api.get(path)["items"]
        notes = [one["note"] for one in events if one["regarding"]["name"] == "large"]
        return [note for note in notes if "busy" in note]

    wait_for(told, what="an Event on the Job")
    assert held(namespace.api.get(path_of(namespace, "large")))
    assert len(namespace.pods()) == 2
    delete(namespace, "small")
    running(namespace, 4)


def test_job_that_is_edited_while_it_waits_is_placed_by_its_new_template(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    nodes = own_nodes(2, cpu="4")
    # Its pods end one by one. A larger one has no room here, whichever node is empty first.
    (other,) = own_nodes(1, cpu="2", labels={"pool": "b"})
    namespace.create(cores("full", 10))
    running(namespace, 10)
    namespace.create(cores("larger", 2), cores("elsewhere", 2))
    for name in ("larger", "elsewhere"):
        fluence.wait_for_reason(namespace.name, name, "busy")
    larger = ours("x", cpu="3")["spec"]["containers"]
    for name, spec in (("larger", {"containers": larger}), ("elsewhere", {"nodeSelector": {"pool": "b"}})):
        namespace.api.patch(path_of(namespace, name), {"spec": {"template": {"spec": spec}}})

    def asked() -> list[float]:
        # The gang of the old template goes before that of the new one comes.
        return [one["requests"]["cpu"] for one in fluence.get(f"/v1/gangs/{namespace.name}/larger")["asks"]]

    wait_for(lambda: asked() == [3], what="the service to know what the Job requests now", seen=asked)
    delete(namespace, "full")
    wait_for(lambda: not namespace.pods(**{"job-name": "full"}), what="the pods of the first Job to go")
    running(namespace, 4)
    assert {node_of(one) for one in namespace.pods(**{"job-name": "larger"})} == set(nodes)
    assert {node_of(one) for one in namespace.pods(**{"job-name": "elsewhere"})} == {other}


def test_replacement_of_a_failed_pod_goes_back_to_its_node(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(cores("train", 8))
    before = running(namespace, 8)
    namespace.delete_pod(before[3]["metadata"]["name"])
    namespace.wait_for_pods(
        lambda pods: before[3]["metadata"]["uid"] not in {one["metadata"]["uid"] for one in pods}, "its end"
    )
    assert [node_of(one) for one in running(namespace, 8)] == [node_of(one) for one in before]


def test_replacement_is_placed_anew_where_its_node_is_gone(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    nodes = own_nodes(3, cpu="4")
    namespace.create(cores("train", 8, backoffLimit=20))
    before = running(namespace, 8)
    lost = node_of(before[0])
    namespace.api.delete(f"/api/v1/nodes/{lost}")

    def elsewhere() -> bool:
        # Nobody runs what is created there while the plan binds pods.
        for one in namespace.pods():
            if node_of(one) == lost:
                namespace.delete_pod(one["metadata"]["name"])
        found = [one for one in namespace.pods() if phase_of(one) == "Running"]
        return len(found) == 8 and {node_of(one) for one in found} == set(nodes) - {lost}

    wait_for(elsewhere, what="all pods on the other nodes", timeout=180)
    fluence.wait_for_state(namespace.name, "train", "bound")


def test_pod_that_comes_after_the_plan_is_bound_to_the_place_of_its_index(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    nodes = own_nodes(2, cpu="4")
    with controllers_frozen(control_plane):
        namespace.create(cores("train", 8))
        plan = wait_until_planned(namespace, "train")
        namespace.create(ours("other", cpu="1"))
        fluence.wait_for_reason(namespace.name, "other", "busy")
        time.sleep(BINDS_FOR + 1)
    pods = running(namespace, 8)
    assert set(plan) == set(nodes)
    assert [node_of(one) for one in pods] == plan
    assert all(one["spec"]["schedulerName"] == DIRECT_SCHEDULER_NAME for one in pods)
    assert not node_of(namespace.pod("other"))


def wait_until_planned(namespace: Namespace, job: str) -> list[str]:
    """Return the nodes that the plan of a Job gives its indexes, once it has one."""

    def plan() -> list[str]:
        template = namespace.api.get(path_of(namespace, job))["spec"]["template"]
        return annotations_of(template).get(NODES_ANNOTATION, "").partition(";")[0].split(",")

    wait_for(lambda: plan() != [""], what="the plan")
    return plan()


@contextmanager
def controllers_frozen(plane: ControlPlane) -> Iterator[None]:
    """The Job controller creates nothing while this lasts."""
    process = freeze(plane, "kube-controller-manager")
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.overcommits
def test_foreign_pod_takes_a_planned_place_before_the_pods_exist(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    nodes = own_nodes(3, cpu="4")
    namespace.create(pod("foreign", scheduler="somebody-elses", cpu="4"))
    with controllers_frozen(control_plane):
        namespace.create(cores("train", 8))
        taken = wait_until_planned(namespace, "train")[0]
        namespace.bind("foreign", taken)
    # The kubelet takes the foreign pod, which was there first.
    namespace.wait_for_phase("foreign", "Running")

    def elsewhere() -> bool:
        for one in namespace.pods(**{"job-name": "train"}):
            if node_of(one) == taken and phase_of(one) != "Failed":
                reject(namespace, one, "OutOfcpu")
        found = [one for one in namespace.pods(**{"job-name": "train"}) if phase_of(one) == "Running"]
        return len(found) == 8 and {node_of(one) for one in found} == set(nodes) - {taken}

    wait_for(elsewhere, what="all pods on the other nodes", timeout=180)
    fluence.wait_for_state(namespace.name, "train", "bound")
    assert phase_of(namespace.pod("foreign")) == "Running"


def test_crash_changes_no_plan(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(cores("train", 8), cores("next", 2))
    before = running(namespace, 8)
    fluence.wait_for_reason(namespace.name, "next", "busy")
    allocations = fluence.allocations()
    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, "next", "busy")
    assert fluence.allocations() == allocations
    assert {one["metadata"]["uid"] for one in namespace.pods()} == {one["metadata"]["uid"] for one in before}
    assert held(namespace.api.get(path_of(namespace, "next")))
    assert all(COMPLETION_INDEX in annotations_of(one) for one in before)
