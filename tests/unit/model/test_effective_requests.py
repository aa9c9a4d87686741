"""A pod's requests follow Kubernetes' rules for init containers, sidecars, overhead and resizes."""

from collections.abc import Mapping
from typing import Any

import pytest

from fluence_extender.model.requests import InvalidRequest, allocatable_resources, effective_requests
from fluence_extender.model.resources import Resources

QPU = "fluxion.flux-framework.org/qpu"


def container(name: str = "c", limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    return asking(requests, limits, name)


def asking(
    requests: Mapping[str, object], limits: dict[str, Any] | None = None, name: str = "c"
) -> dict[str, Any]:
    """A container with requests of names that can't be those of arguments."""
    resources: dict[str, Any] = {"requests": dict(requests)}
    if limits is not None:
        resources["limits"] = limits
    return {"name": name, "resources": resources}


def sidecar(name: str = "s", **requests: Any) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


def requests_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    return dict(effective_requests(spec, status)[0])


def test_pod_without_requests_takes_only_a_pod_slot() -> None:
    assert effective_requests({"containers": [{"name": "c"}]}) == (Resources({"pods": 1}), {})
    assert effective_requests({}) == (Resources({"pods": 1}), {})


def test_containers_add_up_before_they_are_rounded() -> None:
    spec = {"containers": [container(cpu="100.4m", memory="0.5"), container(cpu="100.4m", memory="0.5")]}
    assert requests_of(spec) == {"cpu": 201, "memory": 1, "pods": 1}


def test_the_largest_init_container_counts_when_it_exceeds_the_containers() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi")],
        "initContainers": [container(cpu="3"), container(cpu="2", memory="2Gi")],
    }
    assert requests_of(spec) == {"cpu": 3000, "memory": 2**31, "pods": 1}


def test_sidecars_add_to_containers_and_to_later_init_containers() -> None:
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [container(cpu="4"), sidecar(cpu="2"), container(cpu="3")],
    }
    assert requests_of(spec)["cpu"] == 5000
    spec["initContainers"].reverse()
    assert requests_of(spec)["cpu"] == 6000


def test_pod_level_requests_replace_the_sum_of_the_resources_they_name() -> None:
    spec = {
        "containers": [asking({"cpu": "1", "memory": "1Gi", "example.com/fpga": "1"})],
        "resources": {"requests": {"cpu": "500m", "hugepages-2Mi": "4Mi", "example.com/fpga": "9"}},
        "overhead": {"cpu": "50m"},
    }
    assert requests_of(spec) == {
        "cpu": 550,
        "memory": 2**30,
        "hugepages-2Mi": 4 * 2**20,
        "example.com/fpga": 1,
        "pods": 1,
    }


def test_limits_count_for_extended_resources_without_requests_only() -> None:
    limits = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "2", QPU: "1"}
    resources, devices = effective_requests({"containers": [container(limits=limits, cpu="1")]})
    assert resources == Resources({"cpu": 1000, "nvidia.com/gpu": 2, "pods": 1})
    assert devices == {"qpu": 1}


def test_devices_follow_the_same_rules_and_stay_out_of_the_resources() -> None:
    spec = {
        "containers": [
            asking({QPU: "1"}),
            asking({QPU: 1, "fluxion.flux-framework.org/qubit": "5"}),
        ],
        "initContainers": [asking({QPU: "3"})],
    }
    resources, devices = effective_requests(spec)
    assert resources == Resources({"pods": 1})
    assert devices == {"qpu": 3, "qubit": 5}


def test_device_request_of_zero_is_no_request() -> None:
    assert effective_requests({"containers": [asking({QPU: "0"})]})[1] == {}


def resizing(allocated: str, actual: str, reason: str = "Deferred") -> dict[str, Any]:
    return {
        "conditions": [{"type": "PodResizePending", "reason": reason}],
        "containerStatuses": [
            {
                "name": "c",
                "allocatedResources": {"cpu": allocated},
                "resources": {"requests": {"cpu": actual}},
            }
        ],
    }


def test_a_resize_under_way_counts_the_larger_of_requested_and_actual_amount() -> None:
    spec = {"containers": [container(cpu="2")]}
    assert requests_of(spec, resizing("1", "1"))["cpu"] == 2000
    assert requests_of(spec, resizing("3", "1"))["cpu"] == 3000
    assert requests_of(spec, resizing("1", "4"))["cpu"] == 4000


def test_infeasible_resize_counts_the_actual_amount() -> None:
    spec = {"containers": [container(cpu="64")]}
    assert requests_of(spec, resizing("1", "1", "Infeasible"))["cpu"] == 1000


def test_status_of_an_ordinary_init_container_is_ignored() -> None:
    spec = {"initContainers": [container("i", cpu="1"), sidecar("s", cpu="1")]}
    given = {"requests": {"cpu": "9"}}
    one = {"initContainerStatuses": [{"name": "i", "resources": given}]}
    other = {"initContainerStatuses": [{"name": "s", "resources": given}]}
    assert requests_of(spec, one)["cpu"] == 1000
    assert requests_of(spec, other)["cpu"] == 9000


def test_a_pod_level_resize_counts_the_larger_too() -> None:
    spec = {"resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "5"}}
    assert requests_of(spec, status)["cpu"] == 5000
    assert requests_of(spec, {})["cpu"] == 2000


def test_infeasible_pod_level_resize_counts_only_the_actual_amount() -> None:
    spec = {"resources": {"requests": {"cpu": "64", "memory": "1Gi"}}}
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        "resources": {"requests": {"cpu": "2"}},
    }
    assert requests_of(spec, status) == {"cpu": 2000, "pods": 1}


def test_only_the_first_condition_on_a_resize_counts() -> None:
    spec = {"containers": [container(cpu="64")]}
    status = resizing("1", "1", "Deferred")
    status["conditions"].append({"type": "PodResizePending", "reason": "Infeasible"})
    assert requests_of(spec, status)["cpu"] == 64000


def test_resource_claims_on_the_node_are_added_before_pod_level_requests() -> None:
    claims = [{"resourceClaimName": "one", "resources": {"cpu": "2", "memory": "1Gi"}}]
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"memory": "3Gi"}}}
    status = {"nodeAllocatableResourceClaimStatuses": claims}
    assert requests_of(spec, status) == {"cpu": 3000, "memory": 3 * 2**30, "pods": 1}


def test_ephemeral_containers_count_for_nothing() -> None:
    spec = {"containers": [container(cpu="1")], "ephemeralContainers": [container("debug", cpu="8")]}
    assert requests_of(spec)["cpu"] == 1000


def test_a_hundred_containers_add_up() -> None:
    spec = {
        "containers": [container(f"c{number}", cpu="10.5m", memory="1Mi") for number in range(100)],
        "initContainers": [sidecar(f"s{number}", cpu="1m") for number in range(100)],
    }
    assert requests_of(spec) == {"cpu": 1150, "memory": 100 * 2**20, "pods": 1}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [container(), container(cpu="much")]}, "spec.containers[1].resources.requests.cpu"),
        ({"initContainers": [container(memory="1gb")]}, "spec.initContainers[0].resources.requests.memory"),
        ({"overhead": {"cpu": None}}, "spec.overhead.cpu"),
        ({"containers": [container(cpu="-1")]}, "spec.containers[0].resources.requests.cpu"),
        ({"containers": [container(limits={QPU: "x"})]}, f"spec.containers[0].resources.limits.{QPU}"),
        ({"containers": "none"}, "spec.containers"),
        ({"containers": [7]}, "spec.containers[0]"),
        ({"resources": []}, "spec.resources"),
    ],
)
def test_unreadable_amount_is_named_by_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        effective_requests(spec)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_allocatable_rounds_up_as_kube_scheduler_does_and_names_a_bad_amount() -> None:
    assert allocatable_resources({"cpu": "3999.9m", "memory": "1.5", "pods": "110"}) == Resources(
        {"cpu": 4000, "memory": 2, "pods": 110}
    )
    assert allocatable_resources(None) == Resources()
    with pytest.raises(InvalidRequest, match=r"status\.allocatable\.cpu"):
        allocatable_resources({"cpu": "lots"})
