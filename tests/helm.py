"""Helm, built from its Go module."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.go_programs import built

VERSION = "v3.22.0"
CHART = Path(__file__).parents[1] / "deploy" / "helm"


def helm(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What Helm did with ``arguments``, whether it failed or not."""
    command = [program(), *arguments, *(("--kubeconfig", kubeconfig) if kubeconfig else ())]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def program() -> Path:
    """Its path. From nothing that takes about four minutes on two cores, downloads included."""
    return built("helm", "helm.sh/helm/v3", VERSION, "cmd/helm")
