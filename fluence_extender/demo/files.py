"""The manifests that the demo applies: those of ``deploy/`` and ``examples/``, from the clone or from the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fluence_extender.localcluster import LocalClusterError

PACKAGED = Path(__file__).parent / "manifests"
CLONE = Path(__file__).parents[2]


def folder(name: str) -> Path:
    """The folder ``deploy`` or ``examples``. Raises `LocalClusterError` where the installation lacks it."""
    for root in (CLONE, PACKAGED):
        if (root / name).is_dir():
            return root / name
    raise LocalClusterError(f"the folder {name}/ is not installed: run the demo from a clone of the project")


def gate_policy() -> list[dict[str, Any]]:
    """The MutatingAdmissionPolicy that gates our pods, with its binding."""
    return read(folder("deploy") / "base" / "gate.yaml")


def examples() -> list[Path]:
    """The numbered examples, in order."""
    return sorted(folder("examples").glob("[0-9]*.yaml"))


def read(file: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]
