"""The manifests that the demo applies."""

from __future__ import annotations

from fluence_extender.demo.manifests import devices_file, examples
from fluence_extender.graph.resources_file import parse_resources


def test_devices_are_those_of_the_example() -> None:
    parsed = parse_resources(devices_file().read_text())
    assert [resource.name for resource in parsed.resources] == ["ibm_fez", "rigetti_ankaa"]


def test_examples_are_the_numbered_files() -> None:
    assert [file.name[:2] for file in examples()] == [f"{number:02}" for number in range(1, 13)]
