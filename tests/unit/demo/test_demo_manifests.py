"""The manifests that the demo applies."""

from __future__ import annotations

from fluence_extender.demo.manifests import devices, examples
from fluence_extender.graph.resources_file import parse_resources


def test_devices_are_those_of_the_example_in_the_default_config_map() -> None:
    config_map = devices()
    assert (config_map["metadata"]["namespace"], config_map["metadata"]["name"]) == (
        "fluence-system",
        "fluence-resources",
    )
    parsed = parse_resources(config_map["data"]["resources.yaml"])
    assert [one.name for one in parsed.resources] == ["ibm_fez", "rigetti_ankaa"]


def test_examples_are_the_numbered_files() -> None:
    assert [file.name[:2] for file in examples()] == [f"{number:02}" for number in range(1, 13)]
