"""Gangs whose pods claim devices, allocated by kube-scheduler's own plugin for dynamic resource allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from fluence_extender.model.names import REQUIRE_PREFIX
from tests.e2e.claimed import (
    MODEL,
    NUMA,
    allocated,
    claiming,
    device_class,
    device_slice,
    given_twice,
    partitioned_slices,
    refusals,
    request,
    resource_slice,
    served,
    shared_claim,
    sharing_slice,
    template,
    with_label,
)
from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, indexed_job, ours

pytestmark = pytest.mark.usefixtures("control_plane")
"""No driver prepares these devices, which kubelets that are only played don't need."""

CLASS = "example-gpus"
A100, H100 = "a100", "h100"
NAMED = f"deviceclass.resource.kubernetes.io/{CLASS}"


@pytest.fixture
def gpus(namespace: Namespace) -> Iterator[None]:
    """The class of all devices of the driver."""
    with served(namespace.api, device_class(CLASS)):
        yield


def members(name: str, count: int, claim: str, *, first: int = 0, size: int = 0) -> list[Manifest]:
    """The members of a gang, each with a claim made of the template."""
    some = gang(name, count, size=size or count, first=first, cpu="10m")
    return [claiming(one, template=claim) for one in some]


def test_gang_is_placed_where_its_devices_are(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    one, two, _ = nodes(3, cpu="8")
    with served(namespace.api, resource_slice(one, [A100] * 2), resource_slice(two, [H100] * 2)):
        namespace.create(template("h100", request("gpu", CLASS, f'{MODEL} == "{H100}"')))
        namespace.create(*members("fast", 2, "h100"))
        bound = namespace.wait_until_bound(2)
        assert {node_of(pod) for pod in bound} == {two}
        assert {pool for devices in allocated(namespace).values() for pool, _ in devices} == {two}
        assert not given_twice(namespace)
        assert not refusals(namespace)


def test_gang_waits_for_the_devices_that_others_have_and_says_which(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    (node,) = nodes(1, cpu="8")
    with served(namespace.api, resource_slice(node, [A100] * 4)):
        namespace.create(template("pair", request("gpu", CLASS, count=2)))
        namespace.create(*members("first", 1, "pair"))
        namespace.wait_until_bound(1)
        namespace.create(*members("second", 2, "pair"))
        waiting = fluence.wait_for_reason(namespace.name, "second", "busy: 1 of 2 fit now, short of ")
        assert NAMED in waiting["reason"]
        namespace.create(*members("large", 3, "pair"))
        fluence.wait_for_reason(
            namespace.name, "large", "unsatisfiable: 2 of 3 members would fit if nothing else ran"
        )
        assert sum(bool(node_of(pod)) for pod in namespace.pods()) == 1
        namespace.delete_pod("first-0")
        namespace.wait_until_bound(2)
        assert not given_twice(namespace)


def test_pods_that_share_a_claim_are_placed_where_it_can_be_served(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    one, two, three = nodes(3, cpu="2")
    models = {one: [A100], two: [A100, A100], three: [H100] * 4}
    with served(namespace.api, *(resource_slice(node, some) for node, some in models.items())):
        pair = request("gpu", CLASS, f'{MODEL} == "{A100}"', count=2)
        namespace.create(
            shared_claim("ours", pair), template("h100", request("gpu", CLASS, f'{MODEL} == "{H100}"'))
        )
        pods = gang("mixed", 5, cpu="10m")
        namespace.create(
            *(claiming(pod, claim="ours") for pod in pods[:3]),
            *(claiming(pod, template="h100") for pod in pods[3:]),
        )
        bound = namespace.wait_until_bound(5)
        assert {pod["metadata"]["name"]: node_of(pod) for pod in bound} == {
            **{f"mixed-{number}": two for number in range(3)},
            **{f"mixed-{number}": three for number in (3, 4)},
        }


def test_extended_resource_is_served_by_devices_and_by_plugins(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    """Six pods for four devices of a driver and two of a plugin, one that has to wait, then a gang without a Job."""
    gpu = "example.com/gpu"
    one, two = nodes(2, cpu="4")
    (plugged,) = nodes(1, cpu="4", extended={gpu: 2})
    api, backed = namespace.api, device_class("backed", extendedResourceName=gpu)
    with served(api, backed, resource_slice(one, [A100] * 2), resource_slice(two, [A100] * 2)):
        namespace.create(indexed_job("wide", ours("wide", cpu="10m", requests={gpu: 1}), 6))
        bound = namespace.wait_until_bound(6)
        assert Counter(map(node_of, bound)) == {one: 2, two: 2, plugged: 2}
        assert sum(map(len, allocated(namespace).values())) == 4
        assert not given_twice(namespace)
        namespace.create(indexed_job("late", ours("late", cpu="10m", requests={gpu: 2}), 1))
        fluence.wait_for_reason(namespace.name, "late", f"busy: 0 of 1 fit now, short of {gpu}")
        assert not refusals(namespace)
        api.delete(f"/apis/batch/v1/namespaces/{namespace.name}/jobs/wide?propagationPolicy=Background")
        wait_for(
            lambda: len([pod for pod in namespace.pods() if node_of(pod)]) == 1, what="the late pod alone"
        )
        namespace.create(*gang("bare", 4, cpu="10m", requests={gpu: 1}))
        namespace.wait_until_bound(5)
        assert not given_twice(namespace)
        assert not refusals(namespace)


def test_parts_of_devices_are_counted_against_the_whole(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    (node,) = nodes(1, cpu="8")
    with served(namespace.api, *partitioned_slices(node, 3)):
        namespace.create(
            template("whole", request("gpu", CLASS, f'{MODEL} == "whole"')),
            template("part", request("gpu", CLASS, f'{MODEL} == "part"')),
        )
        namespace.create(*members("large", 2, "whole"))
        namespace.wait_until_bound(2)
        namespace.create(*members("small", 5, "part"))
        fluence.wait_for_reason(namespace.name, "small", "busy: 4 of 5 fit now")
        namespace.create(*members("fitting", 4, "part"))
        namespace.wait_until_bound(6)
        namespace.delete_pod("large-0")
        namespace.delete_pod("fitting-0")
        namespace.wait_until_bound(9)
        assert not given_twice(namespace)
        assert not refusals(namespace)


def test_claims_share_a_device_until_its_capacity_is_used(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    (node,) = nodes(1, cpu="8")
    with served(namespace.api, sharing_slice(node, 10)):
        quarter = request("gpu", CLASS, capacity={"requests": {"memory": "2560Mi"}})
        namespace.create(template("three", quarter), template("one", request("gpu", CLASS)))
        namespace.create(*members("threes", 4, "three"))
        fluence.wait_for_reason(namespace.name, "threes", "unsatisfiable: 3 of 4 members would fit")
        namespace.create(*members("fitting", 3, "three"))
        namespace.wait_until_bound(3)
        namespace.create(*members("ones", 2, "one"))
        fluence.wait_for_reason(namespace.name, "ones", "busy: 1 of 2 fit now")
        namespace.delete_pod("fitting-0")
        namespace.wait_until_bound(4)
        assert not refusals(namespace)


def test_pods_are_placed_only_where_their_devices_have_what_they_require(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    one, two, three = nodes(3, cpu="8")
    models = {one: [A100] * 2, two: [A100, H100], three: [H100] * 2}
    with served(namespace.api, *(resource_slice(node, some) for node, some in models.items())):
        namespace.create(template("any", request("gpu", CLASS)))
        pods = members("fast", 2, "any")
        for pod in pods:
            pod["metadata"]["annotations"][f"{REQUIRE_PREFIX}model"] = H100
        namespace.create(*pods)
        assert {node_of(pod) for pod in namespace.wait_until_bound(2)} == {three}
        more = members("slow", 1, "any")
        more[0]["metadata"]["annotations"][f"{REQUIRE_PREFIX}model"] = "b200"
        namespace.create(*more)
        fluence.wait_for_reason(
            namespace.name, "slow", "unsatisfiable: no node has 1 example-gpus with model=b200"
        )


def test_pods_whose_choices_overlap_are_ungated_in_the_order_that_serves_all(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    """Each node has as many devices as pods; those that take any device would take what others need."""
    names = nodes(4, cpu="8")
    with served(namespace.api, *(resource_slice(node, [H100, H100, A100, A100]) for node in names)):
        namespace.create(
            template("any", request("gpu", CLASS)),
            template("h", request("gpu", CLASS, f'{MODEL} == "{H100}"')),
        )
        pods = [*members("mixed", 8, "any", size=16), *members("mixed", 8, "h", first=8, size=16)]
        namespace.create(*pods)
        namespace.wait_until_bound(16)
        assert not given_twice(namespace)
        assert not refusals(namespace)


def test_mixed_gangs_get_their_devices_without_one_refusal(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    """Sixteen gangs, created at once, ask for 64 of the 80 devices of nodes with one model or with both."""
    names = nodes(10, cpu="8")
    models = [[A100] * 8] * 4 + [[H100] * 8] * 4 + [[A100] * 4 + [H100] * 4] * 2
    slices = [resource_slice(node, some) for node, some in zip(names, models, strict=True)]
    with served(namespace.api, *slices):
        namespace.create(
            template("a", request("gpu", CLASS, f'{MODEL} == "{A100}"')),
            template("h", request("gpu", CLASS, f'{MODEL} == "{H100}"')),
            template("hh", request("gpu", CLASS, f'{MODEL} == "{H100}"', count=2), alike=NUMA),
            template("aaaa", request("gpu", CLASS, f'{MODEL} == "{A100}"', count=4), alike=NUMA),
        )
        pods: list[Manifest] = []
        for number in range(4):
            pods += members(f"quads-{number}", 1, "aaaa")
            pods += members(f"pairs-{number}", 2, "hh")
            pods += members(f"mixed-{number}", 2, "a", size=4)
            pods += members(f"mixed-{number}", 2, "h", first=2, size=4)
            pods += members(f"single-{number}", 2, "a", size=4)
            pods += members(f"single-{number}", 2, "h", first=2, size=4)
        namespace.create(*pods)
        namespace.wait_until_bound(len(pods))
        held = allocated(namespace)
        assert not given_twice(namespace)
        assert sum(map(len, held.values())) == 64
        assert not refusals(namespace)


def test_gang_that_could_get_devices_of_several_nodes_waits_and_is_told_so(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    near = nodes(2, cpu="8", labels={"example.com/side": namespace.name})
    links = device_slice(
        f"{namespace.name}-links", *["link"] * 3, nodeSelector=with_label("example.com/side", namespace.name)
    )
    with served(namespace.api, links, *(resource_slice(node, [H100] * 4) for node in near)):
        namespace.create(
            template("gpu", request("gpu", CLASS, f'{MODEL} == "{H100}"')),
            template("link", request("link", CLASS, f'{MODEL} == "link"')),
        )
        namespace.create(*(claiming(pod, template="link") for pod in members("linked", 2, "gpu")))
        fluence.wait_for_reason(
            namespace.name,
            "linked",
            f"pod linked-0: its claim of 1 {CLASS} could get device {namespace.name}-links-0",
        )
        namespace.create(*members("local", 4, "gpu"))
        assert {node_of(pod) for pod in namespace.wait_until_bound(4)} <= {"", *near}
        assert not refusals(namespace)


def test_administrators_get_devices_that_others_have(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    (node,) = nodes(1, cpu="8")
    allowed = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    namespace.api.patch(f"/api/v1/namespaces/{namespace.name}", allowed)
    with served(namespace.api, resource_slice(node, [H100] * 2)):
        namespace.create(
            template("gpu", request("gpu", CLASS)),
            template("all", request("gpu", CLASS, count=2, adminAccess=True)),
        )
        namespace.create(*members("user", 2, "gpu"))
        namespace.wait_until_bound(2)
        namespace.create(*members("monitor", 2, "all"))
        namespace.wait_until_bound(4)
        namespace.create(*members("late", 1, "gpu"))
        fluence.wait_for_reason(namespace.name, "late", "busy: 0 of 1 fit now")
        namespace.delete_pod("user-0")
        namespace.wait_until_bound(4)
        assert not refusals(namespace)


def test_gang_waits_whole_for_the_binding_conditions_of_its_devices(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    """The pool whose devices have conditions comes last; once the driver says that they are attached pods are bound."""
    (node,) = nodes(1, cpu="8")
    fabric = device_slice(f"a-{namespace.name}", H100, H100, nodeName=node)
    for device in fabric["spec"]["devices"]:
        device.update(
            bindsToNode=True, bindingConditions=["Attached"], bindingFailureConditions=["AttachFailed"]
        )
    with served(namespace.api, fabric, resource_slice(node, [H100])):
        namespace.create(template("gpu", request("gpu", CLASS)))
        namespace.create(*members("gang", 3, "gpu"))
        claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace.name}/resourceclaims"

        def attached() -> int:
            """Say of each allocated device with conditions that it is attached, as its driver does."""
            found = [
                one for one in namespace.api.get(claims)["items"] if one.get("status", {}).get("allocation")
            ]
            for claim in found:
                ready = {"type": "Attached", "status": "True", "reason": "Fabric", "message": ""}
                ready["lastTransitionTime"] = claim["metadata"]["creationTimestamp"]
                devices = [
                    {**{key: one[key] for key in ("driver", "pool", "device")}, "conditions": [ready]}
                    for one in claim["status"]["allocation"]["devices"]["results"]
                    if one.get("bindingConditions")
                ]
                if devices and not claim["status"].get("devices"):
                    path = f"{claims}/{claim['metadata']['name']}/status"
                    namespace.api.patch(path, {"status": {"devices": devices}})
            return len(found)

        wait_for(lambda: attached() == 3, what="the claims to be allocated")
        namespace.wait_until_bound(3)
        assert not given_twice(namespace)
        assert not refusals(namespace)
