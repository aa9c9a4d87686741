"""The kubelet's admission as arithmetic: quantities, effective requests, and which pods fit which nodes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.e2e.kubelet_admission import admit, amounts, effective_requests, quantity

ROOM = {"cpu": 2000, "memory": 4096, "pods": 3, "ephemeral-storage": 100, "example.com/gpu": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", "4"),
        (4, "4"),
        ("1500m", "1.5"),
        ("0.5", "0.5"),
        ("2Gi", str(2 * 2**30)),
        ("1Ei", str(2**60)),
        ("1k", "1000"),
        ("3G", str(3 * 10**9)),
        ("1E", str(10**18)),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12u", "0.000012"),
        ("7n", "0.000000007"),
    ],
)
def test_quantity_is_read_as_kubernetes_writes_it(text: str | int, value: str) -> None:
    assert quantity(text) == Decimal(value)


def test_amounts_are_rounded_up_once() -> None:
    assert amounts({"cpu": "100u", "memory": "1500m", "example.com/gpu": "2"}) == {
        "cpu": 1,
        "memory": 2,
        "example.com/gpu": 2,
    }


def test_missing_resource_list_is_empty() -> None:
    assert amounts(None) == {}


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def test_containers_add_up() -> None:
    assert effective_requests({"containers": [container("1"), container("500m"), {}]}) == {"cpu": 1500}


def test_init_container_raises_the_request_to_its_own() -> None:
    spec = {"containers": [container("1")], "initContainers": [container("3"), container("2")]}
    assert effective_requests(spec) == {"cpu": 3000}


def test_sidecar_adds_to_containers_and_to_later_init_containers() -> None:
    sidecar = container("1", restartPolicy="Always")
    before = {"containers": [container("1")], "initContainers": [container("3"), sidecar]}
    after = {"containers": [container("1")], "initContainers": [sidecar, container("3")]}
    assert effective_requests(before) == {"cpu": 3000}
    assert effective_requests(after) == {"cpu": 4000}


def test_two_sidecars_hold_both_while_the_next_starts() -> None:
    sidecar = container("1", restartPolicy="Always")
    spec = {
        "containers": [container("1")],
        "initContainers": [sidecar, container("2"), sidecar, container("2")],
    }
    assert effective_requests(spec) == {"cpu": 4000}


def test_pod_level_request_replaces_that_of_containers_only_where_supported() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "10", "example.com/gpu": "1"}}}],
        "resources": {"requests": {"cpu": "3", "example.com/gpu": "5"}},
    }
    assert effective_requests(spec) == {"cpu": 3000, "memory": 10, "example.com/gpu": 1}


def test_overhead_is_added_last() -> None:
    spec = {
        "containers": [container("1")],
        "initContainers": [container("2")],
        "overhead": {"cpu": "250m", "memory": "64"},
    }
    assert effective_requests(spec) == {"cpu": 2250, "memory": 64}


def test_exact_fit_is_admitted() -> None:
    assert admit({"cpu": 500, "memory": 96}, [{"cpu": 1500, "memory": 4000}], ROOM) is None


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ({"cpu": 2001}, "OutOfcpu"),
        ({"memory": 4097}, "OutOfmemory"),
        ({"ephemeral-storage": 101}, "OutOfephemeral-storage"),
        ({"example.com/gpu": 3}, "OutOfexample.com/gpu"),
        ({"hugepages-2Mi": 1}, "OutOfhugepages-2Mi"),
        ({"cpu": 2001, "memory": 4097}, "OutOfcpu"),
    ],
)
def test_first_missing_resource_is_the_reason(requests: dict[str, int], reason: str) -> None:
    rejection = admit(requests, [], ROOM)
    assert rejection is not None
    assert rejection.reason == reason


def test_rejection_names_the_amounts_as_kubelet_does() -> None:
    rejection = admit({"cpu": 600}, [{"cpu": 1500}], ROOM)
    assert rejection is not None
    assert rejection.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"
    )


def test_pod_slots_are_counted_even_for_pods_without_requests() -> None:
    assert admit({}, [{}, {}], ROOM) is None
    rejection = admit({}, [{}, {}, {}], ROOM)
    assert rejection is not None
    assert rejection.reason == "OutOfpods"


def test_pod_without_requests_is_admitted_to_an_overcommitted_node() -> None:
    assert admit({"cpu": 0}, [{"cpu": 9000}], ROOM) is None


def test_extended_resource_that_the_node_lacks_is_dropped() -> None:
    assert admit({"fluxion.flux-framework.org/qpu": 1}, [], ROOM) is None


def test_unknown_node_admits_no_pod() -> None:
    assert admit({}, [], {}) is not None
