"""How many pods a node hosts: never more than kube-scheduler's allocator could serve, in whatever order it does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.devices.hosting import failure, hosts, most_hosted
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import (
    Choice,
    Claims,
    ClaimSpec,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    MatchAttribute,
)
from fluence_extender.model.devices import NodeDevice

DRIVER = "d.example.com"
ANY = f'device.driver == "{DRIVER}"'
NUMA = f"{DRIVER}/numa"


def device(name: str, model: str = "a", numa: int = 0, **fields: object) -> NodeDevice:
    attributes = {f"{DRIVER}/model": model, NUMA: numa}
    return NodeDevice(DRIVER, "pool", name, attributes, **fields)  # type: ignore[arg-type]


def of(model: str = "", count: int = 1) -> Choice:
    wanted = (f'device.attributes["{DRIVER}"].model == "{model}"',) if model else ()
    return Choice("class", (ANY, *wanted), count)


def claims(*choices: Choice, alike: str = "") -> Claims:
    requests = tuple(DeviceRequest(f"r{number}", (one,)) for number, one in enumerate(choices))
    return (ClaimSpec(requests, (MatchAttribute(alike),) if alike else ()),)


def first_available(*choices: Choice) -> Claims:
    named = tuple(
        Choice(one.device_class, one.selectors, one.count, name=f"s{at}") for at, one in enumerate(choices)
    )
    return (ClaimSpec((DeviceRequest("r", named),)),)


def test_equal_pods_are_counted() -> None:
    eight = [device(str(number)) for number in range(8)]
    assert most_hosted(eight, (), claims(of(count=2)), 10) == 4
    assert most_hosted(eight, (), claims(of(count=3)), 10) == 2
    assert most_hosted(eight, [claims(of(count=3))], claims(of(count=2)), 10) == 2
    assert most_hosted(eight, (), claims(of("b")), 10) == 0
    assert most_hosted(eight, (), claims(of(count=2)), 1) == 1


def test_held_and_faulty_devices_are_not_counted() -> None:
    some = [device("0", held=True), device("1", problem="it is a part"), device("2")]
    assert most_hosted(some, (), claims(of()), 3) == 1


def test_taint_keeps_pods_off_unless_they_tolerate_it() -> None:
    some = [device("0", taints=(DeviceTaint("sick", "NoSchedule"),)), device("1")]
    assert most_hosted(some, (), claims(of()), 3) == 1
    tolerant = Choice("class", (ANY,), 1, (DeviceToleration("sick", "Exists"),))
    assert most_hosted(some, (), claims(tolerant), 3) == 2


def test_pod_that_takes_any_device_may_take_the_one_that_another_needs() -> None:
    some = [device("0", "a"), device("1", "b")]
    assert most_hosted(some, [claims(of())], claims(of("b")), 1) == 0
    assert most_hosted([*some, device("2", "b")], [claims(of())], claims(of("b")), 2) == 1
    assert not hosts(some, {claims(of()): 1, claims(of("b")): 1})
    assert hosts(some, {claims(of("a")): 1, claims(of("b")): 1})


def test_devices_of_a_claim_have_one_value_of_the_constrained_attribute() -> None:
    halves = [device(str(number), numa=number // 3) for number in range(6)]
    assert most_hosted(halves, (), claims(of(count=2), alike=NUMA), 9) == 2
    assert most_hosted(halves, (), claims(of(count=4), alike=NUMA), 9) == 0
    assert most_hosted(halves, (), claims(of(), of(), of(), alike=NUMA), 9) == 2
    assert most_hosted(halves, (), claims(of(), alike=f"{DRIVER}/unknown"), 9) == 0
    assert most_hosted(halves, [claims(of())], claims(of(count=2), alike=NUMA), 9) == 2
    assert most_hosted(halves, [claims(of())], claims(of(count=3), alike=NUMA), 9) == 1


def test_first_choice_that_can_be_served_counts() -> None:
    some = [device("0", "a"), device("1", "b"), device("2", "b")]
    either = first_available(of("a"), of("b", 2))
    assert most_hosted(some, (), either, 9) == 2
    assert most_hosted(some, [claims(of("b"))], either, 9) == 1
    assert most_hosted(some[:1], (), either, 9) == 1


def test_all_devices_of_a_node_are_taken_or_none() -> None:
    some = [device("0"), device("1"), device("2", "b")]
    everything = claims(Choice("class", (ANY,), 0))
    assert most_hosted(some, (), everything, 9) == 1
    assert most_hosted(some, [claims(of())], everything, 9) == 0
    assert most_hosted([device("0", held=True), *some[1:]], (), everything, 9) == 0
    assert most_hosted((), (), everything, 9) == 0


def test_failing_selector_keeps_the_node_out_and_is_told() -> None:
    failing = (ClaimSpec((DeviceRequest("r", (Choice("class", ("device.other == 1",)),)),)),)
    assert most_hosted([device("0")], (), failing, 1) == 0
    assert "device.other" in failure([device("0")], failing)
    assert failure([device("0")], claims(of())) == ""
    unplanned = (ClaimSpec(problem="it asks for administrators' access"),)
    assert most_hosted([device("0")], (), unplanned, 1) == 0
    assert failure([device("0")], unplanned) == "it asks for administrators' access"


def test_devices_of_several_claims_are_different_ones() -> None:
    some = [device("0"), device("1")]
    assert most_hosted(some, (), (*claims(of()), *claims(of())), 9) == 1
    assert most_hosted(some, (), (*claims(of()), *claims(of(count=2))), 9) == 0


# Against an allocator that serves pods in a random order and takes devices in a random order.

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
            for taken in permutations(fitting, choice.count):
                sides = {one.attributes[NUMA] for one in taken} | ({numa} if numa is not None else set())
                if bound and len(sides) > 1:
                    continue
                rest = [one for one in left if one not in taken]
                found = serve(number + 1, rest, sides.pop() if bound else None)
                if found is not None:
                    return found
        return None

    return serve(0, free, None)


@settings(max_examples=150, deadline=None)
@given(DEVICES, st.lists(PODS, max_size=2), PODS, st.randoms(use_true_random=False))
def test_no_pod_is_refused_that_was_said_to_be_hosted(
    found: Sequence[tuple[str, int]], waiting: list[Claims], pod: Claims, rng: random.Random
) -> None:
    devices = [device(str(number), *one) for number, one in enumerate(found)]
    hosted = most_hosted(devices, waiting, pod, 4)
    if not hosted:
        return
    for _ in range(10):
        pods, free = [*waiting, *[pod] * hosted], list(devices)
        rng.shuffle(pods)
        for one in pods:
            rng.shuffle(free)
            left = allocate(free, one)
            assert left is not None, (devices, pods)
            free = left


@settings(max_examples=150, deadline=None)
@given(DEVICES, PODS)
def test_one_pod_alone_is_hosted_wherever_it_can_be_served(
    found: Sequence[tuple[str, int]], pod: Claims
) -> None:
    devices = [device(str(number), *one) for number, one in enumerate(found)]
    assert most_hosted(devices, (), pod, 1) == (allocate(devices, pod) is not None)
