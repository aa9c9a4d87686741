"""What the demo applies besides the examples."""

from __future__ import annotations

from fluence_extender.demo.files import devices, examples
from fluence_extender.graph.resources_file import parse_resources


def test_devices_are_those_of_the_example_as_the_services_default_config_map() -> None:
    made = devices()
    assert (made["metadata"]["namespace"], made["metadata"]["name"]) == ("kube-system", "fluence-resources")
    parsed = parse_resources(made["data"]["resources.yaml"])
    assert [one.name for one in parsed.resources] == ["ibm_fez", "rigetti_ankaa"]


def test_the_examples_are_the_numbered_ones() -> None:
    assert [file.name[:2] for file in examples()] == [f"{number:02}" for number in range(1, 11)]
