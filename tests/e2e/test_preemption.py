"""A gang of higher priority takes the place of whole gangs of lower priority, on a real control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from uuid import uuid4

import pytest

from tests.e2e.claimed import (
    MODEL,
    device_class,
    given_twice,
    request,
    resource_slice,
    served,
    template,
)
from tests.e2e.harness import Cluster, Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.test_in_tree_filters import apart
from tests.e2e.test_resource_claims import members
from tests.e2e.test_simulate import simulated
from tests.e2e.workloads import ONE_DEVICE, QPU, gang, labelled, ours
from tests.localcluster import ApiError

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
HOLD = "example.com/hold"

PriorityClass = Callable[..., str]


@pytest.fixture
def priority_class(cluster: Cluster) -> Iterator[PriorityClass]:
    """Makes PriorityClasses; they are gone again after the test."""
    made: list[str] = []

    def make(value: int, **fields: str) -> str:
        name = f"p{value}-{uuid4().hex[:6]}"
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        cluster.apply({**head, "value": value, **fields})
        made.append(name)
        wait_for(lambda: accepted(cluster, name), what=f"new pods to be allowed class {name}")
        return name

    yield make
    for name in made:
        cluster.api.delete(f"{CLASSES}/{name}")


def accepted(cluster: Cluster, priority_class: str) -> bool:
    """Whether pods may name this class: the API server's admission learns of it a moment after it was made."""
    path = "/api/v1/namespaces/default/pods"
    try:
        cluster.api.request(
            "POST", path, ours("probe", priorityClassName=priority_class), query={"dryRun": "All"}
        )
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return False
    return True


def held(members: list[Manifest]) -> list[Manifest]:
    """``members`` that stay, being deleted, until `let_go`."""
    for member in members:
        member["metadata"]["finalizers"] = [HOLD]
    return members


def let_go(namespace: Namespace, *names: str) -> None:
    for name in names:
        path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"
        namespace.api.patch(path, {"metadata": {"finalizers": None}})


def deleting(namespace: Namespace) -> list[str]:
    return sorted(
        one["metadata"]["name"] for one in namespace.pods() if "deletionTimestamp" in one["metadata"]
    )


def evictions(namespace: Namespace, name: str) -> list[str]:
    """What Events say about the eviction of a pod."""
    told = namespace.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events")["items"]
    return [one["note"] for one in told if one["regarding"]["name"] == name and one["reason"] == "Evicted"]


def bound(namespace: Namespace, *names: str) -> list[bool]:
    return [bool(node_of(namespace.pod(name))) for name in names]


def test_low_gang_makes_way_and_its_room_is_kept_through_a_crash(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    priority_class: PriorityClass,
    installation: Installation,
) -> None:
    nodes = own_nodes(2, cpu="4")
    namespace.create(*held(gang("low", 2, cpu="3")))
    namespace.wait_until_bound(2)
    namespace.create(*gang("high", 2, cpu="3500m", priorityClassName=priority_class(1000)))
    where = f"preempting {namespace.name}/low: 0 of 2 pods gone"
    assert fluence.wait_for_reason(namespace.name, "high", where)["state"] == "waiting"
    wait_for(lambda: deleting(namespace) == ["low-0", "low-1"], what="both to be evicted")
    condition = next(
        one for one in namespace.pod("low-0")["status"]["conditions"] if one["type"] == "DisruptionTarget"
    )
    assert condition["reason"] == "EvictionByEvictionAPI"
    wait_for(lambda: evictions(namespace, "low-0"), what="the Event about it")
    assert evictions(namespace, "low-0") == [f"preempted by gang {namespace.name}/high (priority 1000)"]
    wait_for(
        lambda: (
            {namespace.pod(f"high-{number}")["status"].get("nominatedNodeName") for number in range(2)}
            == set(nodes)
        ),
        what="the nodes to be kept",
    )
    let_go(namespace, "low-0")
    installation.crash()
    namespace.create(ours("late", cpu="2"))
    installation.revive()
    fluence.wait_for_reason(namespace.name, "late", "busy")
    fluence.wait_for_reason(namespace.name, "high", "preempting")
    assert bound(namespace, "high-0", "high-1", "late") == [False, False, False]
    let_go(namespace, "low-1")
    fluence.wait_for_state(namespace.name, "high", "bound")
    assert bound(namespace, "high-0", "high-1", "late") == [True, True, False]


def test_gang_that_keeps_another_away_makes_way(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, priority_class: PriorityClass
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(*gang("low", 2, cpu="1", affinity=apart("high")))
    namespace.create(*gang("bystander", 1, cpu="1"))
    namespace.wait_until_bound(3)
    namespace.create(
        *gang("high", 2, cpu="1", priorityClassName=priority_class(1000), affinity=apart("high"))
    )
    fluence.wait_for_state(namespace.name, "high", "bound")
    names = {pod["metadata"]["name"] for pod in namespace.pods()}
    assert names == {"high-0", "high-1", "bystander-0"}
    assert evictions(namespace, "low-0") == [f"preempted by gang {namespace.name}/high (priority 1000)"]


def test_gang_under_a_disruption_budget_stays_whole(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, priority_class: PriorityClass
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(*gang("low", 2, cpu="3", labels={"guarded": "yes"}))
    for number in range(2):
        namespace.wait_for_phase(f"low-{number}", "Running")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"guarded": "yes"}}},
    }
    namespace.create(budget)
    path = f"/apis/policy/v1/namespaces/{namespace.name}/poddisruptionbudgets/guard"
    wait_for(
        lambda: "observedGeneration" in namespace.api.get(path).get("status", {}),
        what="the budget to be counted",
    )
    namespace.create(labelled(ours("high-0", cpu="3", priorityClassName=priority_class(1000)), "high", 1))
    said = wait_for(
        lambda: (
            (found := fluence.gang(namespace.name, "high"))
            and "PodDisruptionBudget" in found["reason"]
            and found
        ),
        what="the budget to be named",
    )
    assert f"PodDisruptionBudget {namespace.name}/guard" in said["reason"]
    assert deleting(namespace) == []
    assert bound(namespace, "low-0", "low-1", "high-0") == [True, True, False]
    namespace.api.delete(path)
    fluence.wait_for_state(namespace.name, "high", "bound")
    namespace.wait_for_pods(
        lambda pods: [one["metadata"]["name"] for one in pods] == ["high-0"],
        "the low gang to be gone whole",
    )


def test_policy_never_is_honoured_and_equals_stay(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, priority_class: PriorityClass
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(ours("low", cpu="3"))
    namespace.wait_until_bound(1)
    never = priority_class(1000, preemptionPolicy="Never")
    namespace.create(ours("polite", cpu="3", priorityClassName=never), ours("equal", cpu="3"))
    for name in ("polite", "equal"):
        fluence.wait_for_reason(namespace.name, name, "busy: 0 of 1 fit now, short of cpu")
    namespace.create(ours("marker", cpu="1"))
    namespace.wait_until_bound(2)
    assert deleting(namespace) == []
    assert bound(namespace, "low", "polite", "equal") == [True, False, False]


def test_scarce_device_is_taken_over(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Callable[[str], None],
    priority_class: PriorityClass,
) -> None:
    own_nodes(1, cpu="8")
    resources(ONE_DEVICE)
    namespace.create(ours("low", cpu="1", requests={QPU: 1}), ours("beside", cpu="1"))
    namespace.wait_until_bound(2)
    namespace.create(ours("high", cpu="1", requests={QPU: 1}, priorityClassName=priority_class(1000)))
    fluence.wait_for_state(namespace.name, "high", "bound")
    assert sorted(one["metadata"]["name"] for one in namespace.pods()) == ["beside", "high"]
    (device,) = [one for one in fluence.allocations(namespace.name) if one["devices"]]
    assert (device["pod"], device["backend"]) == ("high", "ibm_fez")
    assert fluence.metric("fluence_preemptions_total") >= 1


def test_pods_whose_claims_have_the_right_devices_are_preempted_and_named_before(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    priority_class: PriorityClass,
    installation: Installation,
) -> None:
    """Three gangs of one priority have devices of the same class; only one of them has what the urgent gang needs."""
    node, other = own_nodes(2, cpu="8")
    slices = resource_slice(node, ["a100", "a100", "h100"]), resource_slice(other, ["a100"])
    with served(namespace.api, device_class(namespace.name), *slices):
        for model in ("a100", "h100"):
            namespace.create(template(model, request("gpu", namespace.name, f'{MODEL} == "{model}"')))
        namespace.create(*members("right", 1, "h100"))
        namespace.wait_until_bound(1)
        namespace.create(*members("first", 2, "a100"), *members("second", 1, "a100"))
        namespace.wait_until_bound(4)
        urgent = members("urgent", 1, "h100")
        urgent[0]["spec"]["priorityClassName"] = priority_class(1000)
        said = simulated(installation, namespace, *urgent)["gangs"][0]
        assert said["preemption"]["text"] == f"would preempt 1 gang (1 pod): {namespace.name}/right (1)"
        namespace.create(*urgent)
        wait_for(lambda: node_of(namespace.pod("urgent-0")) == node, what="the urgent pod to be bound")
        left = {pod["metadata"]["name"] for pod in namespace.pods() if node_of(pod)}
        assert left == {"urgent-0", "first-0", "first-1", "second-0"}
        assert not given_twice(namespace)
