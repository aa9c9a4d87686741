"""examples/workloads: numbered, explained, for our scheduler, and the gangs that they say, as `simulate` reads them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.apps.cli.offline import cluster_objects, simulate_offline
from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
from fluence_extender.model.names import ZONE
from fluence_extender.whatif.documents import as_json

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "workloads"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
DEVICES = (FOLDER.parent / "devices" / "resources.yaml").read_text()
GANGS = {
    "01-mpi": {"mpi": 5},
    "02-pytorch": {"torch": 4},
    "03-ray": {"ray": 4},
    "04-leaderworkerset": {"serve-0/1": 3, "serve-1/1": 3},
    "05-minicluster": {"flux": 3},
    "06-qpu-and-postprocessing": {"sample-0": 1, "evaluate": 4},
    "07-array": {f"scan-{number}": 1 for number in range(6)},
}
"""By example: the gangs that it makes, each with its number of pods."""


def node(name: str) -> dict[str, Any]:
    labels = {ZONE: "a", "kubernetes.io/hostname": name}
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


WAITS = {"06-qpu-and-postprocessing": {"default/evaluate": "waits for Job sample to succeed"}}
"""The gangs that wait for others of the same example, and why."""


def simulated(example: Path, nodes: int = 6) -> dict[str, Any]:
    cluster = cluster_objects(("Node", as_json(node(f"n{number}"))) for number in range(nodes))
    manifests = manifests_as_json([ManifestSource(example.name, example.read_bytes())])
    return simulate_offline(manifests, cluster, DEVICES, {"zone": ZONE}, "lonode")


def test_they_are_numbered_and_each_is_known_here() -> None:
    assert [one.stem for one in EXAMPLES] == list(GANGS)
    assert [int(one.name[:2]) for one in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_says_how_to_run_it_and_what_to_expect(example: Path) -> None:
    head = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), example.read_text().splitlines()))
    assert f"kubectl apply -f examples/workloads/{example.name}" in head
    assert "# Expect: " in head


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_makes_the_gangs_it_says_and_they_fit_the_demos_nodes(example: Path) -> None:
    answer = simulated(example)
    found = {one["gang"].removeprefix("default/"): one["members"] for one in answer["gangs"]}
    assert found == GANGS[example.stem]
    waits = {one["gang"]: one["reason"] for one in answer["gangs"] if not one["fits"]}
    assert waits == WAITS.get(example.stem, {})
    # What isn't simulated is not a part of a gang, and no key is misspelt.
    assert answer["ignored"] in ([], ["Service default/torch"])
    assert not [note for note in answer["notes"] if "does nothing" in note or "schedulerName" in note]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_gang_is_placed_whole_or_not_at_all(example: Path) -> None:
    for gang in simulated(example, nodes=1)["gangs"]:
        assert gang["fits"] == (len(gang["placement"]) == gang["members"])


def test_no_two_make_the_same_object() -> None:
    objects = [
        (one["kind"], one["metadata"]["name"])
        for file in EXAMPLES
        for one in yaml.safe_load_all(file.read_text())
    ]
    assert len(objects) == len(set(objects))
