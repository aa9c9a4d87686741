"""How many pods a node hosts: as many as kube-scheduler's allocator serves, in the order that suits them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.devices.allocator import lens
from fluence_extender.devices.hosting import Pods, failure, hosts, most_hosted
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import (
    AttributeConstraint,
    Choice,
    Claims,
    ClaimSpec,
    DeviceRequest,
)
from fluence_extender.model.devices import Capacity, NodeDevice, RequestPolicy
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Taint, Toleration
from tests.core.verdicts import evaluated_at_once  # noqa: F401

pytestmark = pytest.mark.usefixtures("evaluated_at_once")

DRIVER = "d.example.com"
ANY = f'device.driver == "{DRIVER}"'
NUMA = f"{DRIVER}/numa"
GIB = 2**30 * 10**9


def device(name: str, model: str = "a", numa: int = 0, **fields: object) -> NodeDevice:
    attributes = {f"{DRIVER}/model": model, NUMA: numa}
    return NodeDevice(DRIVER, "pool", name, attributes, **fields)  # type: ignore[arg-type]


def on(devices: Sequence[NodeDevice]) -> Node:
    return Node("n", devices=tuple(devices))


def counted(*pods: Claims) -> Pods:
    return tuple(Counter(pods).items())


def hosted_on(devices: Sequence[NodeDevice], waiting: Sequence[Claims], pod: Claims, most: int) -> int:
    return most_hosted(on(devices), counted(*waiting), pod, most)


def of(model: str = "", count: int = 1) -> Choice:
    wanted = (f'device.attributes["{DRIVER}"].model == "{model}"',) if model else ()
    return Choice("class", (ANY, *wanted), count)


def claims(*choices: Choice, alike: str = "") -> Claims:
    requests = tuple(DeviceRequest(f"r{number}", (one,)) for number, one in enumerate(choices))
    return (ClaimSpec(requests, (AttributeConstraint(alike),) if alike else ()),)


def first_available(*choices: Choice) -> Claims:
    named = tuple(
        Choice(one.device_class, one.selectors, one.count, name=f"s{at}") for at, one in enumerate(choices)
    )
    return (ClaimSpec((DeviceRequest("r", named),)),)


def test_equal_pods_are_counted() -> None:
    eight = [device(str(number)) for number in range(8)]
    assert hosted_on(eight, (), claims(of(count=2)), 10) == 4
    assert hosted_on(eight, (), claims(of(count=3)), 10) == 2
    assert hosted_on(eight, [claims(of(count=3))], claims(of(count=2)), 10) == 2
    assert hosted_on(eight, (), claims(of("b")), 10) == 0
    assert hosted_on(eight, (), claims(of(count=2)), 1) == 1


def test_held_and_faulty_devices_are_not_counted() -> None:
    some = [device("0", held=True), device("1", problem="it is a part"), device("2")]
    assert hosted_on(some, (), claims(of()), 3) == 1


def test_taint_keeps_pods_off_unless_they_tolerate_it() -> None:
    some = [device("0", taints=(Taint("sick", "NoSchedule"),)), device("1")]
    assert hosted_on(some, (), claims(of()), 3) == 1
    tolerant = Choice("class", (ANY,), 1, (Toleration("sick", "Exists"),))
    assert hosted_on(some, (), claims(tolerant), 3) == 2


def test_pods_are_served_in_the_order_that_suits_them() -> None:
    some = [device("0", "a"), device("1", "b")]
    any_pod, a_pod, b_pod = claims(of()), claims(of("a")), claims(of("b"))
    assert hosts(on(some), counted(any_pod, a_pod))
    assert hosts(on(some), counted(any_pod, a_pod), a_pod)
    assert not hosts(on(some), counted(any_pod, a_pod), any_pod)
    assert hosts(on(some), counted(any_pod, b_pod), any_pod)
    assert not hosts(on(some), counted(any_pod, a_pod, b_pod))
    assert hosted_on(some, [any_pod], a_pod, 9) == 1
    assert hosted_on(some, [any_pod, any_pod], a_pod, 9) == 0


def test_parts_of_a_device_take_from_its_counters() -> None:
    """Two devices of memory 4, each whole or in parts: two of 1, or one of 3."""

    def parts(gpu: str) -> list[NodeDevice]:
        sizes = {f"{gpu}-whole": ("whole", 4), f"{gpu}-big": ("big", 3)}
        sizes |= {f"{gpu}-small-{number}": ("small", 1) for number in range(2)}
        counter = (DRIVER, "pool", gpu, "memory")
        return [device(name, model, consumes={counter: size}) for name, (model, size) in sizes.items()]

    def hosted(waiting: Sequence[Claims], pod: Claims, **held: bool) -> int:
        devices = [replace(one, held=one.name in held) for one in [*parts("g"), *parts("h")]]
        counters = {(DRIVER, "pool", gpu, "memory"): 4 for gpu in "gh"}
        return most_hosted(Node("n", devices=tuple(devices), counters=counters), counted(*waiting), pod, 9)

    assert hosted((), claims(of("whole"))) == 2
    assert hosted((), claims(of("small"))) == 4
    assert hosted((), claims(of("big", 2))) == 1
    assert hosted([claims(of("whole"))], claims(of("small"))) == 2
    assert hosted([claims(of("big"))], claims(of("small"))) == 3
    assert hosted([claims(of("big"))], claims(of("whole"))) == 1
    assert hosted((), claims(of("small")), **{"g-whole": True}) == 2
    assert hosted((), claims(of("whole"), of("small"))) == 1


def test_several_claims_share_a_device_until_its_capacity_is_used() -> None:
    policy = RequestPolicy(default=GIB, least=GIB, step=GIB)
    shared = device("0", capacity={"memory": Capacity(8 * GIB, policy)}, shareable=True)

    def of_memory(amount: int) -> Claims:
        return claims(replace(of(), capacity=(("memory", amount),)))

    assert hosted_on([shared], (), of_memory(2 * GIB), 9) == 4
    assert hosted_on([shared], (), of_memory(2 * GIB + 1), 9) == 2
    assert hosted_on([shared], (), claims(of()), 9) == 8
    assert hosted_on([shared], (), of_memory(9 * GIB), 9) == 0
    assert hosted_on([shared], [of_memory(5 * GIB)], of_memory(2 * GIB), 9) == 1
    used = replace(shared, held=True, used={"memory": 7 * GIB})
    assert hosted_on([used], (), claims(of()), 9) == 1
    assert hosted_on([device("1", capacity={"memory": Capacity(GIB)})], (), of_memory(GIB), 9) == 1
    assert hosted_on([device("1", capacity={"memory": Capacity(GIB)})], (), of_memory(2 * GIB), 9) == 0
    assert hosted_on([device("1")], (), of_memory(GIB), 9) == 0
    whole = device("2", capacity={"memory": Capacity(8 * GIB)}, shareable=True)
    assert hosted_on([whole], (), claims(of()), 9) == 1
    assert hosted_on([device("3", shareable=True)], (), claims(of()), 9) == 9


def test_claim_that_pods_share_gets_its_devices_once() -> None:
    (spec,) = claims(of(count=2))
    ours: Claims = (replace(spec, shared="ns/ours"),)
    some = [device("0"), device("1"), device("2")]
    assert hosted_on(some, (), ours, 9) == 9
    assert hosted_on(some, [ours], ours, 9) == 9
    assert hosted_on(some[:1], (), ours, 9) == 0
    assert hosted_on(some, [ours], claims(of()), 9) == 1
    assert hosted_on(some, (), (*ours, *claims(of())), 9) == 1


def test_extended_resource_needs_devices_where_the_node_has_none_of_it_itself() -> None:
    (spec,) = claims(of(count=2))
    pod: Claims = (replace(spec, extended="nvidia.com/gpu"),)
    assert hosted_on([device("0"), device("1"), device("2")], (), pod, 9) == 1
    plugged = Node("n", allocatable=Resources({"nvidia.com/gpu": 8}))
    assert most_hosted(plugged, (), pod, 9) == 9
    by_devices = replace(plugged, by_devices=frozenset({"nvidia.com/gpu"}))
    assert most_hosted(by_devices, (), pod, 9) == 0


def test_node_is_used_only_if_no_device_that_a_pod_may_get_lacks_what_it_requires() -> None:
    pod = claims(replace(of(), requires=(("model", "a"),)))
    assert hosted_on([device("0"), device("1")], (), pod, 9) == 2
    assert hosted_on([device("0"), device("1", "b")], (), pod, 9) == 0
    assert failure(on([device("1", "b")]), pod) == "1 hasn't model=a"
    assert hosted_on([device("0")], (), claims(replace(of(), requires=(("numa", "0"),))), 9) == 1


def test_devices_of_a_claim_have_different_values_of_the_constrained_attribute() -> None:
    (spec,) = claims(of(count=2))
    apart: Claims = (replace(spec, constraints=(AttributeConstraint(NUMA, distinct=True),)),)
    assert hosted_on([device(str(number), numa=number // 2) for number in range(4)], (), apart, 9) == 2
    assert hosted_on([device("0"), device("1")], (), apart, 9) == 0


def test_devices_of_a_claim_have_one_value_of_the_constrained_attribute() -> None:
    halves = [device(str(number), numa=number // 3) for number in range(6)]
    assert hosted_on(halves, (), claims(of(count=2), alike=NUMA), 9) == 2
    assert hosted_on(halves, (), claims(of(count=4), alike=NUMA), 9) == 0
    assert hosted_on(halves, (), claims(of(), of(), of(), alike=NUMA), 9) == 2
    assert hosted_on(halves, (), claims(of(), alike=f"{DRIVER}/unknown"), 9) == 0
    assert hosted_on(halves, [claims(of())], claims(of(count=2), alike=NUMA), 9) == 2
    assert hosted_on(halves, [claims(of())], claims(of(count=3), alike=NUMA), 9) == 1


def test_first_choice_that_can_be_served_counts() -> None:
    some = [device("0", "a"), device("1", "b"), device("2", "b")]
    either = first_available(of("a"), of("b", 2))
    assert hosted_on(some, (), either, 9) == 2
    assert hosted_on(some, [claims(of("b"))], either, 9) == 1
    assert hosted_on(some[:1], (), either, 9) == 1


def test_all_devices_of_a_node_are_taken_or_none() -> None:
    some = [device("0"), device("1"), device("2", "b")]
    everything = claims(Choice("class", (ANY,), 0))
    assert hosted_on(some, (), everything, 9) == 1
    assert hosted_on(some, [claims(of())], everything, 9) == 0
    assert hosted_on([device("0", held=True), *some[1:]], (), everything, 9) == 0
    assert hosted_on((), (), everything, 9) == 0


def test_failing_selector_keeps_the_node_out_and_is_told() -> None:
    failing = (ClaimSpec((DeviceRequest("r", (Choice("class", ("device.other == 1",)),)),)),)
    assert hosted_on([device("0")], (), failing, 1) == 0
    assert "device.other" in failure(on([device("0")]), failing)
    assert failure(on([device("0")]), claims(of())) == ""
    unplanned = (ClaimSpec(problem="it asks for administrators' access"),)
    assert hosted_on([device("0")], (), unplanned, 1) == 0
    assert failure(on([device("0")]), unplanned) == "it asks for administrators' access"


def test_devices_of_several_claims_are_different_ones() -> None:
    some = [device("0"), device("1")]
    assert hosted_on(some, (), (*claims(of()), *claims(of())), 9) == 1
    assert hosted_on(some, (), (*claims(of()), *claims(of(count=2))), 9) == 0


# Against an allocator that takes the first devices.

CHOICES = st.builds(of, st.sampled_from(["", "a", "b"]), st.integers(1, 3))
PODS = st.one_of(
    st.builds(lambda one, alike: claims(one, alike=alike), CHOICES, st.sampled_from(["", NUMA])),
    st.builds(lambda one, other: claims(one, other), CHOICES, CHOICES),
    st.builds(first_available, CHOICES, CHOICES),
)
DEVICES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=6)


def allocate(free: list[NodeDevice], pod: Claims) -> list[NodeDevice] | None:
    """Return what is left once the pod has its devices, the first that an exhaustive search finds."""
    (claim,) = pod
    bound = bool(claim.constraints)

    def serve(number: int, left: list[NodeDevice], numa: object) -> list[NodeDevice] | None:
        if number == len(claim.requests):
            return left
        for choice in claim.requests[number].choices:
            fitting = [one for one in left if selects(choice.selectors, one) is True]
            for taken in combinations(fitting, choice.count):
                sides = {one.attributes[NUMA] for one in taken} | ({numa} if numa is not None else set())
                if bound and len(sides) > 1:
                    continue
                rest = [one for one in left if one not in taken]
                found = serve(number + 1, rest, sides.pop() if bound else None)
                if found is not None:
                    return found
        return None

    return serve(0, free, None)


@settings(max_examples=100, deadline=None)
@given(DEVICES, st.lists(PODS, max_size=2), PODS, st.randoms(use_true_random=False))
def test_no_pod_is_refused_if_each_is_ungated_when_the_others_can_be_served_after_it(
    found: Sequence[tuple[str, int]], others: list[Claims], pod: Claims, rng: random.Random
) -> None:
    free = [device(str(number), *one) for number, one in enumerate(found)]
    if not hosts(on(free), counted(*others)):
        return
    waiting = [*others, *[pod] * hosted_on(free, others, pod, 4)]
    while waiting:
        first = [one for one in waiting if hosts(on(free), counted(*waiting), one)]
        assert first, "one of them may always be served first"
        served = rng.choice(first)
        waiting.remove(served)
        left = allocate(free, served)
        assert left is not None, served
        free = left


@settings(max_examples=100, deadline=None)
@given(DEVICES, PODS)
def test_node_hosts_as_many_equal_pods_as_are_served(found: Sequence[tuple[str, int]], pod: Claims) -> None:
    devices = [device(str(number), *one) for number, one in enumerate(found)]
    left, served = devices, 0
    while served < 4 and (after := allocate(left, pod)) is not None:
        left, served = after, served + 1
    assert hosted_on(devices, (), pod, 4) == served


def test_administrator_gets_devices_that_others_have_and_keeps_nobody_from_them() -> None:
    some = [device("0", held=True), device("1")]
    watching = claims(replace(of(count=2), admin=True))
    assert hosted_on(some, (), watching, 9) == 9
    assert hosted_on(some, (), claims(replace(of(count=3), admin=True)), 9) == 0
    assert hosted_on(some, [watching], claims(of()), 9) == 1
    assert hosted_on(some, [claims(of())], watching, 9) == 9
    everything = claims(replace(of(), count=0, admin=True))
    assert hosted_on(some, [claims(of())], everything, 9) == 9


def test_device_that_an_administrator_has_is_no_other_device_of_the_same_pod() -> None:
    """As for kube-scheduler: the first device goes to the administrator's request, the second to the other."""
    watching = replace(of(), admin=True)
    assert hosted_on([device("0"), device("1")], (), claims(watching, of()), 9) == 2
    assert hosted_on([device("0")], (), claims(watching, of()), 9) == 0
    assert hosted_on([device("0")], (), (*claims(of()), *claims(watching)), 9) == 1
    assert hosted_on([device("0")], (), claims(of(), watching), 9) == 0


def test_administrator_needs_the_counters_of_a_device() -> None:
    counter = (DRIVER, "pool", "gpu", "memory")
    node = Node(
        "n",
        devices=(device("0", consumes={counter: 3}), device("1", "b", consumes={counter: 3})),
        counters={counter: 4},
    )
    watching = claims(replace(of("b"), admin=True))
    assert most_hosted(node, (), watching, 2) == 2
    taken = replace(node, devices=tuple(replace(one, held=one.name == "0") for one in node.devices))
    assert most_hosted(taken, (), watching, 2) == 0
    assert most_hosted(node, counted(watching), claims(of("a")), 2) == 1


def test_nodes_whose_devices_have_other_values_that_differ_in_the_same_way_look_alike() -> None:
    asked = claims(of(), of(), alike=NUMA)

    def view(*numa: int) -> object:
        devices = tuple(device(str(at), numa=one) for at, one in enumerate(numa))
        return lens((asked,)).view(Node(str(numa), devices=devices))

    assert view(0, 0, 1, 1) is view(8, 8, 9, 9) is view(1, 1, True, True)
    assert view(0, 0, 0, 1) is not view(0, 0, 1, 1)
