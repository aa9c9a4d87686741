"""The book of devices: what nodes get of slices and classes, what pods get of claims, and what a change touches."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from fluence_extender.devices.book import MOST_PODS, DeviceBook
from fluence_extender.devices.evaluation import Evaluations
from fluence_extender.devices.judge import Judge
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import NodeDevice
from fluence_extender.model.node import Node
from fluence_extender.model.pod import ClaimRef, NodeTerm, Pod, Requirement
from fluence_extender.model.resources import Resources
from fluence_extender.objects.devices import (
    Allocated,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

DRIVER = "gpu.example.com"
CLASS = DeviceClass("gpus", (f'device.driver == "{DRIVER}"',))
COUNTED = "deviceclass.resource.kubernetes.io/gpus"
SPEC = ClaimSpec((DeviceRequest("gpu", (Choice("gpus", count=2),)),))
TEMPLATE = ResourceClaimTemplate("ns", "two", SPEC)


def gpus(node: str = "n0", count: int = 4, **fields: object) -> ResourceSlice:
    devices = tuple(NodeDevice(DRIVER, node, f"gpu-{number}") for number in range(count))
    return structs.replace(ResourceSlice(f"{node}-gpus", DRIVER, node, node=node, devices=devices), **fields)


def allocated(name: str, *devices: str, node: str = "n0") -> ResourceClaim:
    results = tuple(Allocated("gpu", (DRIVER, node, one)) for one in devices)
    term = NodeTerm(fields=(Requirement("metadata.name", "In", (node,)),))
    return ResourceClaim("ns", name, f"uid-{name}", SPEC, results, (term,))


def pod(name: str = "p", **ref: str) -> Pod:
    return Pod("ns", name, f"uid-{name}", requests=Resources({"pods": 1}), claim_refs=(ClaimRef("c", **ref),))


def book() -> DeviceBook:
    made = DeviceBook(Judge(Evaluations().judge))
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
    made.put(structs.replace(CLASS, extended_resource="nvidia.com/gpu"))
    assert now(made).allocatable["nvidia.com/gpu"] == 4
    assert made.pod(pod(template="two")).requests["nvidia.com/gpu"] == 2
    plugged = made.node(Node("n0", allocatable=Resources({"nvidia.com/gpu": 1})))
    assert plugged.allocatable == Resources({"nvidia.com/gpu": 1})


def test_cluster_without_devices_and_claims_is_left_as_it_is() -> None:
    made = DeviceBook(Judge(Evaluations().judge))
    node, plain = Node("n0", allocatable=Resources({"cpu": 1})), Pod("ns", "p", "u")
    assert made.node(node) is node
    assert made.pod(plain) is plain


def test_pod_requests_what_its_template_claims() -> None:
    made = book()
    found = made.pod(pod(template="two"))
    assert found.requests == Resources({"pods": 1, COUNTED: 2})
    assert found.claims[0].requests[0].choices[0].selectors == CLASS.selectors
    assert not found.problem
    assert made.put(structs.replace(TEMPLATE, spec=ClaimSpec())).pods == {"uid-p"}


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
    made.put(structs.replace(allocated("mine", "gpu-0"), deleting=True))
    assert "claim ns/mine is being deleted" in made.pod(pod(claim="mine")).problem
    made.drop(CLASS)
    assert "class gpus doesn't exist" in made.pod(pod(template="two")).claims[0].problem


def test_claim_that_pods_share_ties_them_until_it_is_allocated() -> None:
    made = book()
    ours = ResourceClaim("ns", "ours", "uid-ours", SPEC)
    made.put(ours)
    first = made.pod(pod("b", claim="ours"))
    assert (first.claim_group, first.claims[0].shared) == ("", "")
    second = made.pod(pod("a", claim="ours"))
    assert made.stale() == {"uid-b"}
    changed = made.pod_now("uid-b")
    assert changed is not None
    assert changed.claim_group == second.claim_group == "ns/ours"
    assert changed.claims == second.claims
    assert [one.requests[COUNTED] for one in (second, changed)] == [2, 0]
    made.put(structs.replace(ours, devices=allocated("ours", "gpu-0", "gpu-1").devices))
    settled = made.pod_now("uid-b")
    assert settled is not None
    assert (settled.claim_group, settled.claims) == ("", ())
    made.drop_pod("uid-a")
    assert made.stale() == {"uid-b"}


def test_more_pods_than_kubernetes_lets_use_one_claim_are_told_so_until_there_are_fewer() -> None:
    made = book()
    made.put(ResourceClaim("ns", "ours", "uid-ours", SPEC))
    names = [f"p{number}" for number in range(MOST_PODS + 1)]
    found = {name: made.pod(pod(name, claim="ours")) for name in names}
    assert found[names[-1]].problem == "more than 256 pods share resource claim ns/ours"
    assert not found[names[-2]].problem

    def problems() -> set[str]:
        now = [made.pod_now(uid) for uid in made.stale()]
        return {one.problem for one in now if one is not None}

    assert problems() == {found[names[-1]].problem}
    made.drop_pod("uid-p0")
    assert problems() == {""}


def test_pods_that_claims_join_are_one_group() -> None:
    made = book()
    for name in ("x", "y"):
        made.put(ResourceClaim("ns", name, f"uid-{name}", SPEC))
    made.pod(pod("a", claim="x"))
    made.pod(pod("b", claim="y"))
    both = replace(pod("c", claim="x"), claim_refs=(ClaimRef("c", "x"), ClaimRef("d", "y")))
    assert made.pod(both).claim_group == "ns/x"
    assert made.stale() == {"uid-a", "uid-b"}
    groups = [found.claim_group for uid in ("uid-a", "uid-b") if (found := made.pod_now(uid)) is not None]
    assert groups == ["ns/x", "ns/x"]


def test_pod_that_requests_an_extended_resource_waits_for_its_devices() -> None:
    made = book()
    gpu = Resources({"pods": 1, "nvidia.com/gpu": 2})
    asking = Pod("ns", "p", "uid-p", requests=gpu)
    assert made.pod(asking) is asking
    assert made.put(structs.replace(CLASS, extended_resource="nvidia.com/gpu")).pods == {"uid-p"}
    found = made.pod_now("uid-p")
    assert found is not None
    assert found.requests == gpu
    assert [(one.extended, one.requests[0].choices[0].count) for one in found.claims] == [
        ("nvidia.com/gpu", 2)
    ]
    claim = structs.replace(allocated("made", "gpu-0", "gpu-1"), extended_for="uid-p")
    assert made.put(claim).pods == {"uid-p"}
    found = made.pod_now("uid-p")
    assert found is not None
    assert (found.claims, found.affinity, found.requests) == ((), None, gpu)
    assert made.claimed_by("uid-p") == (f"{DRIVER}/n0/gpu-0", f"{DRIVER}/n0/gpu-1")
    assert made.drop(claim).pods == {"uid-p"}


def test_class_is_requested_by_its_own_name_too_and_the_newest_backs_a_resource() -> None:
    made = book()
    made.put(structs.replace(CLASS, extended_resource="nvidia.com/gpu", created=1.0))
    asking = Pod("ns", "p", "uid-p", requests=Resources({COUNTED: 1}))
    found = made.pod(asking)
    assert found.requests == Resources({"nvidia.com/gpu": 1})
    assert found.claims[0].extended == COUNTED
    made.put(DeviceClass("newer", ("true",), "nvidia.com/gpu", 2.0))
    assert now(made).allocatable["nvidia.com/gpu"] == 4
    plain = made.pod(replace(asking, requests=Resources({"nvidia.com/gpu": 1})))
    assert plain.claims[0].requests[0].choices[0].device_class == "newer"


def test_annotation_requires_attributes_of_claimed_devices() -> None:
    made = book()
    note = {"fluence.flux-framework.org/require-model": "h100"}
    found = made.pod(replace(pod(template="two"), annotations=note))
    assert found.claims[0].requests[0].choices[0].requires == (("model", "h100"),)
    virtual = made.pod(replace(pod(template="two"), annotations=note, devices={"qpu": 1}))
    assert virtual.claims[0].requests[0].choices[0].requires == ()


def test_counters_belong_to_the_pool() -> None:
    made = book()
    counter = (DRIVER, "n0", "gpu", "slices")
    part = NodeDevice(DRIVER, "n0", "part", consumes={counter: 2})
    made.put(gpus(devices=(part, replace(part, name="other")), slices=2))
    made.put(gpus(name="counters", devices=(), slices=2, counters={counter: 3}))
    assert now(made).counters == {counter: 3}
    assert not any(one.problem for one in now(made).devices)
    made.put(allocated("mine", "part"))
    assert not any(one.problem for one in now(made).devices)
    made.put(gpus(name="counters", devices=(), slices=2, counters={counter: 1}))
    assert "more is in use of counter slices" in now(made).devices[0].problem
    made.put(gpus(name="counters", devices=(), slices=2, counters={(DRIVER, "n0", "gpu", "other"): 1}))
    assert "no counter slices in set gpu" in now(made).devices[0].problem


def test_what_claims_have_of_a_shared_device_is_added_up() -> None:
    made = book()
    made.put(gpus(devices=(NodeDevice(DRIVER, "n0", "gpu-0", shareable=True),)))
    for number in range(2):
        share = Allocated("gpu", (DRIVER, "n0", "gpu-0"), {"memory": 3})
        made.put(structs.replace(allocated(f"c{number}", "gpu-0"), devices=(share, share)))
    assert now(made).devices[0].used == {"memory": 12}
    assert now(made).allocatable[COUNTED] > 4


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


def links(count: int, **fields: object) -> ResourceSlice:
    devices = tuple(NodeDevice(DRIVER, "net", f"link-{number}") for number in range(count))
    return structs.replace(ResourceSlice("net", DRIVER, "net", devices=devices), **fields)


def problem(made: DeviceBook) -> str:
    pod = made.pod_now("uid-p")
    assert pod is not None
    return pod.problem


def test_pod_that_could_get_a_device_of_several_nodes_waits_and_is_told_so() -> None:
    made = book()
    asking = made.pod(pod(template="two"))
    assert asking.problem == ""
    before = now(made)
    touched = made.put(links(2))
    assert asking.uid in touched.pods
    assert now(made) == before
    assert problem(made) == (
        f"its claim of 2 gpus could get device link-0 of pool net of {DRIVER}, which several nodes share; "
        "such devices aren't planned: select devices that belong to one node"
    )
    assert asking.uid in made.drop(links(2)).pods
    assert problem(made) == ""


def test_allocated_device_of_several_nodes_counts_on_none_of_them() -> None:
    made = book()
    made.node(Node("n1"))
    made.put(links(2))
    some = (Allocated("gpu", (DRIVER, "net", "link-1")),)
    claim = ResourceClaim("ns", "c", "uid-c", SPEC, some)
    user = made.pod(replace(pod(claim="c"), node="n1"))
    touched = made.put(claim)
    assert (touched.nodes, touched.pods) == (set(), {user.uid})
    counted = made.pod_now(user.uid)
    assert counted is not None
    assert (counted.problem, counted.requests[COUNTED]) == ("", 0)
    assert now(made, "n1").allocatable[COUNTED] == 0


def test_devices_of_several_nodes_that_take_from_one_counter_are_shared() -> None:
    made = book()
    made.node(Node("n1"))
    counter = (DRIVER, "torus", "set", "chips")
    for number in range(2):
        part = NodeDevice(DRIVER, "torus", f"part-{number}", consumes={counter: 1})
        made.put(ResourceSlice(f"t{number}", DRIVER, "torus", 1, 3, f"n{number}", (part,)))
    made.put(ResourceSlice("counters", DRIVER, "torus", 1, 3, "n0", counters={counter: 1}))
    assert now(made, "n1").allocatable[COUNTED] == 0
    assert "several nodes share" in made.pod(pod(template="two")).problem


def test_pools_with_binding_conditions_come_last() -> None:
    made = DeviceBook(Judge(Evaluations().judge))
    made.node(Node("n0"))
    for driver, conditional in (("b", False), ("a", True), ("c", False)):
        one = NodeDevice(driver, "p", "d", conditional=conditional)
        made.put(ResourceSlice(f"s-{driver}", driver, "p", node="n0", devices=(one,)))
    assert [one.driver for one in now(made).devices] == ["b", "c", "a"]


def test_device_is_free_without_all_pods_of_its_claim() -> None:
    made = book()
    made.put(structs.replace(allocated("ours", "gpu-0"), reserved=frozenset({"p", "q"})))
    made.put(allocated("reserved-for-nobody", "gpu-1"))
    held = now(made).devices
    assert [one.without({"p"}).held for one in held] == [True, True, False, False]
    assert [one.without({"p", "q"}).held for one in held] == [False, True, False, False]


def test_administrator_counts_no_device() -> None:
    made = book()
    made.put(
        structs.replace(
            TEMPLATE, spec=ClaimSpec((DeviceRequest("gpu", (Choice("gpus", count=2, admin=True),)),))
        )
    )
    assert made.pod(pod(template="two")).requests[COUNTED] == 0


def test_extended_resource_of_a_class_beside_virtual_devices_is_refused_and_told() -> None:
    made = book()
    made.put(structs.replace(CLASS, extended_resource="nvidia.com/gpu"))
    asking = replace(pod(), requests=Resources({"nvidia.com/gpu": 1}), claim_refs=())
    assert made.pod(asking).problem == ""
    assert "name a resource claim" in made.pod(replace(asking, devices={"qpu": 1})).problem


def test_pod_whose_claims_have_too_many_choices_or_selectors_is_not_planned() -> None:
    made = book()
    same = Choice("gpus", ("device.driver != 'x'",))
    others = [Choice("gpus", (f"device.driver != '{number}'",)) for number in range(70)]
    for name, some in (("alike", [same] * 70), ("different", others)):
        requests = tuple(DeviceRequest(f"r{number}", (one,)) for number, one in enumerate(some))
        made.put(ResourceClaimTemplate("ns", name, ClaimSpec(requests)))
    assert not made.pod(pod("one", template="alike")).problem
    assert "141 different choices and selectors" in made.pod(pod("other", template="different")).problem
