"""The manifests that the demo applies, from ``examples/`` of the clone from which it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fluence_extender.demo import DemoError

EXAMPLES = Path(__file__).parents[2] / "examples"


def devices_file() -> Path:
    """Return the resources.yaml of the examples. Raise `DemoError` outside a clone."""
    return _examples() / "devices" / "resources.yaml"


def examples() -> list[Path]:
    """Return the numbered examples, in order. Raise `DemoError` outside a clone."""
    return sorted(_examples().glob("[0-9]*.yaml"))


def read(file: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def _examples() -> Path:
    if not EXAMPLES.is_dir():
        raise DemoError("the folder examples/ is not there: run the demo from a clone of the project")
    return EXAMPLES
