"""Gangs that ask for nodes by a ProvisioningRequest, with an autoscaler that serves it as Cluster Autoscaler does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

import pytest

from fluence_extender.localcluster import Api, ApiError
from fluence_extender.model.names import (
    ATOMIC_CLASS,
    CLASS_ANNOTATION,
    CONSUMES_ANNOTATION,
    CREATED_BY_ANNOTATION,
    GROUP_LABEL,
    KEEPING,
    KEPT_ANNOTATION,
    MARK_RESOURCE,
    SERVICE_NAME,
)
from tests.e2e.autoscaler import REQUESTS, Autoscaler, asks_for_nodes
from tests.e2e.births import ranks
from tests.e2e.harness import Cluster, Manifest, Namespace, annotations_of, node_of, wait_for
from tests.e2e.installation import Installation, gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.operators import installed
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, ours

DISABLED, DO_NOT_DISRUPT = KEEPING
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


@pytest.fixture
def growing(installation: Installation) -> Iterator[Installation]:
    """The service with gangs that ask for nodes after a second, where ProvisioningRequests are served."""
    with served(installation), installation.other("--grow-after", "1"):
        yield installation


@contextmanager
def served(installation: Installation) -> Iterator[None]:
    """While this lasts, ProvisioningRequests are served and listed among what is."""
    api = installation.plane.api

    def listed() -> bool:
        return any(one["name"] == "autoscaling.x-k8s.io" for one in api.get("/apis")["groups"])

    with installed(api, "ProvisioningRequest"):
        wait_for(listed, what="the group to be listed")
        yield


def requests(namespace: Namespace) -> list[Manifest]:
    """The requests of a namespace."""
    found: list[Manifest] = namespace.api.get(f"{REQUESTS}/namespaces/{namespace.name}/provisioningrequests")[
        "items"
    ]
    return found


def templates(namespace: Namespace) -> list[Manifest]:
    found: list[Manifest] = namespace.api.get(f"/api/v1/namespaces/{namespace.name}/podtemplates")["items"]
    return found


def the_request(namespace: Namespace) -> Manifest:
    """The only request, once there is one."""
    wait_for(lambda: len(requests(namespace)) == 1, what="a ProvisioningRequest")
    return requests(namespace)[0]


def told(namespace: Namespace, reason: str) -> list[str]:
    """What Events of a reason say."""
    found = namespace.api.get(EVENTS.format(namespace.name))["items"]
    return [one["note"] for one in found if one["reason"] == reason]


def refusal(write: Callable[[], object]) -> str:
    """Why the API server refuses a write, "" if it doesn't."""
    try:
        write()
    except ApiError as error:
        return str(error)
    return ""


def test_one_request_brings_all_nodes_of_a_job_before_its_pods_exist(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=10, boots=1, cpu="4")
    namespace.create(ranks("train", 4, ours("x", cpu="3")))
    request = the_request(namespace)
    assert request["spec"]["provisioningClassName"] == ATOMIC_CLASS
    assert [one["count"] for one in request["spec"]["podSets"]] == [4]
    assert [one["kind"] for one in request["metadata"]["ownerReferences"]] == ["Job"]
    (template,) = templates(namespace)
    (container,) = template["template"]["spec"]["containers"]
    assert MARK_RESOURCE not in container["resources"]["requests"]
    assert not namespace.pods()
    assert autoscaler.provision() == []
    wait_for(lambda: len(autoscaler.provision()) == 3, what="three more nodes")
    pods = namespace.wait_until_bound(4)
    assert {node_of(one) for one in pods} == {here, *autoscaler.added}
    fluence.wait_for_state(namespace.name, "train", "bound")
    wait_for(lambda: not requests(namespace) and not templates(namespace), what="the request to go")
    assert len(autoscaler.step()) == 3


def test_pods_of_a_mixed_gang_are_asked_for_together_and_name_their_request(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=10, cpu="4")
    small, large = gang("train", 4, cpu="1")[:2], gang("train", 4, cpu="3")[2:]
    namespace.create(*small, *large)
    request = the_request(namespace)
    assert sorted(one["count"] for one in request["spec"]["podSets"]) == [2, 2]
    assert not any(map(asks_for_nodes, namespace.pods()))
    assert all(gates_of(one) for one in namespace.pods())
    wait_for(lambda: autoscaler.provision(), what="the node")
    assert len(autoscaler.provision()) == 1
    for one in namespace.wait_until_bound(4):
        named = annotations_of(one)
        assert named[CONSUMES_ANNOTATION] == request["metadata"]["name"]
        assert named[CLASS_ANNOTATION] == ATOMIC_CLASS
    wait_for(lambda: not requests(namespace) and not templates(namespace), what="the request to go")


def test_refused_and_failed_requests_are_told_and_let_go(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=1, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    the_request(namespace)
    assert autoscaler.provision() == []
    wait_for(lambda: told(namespace, "NoNodesYet"), what="the Event that there is no capacity")
    assert requests(namespace)
    autoscaler.fail("no quota for c3-standard-4")
    said = wait_for(lambda: told(namespace, "NoNodesCame"), what="the Event that it lets go")
    assert "no quota for c3-standard-4; it asks for nodes again in 60 minutes" in said[0]
    wait_for(lambda: not requests(namespace) and not templates(namespace), what="the request to go")
    assert not any(map(asks_for_nodes, namespace.pods()))


def test_autoscaler_that_adds_too_little_and_a_node_that_dies_leave_the_gang_waiting_whole(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=2, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    the_request(namespace)
    (early,) = own_nodes(1, cpu="4")
    namespace.create(*gang("later", 1, cpu="3"))
    assert {node_of(one) for one in namespace.wait_until_bound(1)} == {"", here}
    namespace.create(*gang("last", 1, cpu="3"))
    fluence.wait_for_reason(namespace.name, "last", "busy")
    cluster.api.delete(f"/api/v1/nodes/{early}")
    namespace.delete_pod("last-0")
    namespace.delete_pod("later-0")
    assert not any(map(node_of, namespace.pods()))
    wait_for(lambda: len(autoscaler.provision()) == 2, what="two nodes")
    assert {node_of(one) for one in namespace.wait_until_bound(3)} == {here, *autoscaler.added}


def test_crash_leaves_one_request_and_what_came_for_it(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    (here,) = own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=10, boots=1, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    uid = the_request(namespace)["metadata"]["uid"]
    growing.crash()
    wait_for(lambda: len(autoscaler.provision()) == 2, what="two nodes")
    growing.revive()
    namespace.wait_until_bound(3)
    (there,) = [one["metadata"]["uid"] for one in requests(namespace)] or [uid]
    assert there == uid
    wait_for(lambda: not requests(namespace), what="the request to go")
    assert {node_of(one) for one in namespace.pods()} == {here, *autoscaler.added}


def test_request_goes_with_a_gang_that_is_deleted_while_the_service_is_away(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(*gang("train", 2, cpu="3"))
    the_request(namespace)
    growing.crash()
    for one in namespace.pods():
        namespace.delete_pod(one["metadata"]["name"])
    wait_for(lambda: not requests(namespace) and not templates(namespace), what="Kubernetes to collect both")
    growing.revive()


def test_kind_that_is_served_later_is_used_and_pods_ask_before(
    fluence: Fluence,
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="4")
    numbers = count()

    def members(name: str) -> list[Manifest]:
        return namespace.pods(**{GROUP_LABEL: name})

    def by_request() -> bool:
        name = f"g{next(numbers)}"
        namespace.create(*gang(name, 2, cpu="3"))
        wait_for(lambda: requests(namespace) or all(map(asks_for_nodes, members(name))), what="either way")
        return bool(requests(namespace))

    with installation.other("--grow-after", "1"):
        namespace.create(*gang("first", 2, cpu="3"))
        wait_for(lambda: all(map(asks_for_nodes, members("first"))), what="pods that ask")
        with served(installation):
            wait_for(by_request, what="a gang that asks by a request")
            assert all(map(asks_for_nodes, members("first")))


def test_empty_node_goes_and_one_that_is_held_stays(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, growing: Installation
) -> None:
    own_nodes(1, cpu="4")
    autoscaler = Autoscaler(cluster, own_nodes, most=3, boots=0, cpu="4")
    namespace.create(*gang("train", 3, cpu="3"))
    the_request(namespace)
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
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "mine"},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    path = f"/api/v1/namespaces/{namespace.name}/podtemplates"
    assert "fluence-accounts-requests" in refusal(lambda: account.request("POST", path, template))
    cluster.api.request("POST", path, template)
    assert "fluence-accounts-requests" in refusal(lambda: account.delete(f"{path}/mine"))
    forged = {
        **template,
        "metadata": {"name": "forged", "annotations": {CREATED_BY_ANNOTATION: SERVICE_NAME}},
    }
    assert "fluence-accounts-requests" in refusal(lambda: cluster.api.request("POST", path, forged))
