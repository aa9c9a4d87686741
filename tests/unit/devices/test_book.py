"""The book of devices: what nodes get of slices and classes, what pods get of claims, and what a change touches."""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.devices.book import DeviceBook
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import (
    Allocated,
    DeviceClass,
    NodeDevice,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import ClaimRef, NodeTerm, Pod, Requirement
from fluence_extender.model.resources import Resources

DRIVER = "gpu.example.com"
CLASS = DeviceClass("gpus", (f'device.driver == "{DRIVER}"',))
COUNTED = "deviceclass.resource.kubernetes.io/gpus"
SPEC = ClaimSpec((DeviceRequest("gpu", (Choice("gpus", count=2),)),))
TEMPLATE = ResourceClaimTemplate("ns", "two", SPEC)


def gpus(node: str = "n0", count: int = 4, **fields: object) -> ResourceSlice:
    devices = tuple(NodeDevice(DRIVER, node, f"gpu-{number}") for number in range(count))
    return replace(ResourceSlice(f"{node}-gpus", DRIVER, node, node=node, devices=devices), **fields)  # type: ignore[arg-type]


def allocated(name: str, *devices: str, node: str = "n0") -> ResourceClaim:
    results = tuple(Allocated("gpu", (DRIVER, node, one)) for one in devices)
    term = NodeTerm(fields=(Requirement("metadata.name", "In", (node,)),))
    return ResourceClaim("ns", name, f"uid-{name}", SPEC, results, (term,))


def pod(name: str = "p", **ref: str) -> Pod:
    return Pod("ns", name, f"uid-{name}", requests=Resources({"pods": 1}), claim_refs=(ClaimRef("c", **ref),))


def book() -> DeviceBook:
    made = DeviceBook()
    made.node(Node("n0", allocatable=Resources({"cpu": 8000})))
    for one in (CLASS, gpus(), TEMPLATE):
        made.put(one)
    return made


def now(made: DeviceBook, name: str = "n0") -> Node:
    node = made.node_now(name)
    assert node is not None
    return node


def test_node_counts_the_devices_of_each_class() -> None:
    made = book()
    assert made.put(DeviceClass("none", ("false",))).nodes == {"n0"}
    assert now(made).allocatable == Resources({"cpu": 8000, COUNTED: 4})
    assert [one.name for one in now(made).devices] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert made.drop(CLASS).nodes == {"n0"}
    assert now(made).allocatable == Resources({"cpu": 8000})


def test_class_that_backs_an_extended_resource_is_counted_by_its_name() -> None:
    made = book()
    made.put(replace(CLASS, extended_resource="nvidia.com/gpu"))
    assert now(made).allocatable["nvidia.com/gpu"] == 4
    assert made.pod(pod(template="two")).requests["nvidia.com/gpu"] == 2
    plugged = made.node(Node("n0", allocatable=Resources({"nvidia.com/gpu": 1})))
    assert plugged.allocatable == Resources({"nvidia.com/gpu": 1})


def test_cluster_without_devices_and_claims_is_left_as_it_is() -> None:
    made = DeviceBook()
    node, plain = Node("n0", allocatable=Resources({"cpu": 1})), Pod("ns", "p", "u")
    assert made.node(node) is node
    assert made.pod(plain) is plain


def test_pod_requests_what_its_template_claims() -> None:
    made = book()
    found = made.pod(pod(template="two"))
    assert found.requests == Resources({"pods": 1, COUNTED: 2})
    assert found.claims[0].requests[0].choices[0].selectors == CLASS.selectors
    assert not found.problem
    assert made.put(replace(TEMPLATE, spec=ClaimSpec())).pods == {"uid-p"}


def test_allocated_claim_confines_its_pod_and_is_held_on_the_node() -> None:
    made = book()
    made.pod(pod(claim="mine", template="two"))
    touched = made.put(allocated("mine", "gpu-1", "gpu-3"))
    assert (touched.nodes, touched.pods) == ({"n0"}, {"uid-p"})
    assert [one.held for one in now(made).devices] == [False, True, False, True]
    assert now(made).allocatable[COUNTED] == 4
    found = made.pod_now("uid-p")
    assert found is not None
    assert found.confined_to == ("n0",)
    assert found.claims == ()
    assert found.requests[COUNTED] == 2
    made.drop(allocated("mine", "gpu-1", "gpu-3"))
    assert not any(one.held for one in now(made).devices)


def test_allocated_claim_leaves_only_the_terms_of_the_pod_that_go_with_it() -> None:
    made = book()
    made.put(allocated("mine", "gpu-0"))
    zone = NodeTerm((Requirement("zone", "In", ("a",)),))
    found = made.pod(replace(pod(claim="mine"), affinity=(zone, NodeTerm())))
    named = (Requirement("metadata.name", "In", ("n0",)),)
    assert found.affinity == (NodeTerm(zone.expressions, named), NodeTerm((), named))


def test_devices_that_are_allocated_count_even_if_their_driver_has_gone() -> None:
    made = book()
    made.put(allocated("mine", "gpu-1", "gpu-3"))
    assert made.drop(gpus()).nodes == {"n0"}
    assert now(made).devices == ()
    assert now(made).allocatable[COUNTED] == 2
    made.put(gpus(count=1))
    assert now(made).allocatable[COUNTED] == 3


def test_claim_of_several_pods_counts_once() -> None:
    made = book()
    made.put(allocated("ours", "gpu-0"))
    first = made.pod(pod("a", claim="ours"))
    assert first.requests[COUNTED] == 1
    assert made.pod(pod("b", claim="ours")).requests[COUNTED] == 0
    made.drop_pod("uid-a")
    second = made.pod_now("uid-b")
    assert second is not None
    assert second.requests[COUNTED] == 1


def test_pod_waits_for_what_does_not_exist() -> None:
    made = book()
    assert "claim ns/mine doesn't exist" in made.pod(pod(claim="mine")).problem
    assert "template ns/three doesn't exist" in made.pod(pod(template="three")).problem
    made.drop(CLASS)
    assert "class gpus doesn't exist" in made.pod(pod(template="two")).claims[0].problem


def test_only_complete_pools_of_the_newest_generation_are_used() -> None:
    made = book()
    made.put(gpus(name="n0-more", slices=2, generation=2, count=1))
    assert [one.problem for one in now(made).devices] == ["pool n0 of gpu.example.com is incomplete"]
    assert now(made).allocatable[COUNTED] == 0
    made.put(gpus(slices=2, generation=2))
    assert "has device gpu-0 twice" in now(made).devices[0].problem
    made.drop(gpus(name="n0-more"))
    made.put(gpus(generation=3))
    assert now(made).allocatable[COUNTED] == 4


def test_new_list_is_the_whole_truth_for_its_kind() -> None:
    made = book()
    made.node(Node("n1"))
    assert made.replace_all(ResourceSlice, [gpus("n1")]).nodes == {"n0", "n1"}
    assert now(made).devices == ()
    assert len(now(made, "n1").devices) == 4
    assert made.replace_all(ResourceSlice, [gpus("n1")]).nodes == set()
