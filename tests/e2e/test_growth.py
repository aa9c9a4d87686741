"""Gangs that make the cluster grow, with an autoscaler that sees what Cluster Autoscaler and Karpenter see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from fluence_extender.model.names import KEEPING, KEPT_ANNOTATION
from tests.e2e.autoscaler import Autoscaler, asks_for_nodes
from tests.e2e.expected_pods import ranks
from tests.e2e.harness import Cluster, Manifest, Namespace, annotations_of, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, ours
from tests.localcluster import Api, ApiError

DISABLED, DO_NOT_DISRUPT = KEEPING


@pytest.fixture
def growing(installation: Installation) -> Iterator[Installation]:
    """The service with gangs that ask for nodes after a second."""
    with installation.other("--grow-after", "1"):
        yield installation


def asking(namespace: Namespace, count: int) -> list[Manifest]:
    """The pods that ask for nodes, once there are so many."""
    found = namespace.wait_for_pods(
        lambda pods: sum(map(asks_for_nodes, pods)) == count, f"{count} pods that ask for nodes"
    )
    return [one for one in found if asks_for_nodes(one)]


def since(pods: list[Manifest]) -> set[str]:
    return {
        one["lastTransitionTime"]
        for pod in pods
        for one in pod["status"]["conditions"]
        if one["type"] == "PodScheduled"
    }


def refusal(write: Callable[[], object]) -> str:
    """Why the API server refuses a write, "" if it doesn't."""
    try:
        write()
    except ApiError as error:
        return str(error)
    return ""


def test_job_makes_the_cluster_grow_by_what_the_whole_of_it_needs(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=10, cpu="4")
    namespace.create(ranks("train", 4, ours("x", cpu="3")))
    assert not any(node_of(one) for one in asking(namespace, 4))
    wait_for(lambda: len(autoscaler.step()) == 3, what="three more nodes")
    pods = namespace.wait_until_bound(4)
    assert {node_of(one) for one in pods} == {here, *autoscaler.added}
    fluence.wait_for_state(namespace.name, "train", "bound")
    assert len(autoscaler.step()) == 3


def test_nodes_that_come_one_by_one_are_kept_for_the_gang_that_asked(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=2, at_once=1, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    asking(namespace, 3)
    wait_for(lambda: len(autoscaler.step()) == 1, what="the first node")
    namespace.create(*gang("later", 2, cpu="2"))
    pods = namespace.wait_until_bound(2)
    assert {node_of(one) for one in pods if node_of(one)} == {here}
    namespace.create(*gang("last", 1, cpu="3"))
    fluence.wait_for_reason(namespace.name, "last", "busy")
    for one in pods:
        if node_of(one):
            namespace.delete_pod(one["metadata"]["name"])
    namespace.wait_for_pods(lambda pods: sum(bool(node_of(one)) for one in pods) == 1, "the last gang")
    namespace.delete_pod("last-0")
    wait_for(lambda: len(autoscaler.step()) == 2, what="the second node")
    assert {node_of(one) for one in namespace.wait_until_bound(3)} == {here, *autoscaler.added}


def test_gang_that_no_known_node_could_hold_asks_for_nothing(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(*gang("huge", 2, cpu="5"), *gang("large", 2, cpu="4"))
    assert {one["metadata"]["name"] for one in asking(namespace, 2)} == {"large-0", "large-1"}
    fluence.wait_for_reason(namespace.name, "huge", "unsatisfiable")


def test_crash_changes_nothing_of_what_was_asked(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=10, at_once=1, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    before = since(asking(namespace, 3))
    wait_for(lambda: len(autoscaler.step()) == 1, what="the first node")
    growing.crash()
    growing.revive()
    namespace.create(*gang("later", 2, cpu="3"))
    fluence.wait_for_reason(namespace.name, "later", "busy")
    assert before <= since([one for one in asking(namespace, 5) if "train" in one["metadata"]["name"]])
    wait_for(lambda: len(autoscaler.step()) >= 2, what="the second node")
    pods = namespace.wait_for_pods(
        lambda pods: sum(bool(node_of(one)) for one in pods) >= 3, "the gang that asked first"
    )
    assert all(node_of(one) for one in pods if one["metadata"]["name"].startswith("train"))
    assert here in {node_of(one) for one in pods}


def test_empty_node_goes_and_one_that_is_held_stays(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=3, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    asking(namespace, 3)
    (held,) = own_nodes(1, prefix="grown", cpu="4")
    autoscaler.added.append(held)

    def kept() -> bool:
        return annotations_of(cluster.nodes()[held]).get(DISABLED) == "true"

    wait_for(kept, what="the node to be kept")
    assert annotations_of(cluster.nodes()[held])[KEPT_ANNOTATION] == ",".join(sorted(KEEPING))
    assert autoscaler.remove_empty() == [held]
    for one in namespace.pods():
        namespace.delete_pod(one["metadata"]["name"])
    wait_for(lambda: not kept(), what="the node to be let go", timeout=150)
    assert not annotations_of(cluster.nodes()[held]).keys() & {*KEEPING, KEPT_ANNOTATION}
    assert autoscaler.remove_empty() == []


def test_policies_bound_what_the_account_may_write(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    account = Api(growing.kubeconfig)
    node = f"/api/v1/nodes/{here}"
    cluster.api.patch(node, {"metadata": {"annotations": {DISABLED: "true"}}})
    for change in (
        {"metadata": {"annotations": {DISABLED: None}}},
        {"metadata": {"annotations": {DO_NOT_DISRUPT: "false"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"unschedulable": True}},
    ):
        assert "fluence-accounts-nodes" in refusal(partial(account.patch, node, change))
