"""A clone as the texts speak of it: with the files that users have of their own in it, and their overlay beside it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import yaml

from tests.docs.reading import ROOT

OVERLAY = re.compile(r"<<'END'\n(.*?)\nEND\n", re.DOTALL)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}},
}


def make_clone(folder: Path) -> Path:
    """Make such a clone in ``folder``, of the parts that commands read, and return its path."""
    clone = folder / "fluence-extender"
    for part in ("deploy", "examples"):
        shutil.copytree(ROOT / part, clone / part)
    found = OVERLAY.search((ROOT / "README.md").read_text())
    assert found
    overlay = folder / "fluence"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(found[1])
    for name in ("train.yaml", "job.yaml"):
        shutil.copy(ROOT / "examples" / "03-gang-by-job.yaml", clone / name)
    objects = [*yaml.safe_load_all((clone / "job.yaml").read_text())]
    (clone / "job.json").write_text(json.dumps(objects))
    shutil.copy(ROOT / "examples" / "devices" / "resources.yaml", clone)
    (clone / "cluster.yaml").write_text(yaml.safe_dump(NODE))
    (clone / "sampler.json").write_text("{}")
    (clone / "fluence-ca.crt").write_text("")
    (clone / "dist").mkdir()
    (clone / "dist" / "install.yaml").write_text(yaml.safe_dump(NODE))
    return clone
