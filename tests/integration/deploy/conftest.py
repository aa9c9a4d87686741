"""The project's folder, and what kustomize makes of deploy/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.deploy.rendered import by_name, rendered

Manifest = dict[str, Any]


@pytest.fixture(scope="session")
def project() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def deployed(project: Path) -> dict[str, list[Manifest]]:
    """The objects of ``deploy`` and ``deploy/quantum``, as kustomize renders them."""
    return {folder: rendered(project / folder) for folder in ("deploy", "deploy/quantum")}


@pytest.fixture(scope="session")
def objects(deployed: dict[str, list[Manifest]]) -> dict[tuple[str, str], Manifest]:
    """The objects of ``deploy`` by kind and name."""
    return by_name(deployed["deploy"])
