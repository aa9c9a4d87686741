"""What `simulate` says of each situation and of each example: pairs of manifests and the answer.

They are in the folder ``situations``. ``manifests`` and ``resources`` are written there or name a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.apps.cli.offline import ClusterObjects, cluster_objects, simulate_offline
from fluence_extender.apps.kubectl.simulate import answer_lines
from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
from fluence_extender.whatif.documents import read_cluster

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SITUATIONS = sorted((HERE / "situations").glob("*.yaml"))


def read_pair(path: Path) -> dict[str, Any]:
    """Return a pair with the manifests and resources that it names."""
    pair: dict[str, Any] = yaml.safe_load(path.read_text())
    if isinstance(pair["manifests"], str):
        pair["manifests"] = list(yaml.safe_load_all((ROOT / pair["manifests"]).read_text()))
    if isinstance(pair.get("resources"), str):
        pair["resources"] = yaml.safe_load((ROOT / pair["resources"]).read_text())
    return pair


def test_each_example_is_a_situation() -> None:
    examples = [
        *ROOT.glob("examples/*.yaml"),
        *ROOT.glob("examples/quantum/0*.yaml"),
        *ROOT.glob("examples/workloads/*.yaml"),
    ]
    named = {yaml.safe_load(path.read_text())["manifests"] for path in SITUATIONS if "example-" in path.name}
    assert named == {str(path.relative_to(ROOT)) for path in examples}


def cluster(name: str) -> ClusterObjects:
    content = (HERE / "clusters" / f"{name}.yaml").read_bytes()
    return cluster_objects(read_cluster(manifests_as_json([ManifestSource(name, content)])))


@pytest.mark.parametrize("path", SITUATIONS, ids=lambda path: path.stem)
def test_answer_is_the_one_in_the_file(path: Path) -> None:
    pair = read_pair(path)
    manifests = manifests_as_json([ManifestSource(path.name, yaml.safe_dump_all(pair["manifests"]).encode())])
    resources = yaml.safe_dump(pair["resources"]) if "resources" in pair else ""
    levels = {"zone": "topology.kubernetes.io/zone", "rack": "example.com/rack"}
    document = simulate_offline(manifests, cluster(pair["cluster"]), resources, levels, "lonode")
    assert "".join(f"{line}\n" for line in answer_lines(document)) == pair["answer"]
    assert document["fits"] is pair["fits"]
