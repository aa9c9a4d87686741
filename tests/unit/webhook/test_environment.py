"""The environment tells a program its backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.webhook.contract import Context
from tests.unit.webhook.pods import CONTEXT, QPU, QUBIT, admitted, annotation, container, env, grouped, pod

BACKEND = annotation("fluence.flux-framework.org/backend")


def attribute(key: str) -> str:
    return annotation(f"fluence.flux-framework.org/attr-{key}")


def with_file(text: str) -> Context:
    return replace(CONTEXT, resources=parse_resources(text))


def test_each_configured_attribute_has_a_variable() -> None:
    assert env(admitted(pod(container(asks={QUBIT: "5"})))) == {
        "FLUXION_BACKEND": BACKEND,
        "FLUXION_QRMI_TYPE": attribute("qrmi_type"),
        "FLUXION_VENDOR": attribute("vendor"),
        "QRMI_BACKEND": BACKEND,
        "QRMI_RESOURCE_ID": BACKEND,
        "QRMI_JOB_QPU_RESOURCES": BACKEND,
        "QRMI_JOB_QPU_TYPES": attribute("qrmi_type"),
    }


def test_next_pod_follows_an_edit_of_the_file() -> None:
    body = pod(container(asks={QUBIT: "5"}))
    before = with_file("resources: [{type: qubit, name: a, attributes: {vendor: ibm}}]")
    after = with_file("resources: [{type: qubit, name: a, attributes: {vendor: ibm, cost-per-shot: '0.1'}}]")
    assert env(admitted(body, after)).keys() - env(admitted(body, before)).keys() == {"FLUXION_COST_PER_SHOT"}


def test_without_a_file_only_the_backend_is_named() -> None:
    found = env(admitted(pod(container(asks={QUBIT: "1"})), Context()))
    assert found == {"FLUXION_BACKEND": BACKEND, "QRMI_BACKEND": BACKEND}


def test_qrmi_gets_name_and_type_together_or_neither() -> None:
    found = env(admitted(pod(container(asks={QUBIT: "1"})), with_file("resources: [{type: qubit, name: a}]")))
    assert not {"QRMI_RESOURCE_ID", "QRMI_JOB_QPU_RESOURCES", "QRMI_JOB_QPU_TYPES"} & found.keys()


def test_other_qrmi_attributes_have_qrmis_names_too() -> None:
    context = with_file(
        "resources: [{type: qubit, name: a, attributes: {qrmi_ibm_qrs_endpoint: 'https://x'}}]"
    )
    found = env(admitted(pod(container(asks={QUBIT: "1"})), context))
    endpoint = attribute("qrmi_ibm_qrs_endpoint")
    assert found["QRMI_IBM_QRS_ENDPOINT"] == found["FLUXION_QRMI_IBM_QRS_ENDPOINT"] == endpoint


@pytest.mark.parametrize(("type_", "there"), [("qdevice", True), ("qpu", False), ("qubit", False)])
def test_attribute_that_a_type_has_cleared_has_no_variable(type_: str, there: bool) -> None:
    context = with_file(
        "resources: [{type: qdevice, name: a, attributes: {region: us-east}, "
        "with: [{type: qpu, attributes: {region: ''}, with: [{type: qubit, count: 5}]}]}]"
    )
    found = env(admitted(pod(container(asks={f"fluxion.flux-framework.org/{type_}": "1"})), context))
    assert ("FLUXION_REGION" in found) is there


def test_attribute_that_only_one_of_two_devices_has_cleared_keeps_its_variable() -> None:
    context = with_file(
        "resources: [{type: d, name: a, attributes: {region: x}, with: [{type: qubit, attributes: {region: ''}}]},"
        "{type: d, name: b, attributes: {region: y}, with: [{type: qubit}]}]"
    )
    assert "FLUXION_REGION" in env(admitted(pod(container(asks={QUBIT: "1"})), context))


def test_attribute_of_other_devices_has_a_variable_too() -> None:
    context = with_file(
        "resources: [{type: qubit, name: a}, {type: licence, name: b, attributes: {seats: '3'}}]"
    )
    assert "FLUXION_SEATS" in env(admitted(pod(container(asks={QUBIT: "1"})), context))


def test_users_own_variables_stay_and_may_refer_to_ours() -> None:
    own = [
        {"name": "FLUXION_BACKEND", "value": "mine"},
        {"name": "URL", "value": "https://$(FLUXION_VENDOR)"},
    ]
    after = admitted(pod(container(asks={QUBIT: "1"}, env=own)))
    names = [one["name"] for one in after["spec"]["containers"][0]["env"]]
    assert env(after)["FLUXION_BACKEND"] == "mine"
    assert names.index("FLUXION_VENDOR") < names.index("URL")
    assert len(names) == len(set(names))


def test_every_container_gets_the_variables_init_containers_too() -> None:
    body = pod(
        container("app"),
        container("helper", asks={QUBIT: "1"}),
        initContainers=[container("prepare"), container("log", restartPolicy="Always")],
    )
    after = admitted(body)
    for name in ("app", "helper", "prepare", "log"):
        assert env(after, name)["FLUXION_BACKEND"] == BACKEND


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_limits_without_requests_count_as_requests(field: str) -> None:
    asking = {"name": "a", "resources": {"limits": {QUBIT: "1"}}}
    body = pod(container("app"))
    body["spec"][field] = [*body["spec"].get(field, []), asking]
    assert env(admitted(body))["FLUXION_BACKEND"] == BACKEND


def test_request_for_zero_devices_is_none() -> None:
    body = pod(container(asks={QUBIT: "0"}))
    assert admitted(body) == body


def test_pod_without_devices_is_left_as_it_is() -> None:
    body = pod(container(asks={"cpu": "1", "nvidia.com/gpu": "1"}))
    assert admitted(body) == body


# Python's own variable.


def python_path(after_of: list[dict[str, object]]) -> dict[str, str]:
    return env(admitted(grouped(container(asks={QPU: "1"}, env=after_of))))


def test_own_python_path_counts_after_the_interceptor() -> None:
    assert (
        python_path([{"name": "PYTHONPATH", "value": "/a:/b"}])["PYTHONPATH"] == "/opt/fluence-staged:/a:/b"
    )
    assert python_path([{"name": "PYTHONPATH", "value": ""}])["PYTHONPATH"] == "/opt/fluence-staged"
    assert python_path([])["PYTHONPATH"] == "/opt/fluence-staged"


def test_last_of_several_python_paths_counts() -> None:
    twice: list[dict[str, object]] = [
        {"name": "PYTHONPATH", "value": "/a"},
        {"name": "PYTHONPATH", "value": "/b"},
    ]
    assert python_path(twice)["PYTHONPATH"] == "/opt/fluence-staged:/b"


def test_python_path_from_a_config_map_counts_too() -> None:
    source = {"configMapKeyRef": {"name": "paths", "key": "python"}}
    found = python_path([{"name": "PYTHONPATH", "valueFrom": source}])
    assert found["PYTHONPATH"] == "/opt/fluence-staged:$(FLUENCE_USERS_PYTHONPATH)"
    assert found["FLUENCE_USERS_PYTHONPATH"] == "configMapKeyRef"
    assert list(found).index("FLUENCE_USERS_PYTHONPATH") < list(found).index("PYTHONPATH")


def test_consumer_gets_its_producers_backend() -> None:
    body = grouped(container(asks={QPU: "1"}), mode="shared", index="2")
    found = env(admitted(body))
    assert found["FLUXION_BACKEND"] == annotation("producer.fluence.flux-framework.org/backend")
    assert found["FLUXION_VENDOR"] == annotation("producer.fluence.flux-framework.org/attr-vendor")
    assert found["QRMI_JOB_QPU_TYPES"] == annotation("producer.fluence.flux-framework.org/attr-qrmi_type")


def test_consumer_with_a_device_of_its_own_gets_that_backend() -> None:
    found = env(admitted(grouped(container(asks={QPU: "1", QUBIT: "3"}), mode="shared", index="2")))
    assert found["FLUXION_BACKEND"] == BACKEND
