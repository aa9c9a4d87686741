"""The manifests that the demo applies, from ``deploy/`` and ``examples/`` of the clone from which it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fluence_extender.localcluster import LocalClusterError
from fluence_extender.model.names import DEFAULT_NAMESPACE, RESOURCES_CONFIGMAP, RESOURCES_KEY

CLONE = Path(__file__).parents[2]


def folder(name: str) -> Path:
    """Return the folder ``deploy`` or ``examples``. Raise `LocalClusterError` outside a clone."""
    if not (CLONE / name).is_dir():
        raise LocalClusterError(f"the folder {name}/ is not there: run the demo from a clone of the project")
    return CLONE / name


def shipped(*names: str) -> list[dict[str, Any]]:
    """Return the objects of these files of ``deploy/base`` (``gate``: an admission policy with its binding)."""
    base = folder("deploy") / "base"
    return [document for name in names for document in read(base / f"{name}.yaml")]


def devices_file() -> Path:
    """Return the resources.yaml of the examples. Raise `LocalClusterError` outside a clone."""
    return folder("examples") / "devices" / "resources.yaml"


def devices() -> dict[str, Any]:
    """Return the ConfigMap with the virtual resources, which may be edited while the demo runs."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RESOURCES_CONFIGMAP, "namespace": DEFAULT_NAMESPACE},
        "data": {RESOURCES_KEY: devices_file().read_text()},
    }


def examples() -> list[Path]:
    """Return the numbered examples, in order."""
    return sorted(folder("examples").glob("[0-9]*.yaml"))


def read(file: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]
