"""examples/: numbered, for our scheduler, small enough for the demo's cluster, and explained."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.names import (
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    REQUIRE_PREFIX,
    RESOURCE_PREFIX,
    SCHEDULER_NAME,
)
from tests.e2e.kubelet_admission import quantity

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("[0-9]*.yaml"))
Manifest = dict[str, Any]


def documents(example: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(example.read_text()) if document]


def pods(example: Path) -> list[Manifest]:
    """Every pod, or pod template, with ``count`` saying how many pods it makes."""
    found = []
    for document in documents(example):
        spec = document.get("spec", {})
        if document["kind"] == "Pod":
            found.append({**document, "count": 1})
        elif "template" in spec:
            found.append({**spec["template"], "count": spec.get("replicas", spec.get("parallelism", 1))})
    return found


def test_they_are_numbered_without_a_gap() -> None:
    numbers = [int(example.name.partition("-")[0]) for example in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) == 12


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_says_how_to_run_it_and_what_to_expect(example: Path) -> None:
    head = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), example.read_text().splitlines()))
    assert f"kubectl apply -f examples/{example.name}" in head
    assert "# Expect: " in head


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_is_for_our_scheduler(example: Path) -> None:
    schedulers = [pod["spec"].get("schedulerName") for pod in pods(example)]
    expected = [SCHEDULER_NAME, None] if example.stem == "09-default-scheduler" else [SCHEDULER_NAME]
    assert sorted(set(schedulers), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_size_said_is_the_number_of_members(example: Path) -> None:
    said: dict[str, set[int]] = {}
    made: dict[str, int] = {}
    for pod in pods(example):
        group = pod["metadata"].get("labels", {}).get(GROUP_LABEL)
        size = pod["metadata"].get("annotations", {}).get(GROUP_SIZE_ANNOTATION)
        if group and size:
            said.setdefault(group, set()).add(int(size))
            made[group] = made.get(group, 0) + pod["count"]
    assert said == {group: {count} for group, count in made.items()}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_pods_of_a_job_end_where_no_kubelet_runs_them(example: Path) -> None:
    for document in documents(example):
        if document["kind"] == "Job":
            annotations = document["spec"]["template"]["metadata"]["annotations"]
            assert "demo.fluence.flux-framework.org/run-for" in annotations


def test_all_that_can_run_fits_on_six_nodes_of_four_cpus_at_once() -> None:
    wanted = {
        example.stem: sum(
            pod["count"] * quantity(part["resources"]["requests"]["cpu"])
            for pod in pods(example)
            for part in pod["spec"]["containers"]
        )
        for example in EXAMPLES
    }
    assert wanted.pop("08-too-big") > 24
    assert sum(wanted.values()) <= 24


def test_no_two_examples_of_any_folder_are_one_gang(project: Path) -> None:
    said: dict[str, set[Path]] = {}
    for example in (project / "examples").rglob("[0-9]*.yaml"):
        for pod in pods(example):
            if group := pod.get("metadata", {}).get("labels", {}).get(GROUP_LABEL):
                said.setdefault(group, set()).add(example)
    assert said
    assert {group: files for group, files in said.items() if len(files) > 1} == {}


def test_the_folder_can_be_applied_as_a_whole(project: Path) -> None:
    files = sorted((project / "examples").glob("*.yaml"))
    assert files == EXAMPLES
    assert all("kind" in document for file in files for document in documents(file))


def test_no_two_examples_make_the_same_object() -> None:
    names = [
        (document["kind"], document["metadata"]["name"])
        for example in EXAMPLES
        for document in documents(example)
    ]
    assert len(names) == len(set(names))


def test_the_example_devices_are_valid_and_serve_the_quantum_example(project: Path) -> None:
    devices = parse_resources((project / "examples" / "devices" / "resources.yaml").read_text())
    vendors = {one.name: one.attributes["vendor"] for one in devices.resources}
    assert vendors == {"ibm_fez": "ibm", "rigetti_ankaa": "rigetti"}
    (pod,) = pods(project / "examples" / "07-quantum.yaml")
    requested = {
        name.removeprefix(RESOURCE_PREFIX)
        for part in pod["spec"]["containers"]
        for name in part["resources"]["requests"]
        if name.startswith(RESOURCE_PREFIX)
    }
    assert requested <= set(devices.types)
    assert pod["metadata"]["annotations"][f"{REQUIRE_PREFIX}vendor"] in vendors.values()
