"""examples/quantum: numbered, explained, for backends that its resources.yaml names, with the image that is shipped."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender import __version__
from fluence_extender.coordination.registry import OWN, resolve
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.names import REQUIRE_PREFIX, SCHEDULER_NAME

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "quantum"
EXAMPLES = sorted(FOLDER.glob("[0-9]*.yaml"))
Manifest = dict[str, Any]


def documents(example: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(example.read_text()) if document]


def pods(example: Path) -> list[Manifest]:
    """The pods and pod templates of an example that are ours."""
    found = [one if one["kind"] == "Pod" else one["spec"].get("template", {}) for one in documents(example)]
    return [one for one in found if one.get("spec", {}).get("schedulerName") == SCHEDULER_NAME]


def test_they_are_numbered_without_a_gap() -> None:
    assert [int(one.name.partition("-")[0]) for one in EXAMPLES] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_says_how_to_run_it_and_what_to_expect(example: Path) -> None:
    head = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), example.read_text().splitlines()))
    assert f"kubectl apply -f examples/quantum/{example.name}" in head
    assert "# Expect: " in head


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_asks_for_a_backend_that_a_provider_knows(example: Path) -> None:
    configured = parse_resources((FOLDER / "resources.yaml").read_text()).resources
    (pod,) = pods(example)
    vendor = pod["metadata"]["annotations"][f"{REQUIRE_PREFIX}vendor"]
    (backend,) = [one for one in configured if one.attributes["vendor"] == vendor]
    assert resolve({**backend.attributes, "backend": backend.name}, OWN) is not None
    asked = pod["spec"]["containers"][0]["resources"]
    assert asked["requests"]["fluxion.flux-framework.org/qpu"] == "1"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_programs_are_python_and_images_are_the_shipped_one_or_public(example: Path) -> None:
    (pod,) = pods(example)
    (container,) = pod["spec"]["containers"]
    interpreter, option, program = container["command"]
    assert (interpreter, option) == ("python3", "-c")
    ast.parse(program)
    assert container["image"] in (f"fluence-extender:{__version__}", "python:3.12-slim")


def test_no_two_examples_make_the_same_object() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for example in EXAMPLES for one in documents(example)]
    assert len(names) == len(set(names))
