"""What `simulate` says of each situation: a pair of manifests and the answer, in the folder ``situations``."""

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
SITUATIONS = sorted((HERE / "situations").glob("*.yaml"))


def cluster(name: str) -> ClusterObjects:
    content = (HERE / "clusters" / f"{name}.yaml").read_bytes()
    return cluster_objects(read_cluster(manifests_as_json([ManifestSource(name, content)])))


@pytest.mark.parametrize("path", SITUATIONS, ids=lambda path: path.stem)
def test_answer_is_the_one_in_the_file(path: Path) -> None:
    pair: dict[str, Any] = yaml.safe_load(path.read_text())
    manifests = manifests_as_json([ManifestSource(path.name, yaml.safe_dump_all(pair["manifests"]).encode())])
    resources = yaml.safe_dump(pair["resources"]) if "resources" in pair else ""
    levels = {"rack": "example.com/rack"}
    document = simulate_offline(manifests, cluster(pair["cluster"]), resources, levels, "lonode")
    assert "".join(f"{line}\n" for line in answer_lines(document)) == pair["answer"]
    assert document["fits"] is pair["fits"]
